"""What texts about an object quote of it: the examples of all rules, with canaries wherever nothing may be quoted."""

from __future__ import annotations

import io
import json
import re
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.base.quotable import Quotable, words_of
from podfit.base.secret import WITHHELD
from podfit.cli import check, explain, main
from podfit.evaluation import quoting, review
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import manifest
from podfit.kube.workload import find
from podfit.report import comparison
from podfit.rules import all_rules
from podfit.rules.rule import Place
from podfit.vllm.facts import Facts
from scripts.docs import beside, examples
from tests import reviews

JSONDict = dict[str, Any]
EXAMPLES = [
    pytest.param(rule, path, id=f"{rule}/{path.stem}") for rule in all_rules() for path in examples(rule, "bad")
]

VARIABLES = {
    "GOOGLE_CREDENTIALS_JSON": '{"private": "Canary0a", "text": "canaryword"}',
    "PASSWD_FILE_CONTENT": "admin:Canary1b:0:0",
    "NOTES": "canaryword",
    "VLLM_API_KEY": "Canary2c",
}
ARGUMENTS = (
    "--api_keyy", "Canary3d", "--hf-overrides", '{"note": "Canary4e", "list": ["canaryword"]}',
    "--additional-config={\"note\": {\"deep\": \"Canary5f\"}}", "--api-kye=canaryword",
    "--no-such=$(PASSWD_FILE_CONTENT)", "--max-num-seqs", "$(NOTES)",
)  # fmt: skip
SCRIPT = (
    "# canaryword\nset -- Canary6g canaryword\nK=(Canary7h Canary8i)\nread -r R <<< Canary9j\n"
    "printf -v P %s Canary10k\n"
    "curl -H 'X-Key: Canary11l' -u admin:Canary12m https://x/y\n"
)
SCRIPT_ARGUMENTS = ' --api-key "$1" "${K[1]}" --no-such "$R" --tag="${P:-Canary13n}" --api_keyy Canary14o'
ANNOTATION = "Canary15p canaryword"
HEADER = "Canary16q"


def leaks(text: str) -> list[str]:
    """The canaries in a text, in any case."""
    return sorted({*re.findall(r"canary\w*", text.lower())})


def planted(obj: JSONDict) -> JSONDict:
    """The object with canaries in all of its vLLM containers."""
    obj = deepcopy(obj)
    obj.setdefault("metadata", {}).setdefault("annotations", {})["example.com/note"] = ANNOTATION
    for workload in find(obj):
        for container in workload.containers:
            spec = container.path.get(obj)
            if isinstance(spec, dict):
                _plant(spec)
    return obj


def _plant(spec: JSONDict) -> None:
    spec["env"] = [*(spec.get("env") or []), *({"name": name, "value": text} for name, text in VARIABLES.items())]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if isinstance(spec.get(probe), dict) and isinstance(spec[probe].get("httpGet"), dict):
            spec[probe]["httpGet"]["httpHeaders"] = [{"name": "X-Key", "value": HEADER}]
    words = [*(spec.get("command") or []), *(spec.get("args") or [])]
    if not all(isinstance(word, str) for word in words):
        return
    field = "command" if spec.get("command") and not spec.get("args") else "args"
    if {"sh", "bash", "/bin/sh", "/bin/bash"} & {*words}:
        if isinstance(spec.get(field), list):
            spec[field] = [*spec[field][:-1], f"{SCRIPT}{spec[field][-1].rstrip()}{SCRIPT_ARGUMENTS}"]
    else:
        spec[field] = [*(spec.get(field) or []), *ARGUMENTS]


def texts(path: Path, obj: JSONDict, facts: Facts) -> Iterator[str]:
    """All texts of all findings of the object, where files are checked and where an API server asks."""
    places: tuple[Place, ...] = ("check", "admission")
    for where in places:
        report = lint(obj, builtin(), facts, where=where)
        for judged in report.findings:
            finding = judged.finding
            yield from (finding.message, *finding.details, *judged.suggestions, judged.why_softened or "", judged.path)
        yield from (error.error for error in report.errors)


@pytest.mark.parametrize(("rule", "path"), EXAMPLES)
def test_no_finding_quotes_what_is_not_for_messages(rule: str, path: Path) -> None:
    read = manifest.read(path.read_bytes(), path.name)
    facts = beside(read)
    for document in read.documents:
        found = [text for text in texts(path, planted(document.object), facts) if leaks(text)]

        assert found == []


def ran(*words: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        main(words)
    return out.getvalue() + err.getvalue()


def without_patches(text: str) -> str:
    """The JSON without patches, which are applied and never masked, and what follows it."""
    try:
        tree, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return text
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            node.pop("patch", None)
            node.pop("fix", None)
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    return json.dumps(tree) + text[end:]


@pytest.mark.parametrize("number", range(0, len(EXAMPLES), 9))
def test_no_output_quotes_it(number: int, tmp_path: Path) -> None:
    """Every ninth example, in all formats."""
    _, path = EXAMPLES[number].values
    documents = manifest.read(Path(str(path)).read_bytes(), "x").documents
    file, before = tmp_path / "pod.yaml", tmp_path / "before.yaml"
    file.write_text(yaml.safe_dump_all([planted(one.object) for one in documents]))
    before.write_text(Path(str(path)).read_text())
    outputs = {
        **{f"check {one}": ran("check", "--audit", "-v", "--format", one, str(file)) for one in check.FORMATS.names},
        **{f"explain {one}": ran("explain", "--format", one, str(file)) for one in explain.FORMATS},
        **{f"diff {one}": ran("diff", "--format", one, str(before), str(file)) for one in comparison.FORMATS},
    }
    for document in documents:
        if document.object["kind"] in reviews.RESOURCES:
            body = json.dumps(reviews.admission_review(planted(document.object))).encode()
            decision = review.decide("validate", review.parse(body), builtin(), Facts())
            outputs["validate"] = json.dumps(decision.answer["response"])
    assert {name: leaks(without_patches(out)) for name, out in outputs.items() if leaks(without_patches(out))} == {}


SOURCE = """\
apiVersion: v1
kind: Pod
metadata: {name: llama}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.27.1
    command: [bash, -c]
    args:
    - export NOTE=canaryword; vllm serve Qwen/Qwen3-8B --no-such Canary1a --max-model-len 4k5 # canaryword
    env:
    - {name: VLLM_USE_V1, value: "1"}
    resources: {limits: {nvidia.com/gpu: "1"}}
"""


def test_a_line_of_the_file_has_only_what_may_be_quoted(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(SOURCE)
    out = ran("check", "-v", str(tmp_path / "pod.yaml"))

    assert "vllm serve Qwen/Qwen3-8B --no-such ******** --max-model-len 4k5" in out
    assert leaks(out) == []
    assert "canaryword" in ran("check", "-v", "--show-secrets", str(tmp_path / "pod.yaml"))


@pytest.mark.parametrize(
    "script",
    [
        'K=(x Canary1a); vllm serve Qwen/Qwen3-8B --api-key "${K[1]}" --no-such "${K[1]}"',
        'set -- Canary1a; vllm serve Qwen/Qwen3-8B --api-key $1 --max-num-seqs "$1"',
        'read -r K <<< Canary1a; vllm serve Qwen/Qwen3-8B --api-key $K --dtype "$K" --bogus=$K',
        "for K in Canary1a; do vllm serve Qwen/Qwen3-8B --api-key $K --dtype $K; done",
        "printf -v K %s Canary1a; vllm serve Qwen/Qwen3-8B --api-key $K --max-model-len $K",
        'vllm serve Qwen/Qwen3-8B --api-key "${K:-Canary1a}" --quantization "${K:-Canary1a}"',
        "K=Canary1a; vllm serve Qwen/Qwen3-8B --no-such=${K:0:7} --dtype ${K%a} --bogus x${K#C}",
        "HF_TOKEN=xxCanary1a; vllm serve Qwen/Qwen3-8B --max-num-seqs ${HF_TOKEN:2}",
        "T=of-Canary1a.x1; U=${T#of-}; vllm serve Qwen/Qwen3-8B --max-num-seqs ${U%.x1} --dtype ${T:3:8}",
        'vllm serve Qwen/Qwen3-8B --bogus "$(cat <<< Canary1a)" --load-format "$(echo Canary1a)"',
        "f() { vllm serve Qwen/Qwen3-8B --api-key $1 --dtype $1; }; f Canary1a",
        "eval \"vllm serve Qwen/Qwen3-8B --api-key 'Canary1a' --max-num-seqs $(hostname)Canary1a\"",
        "vllm serve 'Qwen/Qwen3-8B --api-key Canary1a",
        "vllm serve Qwen/Qwen3-8B --api_keyy Canary1a Canary1a --kv-transfer-config.extra.note Canary1a",
        'vllm serve Qwen/Qwen3-8B --hf-overrides \'{"a": ["Canary1a"], b}\' -—x Canary1a',
        "case $X in Canary1a) vllm serve Qwen/Qwen3-8B --bogus;; esac; trap Canary1a EXIT; curl https://x/Canary1a",
    ],
)
def test_no_text_quotes_a_script(script: str, tmp_path: Path) -> None:
    pod = yaml.safe_load(SOURCE)
    pod["spec"]["containers"][0]["args"] = [script]
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    for one in check.FORMATS.names:
        out = without_patches(ran("check", "--audit", "-v", "--format", one, str(tmp_path / "pod.yaml"))).lower()
        assert "anary1" not in out
        assert out


PARAMETERS = {"arguments": {"parameters": [{"name": "note", "value": "swordfish marmalade"}]}, "entrypoint": "a"}


@pytest.mark.parametrize(
    "container",
    [
        {"args": ['vllm serve Qwen/Qwen3-8B --hf-overrides \'{"a": "swordfish marmalade"\'']},
        {"args": ['O=\'{"a": "swordfish marmalade"\'; vllm serve Qwen/Qwen3-8B --speculative-config "$O"']},
        {"args": ["vllm serve Qwen/Qwen3-8B --gpu-memory-utilization $(echo swordfish marmalade | cut -c 1)"]},
        {"args": ["vllm serve Qwen/Qwen3-8B --max-num-seqs ${N/swordfish/marmalade}"]},
        {"args": ["vllm serve $(echo swordfish marmalade | tr a b)"]},
        {"args": ["M='swordfish marmalade'; vllm serve \"$M\""]},
        {"command": ["bash", "/run.sh"], "args": ["swordfish marmalade"]},
        {"command": ["bash", "/run.sh"], "args": ["swordfish9marmalade"]},
        {"command": ["vllm", "serve"], "args": ["Qwen/Qwen3-8B", "--bogus=$(NOTE)"]},
        {"command": ["vllm", "serve"], "args": ["https://x/m?key=swordfish marmalade"]},
        {"command": ["vllm", "serve"], "args": ["Qwen/Qwen3-8B", "--bogus={{workflow.parameters.note}}"]},
        {"command": ["vllm", "serve"], "args": ["Qwen/Qwen3-8B", "--dtype", "{{workflow.parameters.note}}"]},
        {
            "command": ["vllm", "serve"],
            "args": ["Qwen/Qwen3-8B"],
            "env": [{"name": "VLLM_PORT", "value": "tcp://$(NOTE)"}],
        },
    ],
)
def test_no_text_quotes_ordinary_words_of_a_value(container: JSONDict, tmp_path: Path) -> None:
    """Words that podfit might say itself: of JSON, of what a shell substitutes, of variables and parameters, and the
    first argument of a script that podfit can't read."""
    pod = yaml.safe_load(SOURCE)
    pod["spec"]["containers"][0].update(container)
    pod["spec"]["containers"][0]["env"] = [{"name": "NOTE", "value": "swordfish marmalade"}, *container.get("env", ())]
    template = {"name": "a", "container": pod["spec"]["containers"][0]}
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "a"},
        "spec": {**PARAMETERS, "templates": [template]},
    }
    is_filled = any("{{" in text for text in container["args"])
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump(workflow if is_filled else pod))
    outputs = [ran("check", "--audit", "-v", "--format", form, str(file)) for form in check.FORMATS.names]
    outputs += [ran("explain", "--format", form, str(file)) for form in explain.FORMATS]

    assert [line for out in outputs for line in without_patches(out).splitlines() if "swordfish" in line] == []
    assert any(
        "swordfish" in ran("check", "-v", "--show-secrets", "--format", form, str(file)) for form in ("text", "json")
    )


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("env NOTE has 'swordfish'", {"swordfish"}),
        ("NOTE=swordfish is set", {"swordfish"}),
        ("a swordfish is a word of the text", set()),
        ("unknown value Zq7.w-9 of NOTE", {"Zq7.w-9"}),
        ("'swordfish Zq7.w-9 and 3'", {"swordfish", "Zq7.w-9"}),
        ("'swordfish is no model'", set()),
        ("the beginning swor… and the end …fish", {"swor", "fish"}),
        ("a line break\\nZq7.w-9", {"Zq7.w-9"}),
        ("llama-8b and 'llama-8b' are public", set()),
        ("PORT is 'tcp://swordfish'", {"swordfish"}),
        ("the program is 'swordfish model'", set()),
        ('--json \'{"llama-8b": "swordfish", broken\' is not JSON', {"swordfish"}),
        ("command substitution $(cat (swordfish) model) of a swordfish", {"swordfish"}),
        ("unrecognized arguments: --a swordfish. See a swordfish", {"swordfish"}),
        ("unrecognized arguments: --a\nsee a swordfish", set()),
        ("Value swordfish cannot be converted to <function loads>.", {"swordfish"}),
    ],
)
def test_the_origin_of_a_word_decides_whether_it_is_hidden(text: str, hidden: set[str]) -> None:
    words = Quotable(words_of(["swordfish Zq7.w-9 llama-8b model"]), lambda: words_of(["llama-8b model"]))

    shown = {text[start:end] for start, end in words.spans(text)}

    assert shown == hidden


def test_the_public_words_are_made_only_for_a_text_that_has_a_private_one() -> None:
    words = Quotable(words_of(["swordfish 8192 auto"]), lambda: pytest.fail("made"))

    assert words.spans("an 'auto' model of 'podfit' and 8192 tokens") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("HF_HOME=/a/config.json", {"hf-home", "hf", "home", "a", "config.json", "config", "json"}),
        (r"a\nb-c \x41d", {"a", "nb-c", "nb", "b-c", "c", "x41d", "d"}),
        ("Größe_1", {"größe-1", "gr", "e", "1"}),
        ("_leading trailing_", {"-leading", "leading", "trailing-", "trailing"}),
        ("'' -- …", set()),
    ],
)
def test_the_words_of_a_text_and_their_parts(text: str, words: set[str]) -> None:
    assert words_of([text]) == words
    assert words_of([text, "other"]) == words | {"other"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"args": [SCRIPT + "vllm serve Qwen/Qwen3-8B" + SCRIPT_ARGUMENTS], "command": ["bash", "-c"]},
        {"args": ["vllm serve Qwen/Qwen3-8B --no-such Canary1a || vllm serve -mCanary2b"], "command": ["sh", "-c"]},
        {"args": ["serve", "Qwen/Qwen3-8B", *ARGUMENTS, "-O3", "https://x/y?key=Canary1a"], "command": ["vllm"]},
    ],
)
def test_each_private_word_of_a_command_is_found_without_sorting_its_words(arguments: JSONDict) -> None:
    pod = yaml.safe_load(SOURCE)
    pod["spec"]["containers"][0] |= arguments
    engines = [result.engine for result in lint(pod, builtin(), Facts()).results]
    words = quoting.quotable(pod, engines)
    texts = quoting._Texts([], [])
    for engine in engines:
        quoting._add_engine(engine, pod, texts)

    assert words is not None
    assert any(word.startswith("canary") for word in words.private)
    assert words_of(texts.private) - words.public <= words.private


def test_the_search_for_words_keeps_each_once() -> None:
    text = "ab cd-ef " * (1 << 16)
    tracemalloc.start()
    words = words_of([text])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert words == {"ab", "cd-ef", "cd", "ef"}
    assert peak < 4 * len(text)


def test_the_search_for_hidden_words_is_linear() -> None:
    words = Quotable(words_of(["x1 y2"]))
    for text in ("'" * 60_000, "Value " * 10_000, "'a" * 30_000, "a-" * 30_000, "\\" * 60_000, "…x1" * 20_000):
        words.spans(text)
        words.spans_of_source(text)


@pytest.mark.parametrize("form", [name for name in check.FORMATS.names if name != "github"])
def test_no_text_is_a_command_for_the_runner_of_a_github_action(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's name and the words of a command, as text that begins a line and within one."""
    pod = yaml.safe_load(SOURCE)
    pod["spec"]["containers"][0].update(
        command=["vllm", "serve", "Qwen/Qwen3-8B"],
        args=[*["--dtype", f"{'x' * 70} ::error::a ##[add-mask]b"], "--quantization", f"{'y' * 60} ::warning::c"],
    )
    monkeypatch.chdir(tmp_path)
    Path("::error::pod.yaml").write_text(yaml.safe_dump(pod))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    out = ran("check", "-v", "--format", form, "::error::pod.yaml", "::notice::missing.yaml")

    assert not [line for line in out.splitlines() if line.lstrip().startswith("::") or "##[" in line]
    assert "error" in out
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert "# #[" not in ran("check", "-v", "--format", form, "::error::pod.yaml")


COMMANDS = (
    ("diagnose", "--format", "json", "crash.log"), ("diagnose", "crash.log"), ("report", "pod.yaml"),
    ("explain", "--format", "json", "pod.yaml"), ("explain", "--format", "markdown", "pod.yaml"),
    ("explain", "--on", "pod.yaml"), ("diff", "pod.yaml", "pod.yaml"), ("models", "search", "add-mask"),
    ("plan", "--format", "json", "--gpu", "l4", "--", "vllm", "serve", "a/##[add-mask]b"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_prints_one_for_the_runner_of_a_github_action(
    command: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and words of a log, also with a line break."""
    pod = yaml.safe_load(SOURCE)
    pod["metadata"] = {"name": "a##[add-mask]b\n::error::c", "labels": {"##[add-mask]": "d"}}
    pod["spec"]["containers"][0].update(command=["vllm", "serve", "a/##[add-mask]b"], args=["--bogus##[add-mask]"])
    monkeypatch.chdir(tmp_path)
    Path("pod.yaml").write_text(yaml.safe_dump(pod))
    Path("crash.log").write_text("ValueError: ##[add-mask]e\n::error::f\nRuntimeError: ##[add-mask]g\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    out = ran(*command)

    assert out
    assert [line for line in out.splitlines() if line.lstrip().startswith("::") or "##[" in line] == []


def calls(obj: JSONDict) -> int:
    """The number of calls that the evaluation of an object takes."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        lint(obj, builtin(), Facts())
    finally:
        sys.setprofile(None)
    return count


def many_containers(number: int) -> JSONDict:
    pod: JSONDict = yaml.safe_load(SOURCE)
    container = pod["spec"]["containers"][0]
    container.update(command=["vllm", "serve", "Qwen/Qwen3-8B", "--bogus"], args=[])
    pod["spec"]["containers"] = [{**container, "name": f"c{one}"} for one in range(number)]
    return pod


def many_flags(number: int) -> JSONDict:
    pod: JSONDict = many_containers(1)
    pod["spec"]["containers"][0]["args"] = [f"--no-such-{one}" for one in range(number)]
    return pod


@pytest.mark.parametrize("make", [many_containers, many_flags])
def test_the_work_grows_no_faster_than_the_object(make: Callable[[int], JSONDict]) -> None:
    calls(make(100))  # loads tables

    assert calls(make(400)) < 2.5 * calls(make(200))


def test_texts_about_a_very_large_object_are_withheld() -> None:
    pod = yaml.safe_load(SOURCE)
    pod["metadata"]["annotations"] = {"example.com/note": "Canary1a " * 400_000}
    report = lint(pod, builtin(), Facts())

    assert report.secrets.quotable is None
    assert {judged.finding.message for judged in report.findings} == {WITHHELD}
    assert report.secrets.source_line("- args: Canary1a") == WITHHELD


PROBE = {"path": "/helth?key=Canary1a", "port": 9, "httpHeaders": [{"name": "X", "value": "Canary1a"}]}


@pytest.mark.parametrize(
    ("container", "annotations"),
    [
        ({"args": ["Qwen/Qwen3-8B", "--api-keyCanary1a"]}, {}),
        ({"args": ["Qwen/Qwen3-8B", "api_key:", "Canary1a"]}, {}),
        ({"args": ["Qwen/Qwen3-8B", "--api-k", "Canary1a", "Canary1a", "--bogus"]}, {}),
        ({"args": ["Qwen/Qwen3-8B", "--otlp-traces-endpoint", "http://x/y?k=Canary1a"]}, {}),
        ({"args": ["Qwen/Qwen3-8B"], "env": [{"name": "X", "value": "Canary1a"},
                                            {"name": "VLLM_PORT", "value": "a$(X)"}]}, {}),
        ({"args": ["--model Qwen/Qwen3-8B --api_keyy Canary1a --note Canary1a"]}, {}),
        ({"args": ["Qwen/Qwen3-8B"], "livenessProbe": {"httpGet": PROBE, "timeoutSeconds": 1}}, {}),
        ({"args": ["Qwen/Qwen3-8B"]}, {"podfit.dev/model": "Canary1a"}),
        ({"args": ["Qwen/Qwen3-8B"]}, {"podfit.dev/modell": "Canary1a"}),
    ],
)  # fmt: skip
def test_no_output_quotes_a_misspelled_or_hidden_secret(
    container: JSONDict, annotations: JSONDict, tmp_path: Path
) -> None:
    pod = yaml.safe_load(SOURCE)
    pod["spec"]["containers"][0].update({"command": ["vllm", "serve"], **container})
    pod["metadata"]["annotations"] = annotations
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    outputs = [ran("report", str(tmp_path / "pod.yaml"))]
    outputs += [
        ran("check", "--audit", "-v", "--format", one, str(tmp_path / "pod.yaml")) for one in check.FORMATS.names
    ]
    outputs += [ran("explain", "--format", one, str(tmp_path / "pod.yaml")) for one in explain.FORMATS]

    assert [leaks(without_patches(out)) for out in outputs if leaks(without_patches(out))] == []


def test_what_may_be_quoted_is_quoted(tmp_path: Path) -> None:
    """The value of a known option, a variable of vLLM, and a choice in JSON."""
    pod = yaml.safe_load(SOURCE)
    pod["spec"]["containers"][0].update(
        command=["vllm", "serve"],
        args=["Qwen/Qwen3-8B", "--dtype", "floaat16x", "--kv-transfer-config", '{"kv_connector": "NixlConector1"}'],
        env=[{"name": "VLLM_PORT", "value": "tcp9"}],
    )
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    out = ran("check", "-v", "--format", "json", "--audit", str(tmp_path / "pod.yaml"))

    assert all(text in out for text in ("floaat16x", "NixlConector1", "tcp9"))
