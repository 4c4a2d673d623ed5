"""`from podfit import plan, check`: the page's examples, the same answers as the commands, and a stable interface."""

from __future__ import annotations

import doctest
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

import podfit
from podfit.cli import main

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
SIGNATURES = {
    "Check": "(*, object: 'str', container: 'str', denied: 'bool', plan: 'Plan', findings: 'tuple[Finding, ...]' = ())"
    " -> None",
    "Finding": "(*, rule: 'str', level: 'Level', path: 'str', message: 'str', suggestions: 'tuple[str, ...]' = ())"
    " -> None",
    "Plan": "(*, verdict: 'Verdict', why: 'str', findings: 'tuple[Finding, ...]' = (),"
    " json: 'Mapping[str, Any]' = <factory>) -> None",
    "check": "(manifests: 'str | Mapping[str, Any] | Sequence[Mapping[str, Any]]', *, gpu: 'str | None' = None,"
    " policy: 'str | None' = None) -> 'list[Check]'",
    "plan": "(command: 'str | Sequence[str]', *, gpu: 'str | None' = None, vllm_version: 'str | None' = None,"
    " model_config: 'Mapping[str, Any] | None' = None) -> 'Plan'",
}
"""Of 0.2: a change that callers notice changes the version, too."""


def test_the_examples_of_the_page_are_true() -> None:
    done = doctest.testfile(str(ROOT / "docs" / "programs.md"), module_relative=False)

    assert done.attempted > 8
    assert not done.failed


def test_names_and_signatures_change_only_with_the_version() -> None:
    assert podfit.__version__.startswith("0.2.")
    assert {*podfit.__all__} == {*SIGNATURES, "__version__"}
    assert {name: str(inspect.signature(getattr(podfit, name))) for name in SIGNATURES} == SIGNATURES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_check_finds_what_the_command_finds(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--no-config", "--format", "json", str(path)])
    rows = json.loads(capsys.readouterr().out)["results"]

    found = podfit.check(path.read_text())

    assert [(one.container, one.denied, one.plan.verdict) for one in found] == [
        (row["container"], row["denied"], row["plan"]["verdict"]) for row in rows
    ]
    assert [[(one.rule, one.level, one.message) for one in each.findings] for each in found] == [
        [(one["rule"], one["level"], one["message"]) for one in row["findings"]] for row in rows
    ]


def test_plan_answers_what_the_command_answers(capsys: pytest.CaptureFixture[str]) -> None:
    command = "vllm serve Qwen/Qwen3-8B --max-model-len 16k"
    main(["plan", "--no-config", "--gpu", "l4", "--vllm-version", "0.27.1", "--format", "json", "--", *command.split()])
    printed = json.loads(capsys.readouterr().out)

    planned = podfit.plan(command, gpu="l4", vllm_version="0.27.1")

    assert json.loads(json.dumps(planned.json)) == {key: printed[key] for key in planned.json}
    assert (planned.verdict, planned.why) == (printed["verdict"], printed["why"])


def test_a_config_teaches_a_model_for_one_call() -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
        "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000,
        "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
    }  # fmt: skip

    assert podfit.plan("vllm serve acme/zq-17", gpu="l4", model_config=config).verdict == "fits"
    assert podfit.plan("vllm serve acme/zq-17", gpu="l4").verdict == "unsure"


def test_a_policy_decides() -> None:
    policy = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: quiet}\nspec: {enforce: {mode: warn}}\n"
    text = (ROOT / "examples" / "llama-70b-without-shm.yaml").read_text()

    assert [one.denied for one in podfit.check(text)] == [True]
    assert [one.denied for one in podfit.check(text, policy=policy)] == [False]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: podfit.plan("sleep 1"), "not a command that starts vLLM"),
        (lambda: podfit.plan("vllm serve a/b", gpu="l999"), "l999"),
        (lambda: podfit.plan("vllm serve a/b", vllm_version="new"), "not a version"),
        (lambda: podfit.plan(""), "empty"),
        (lambda: podfit.plan("vllm serve a/b", model_config={"dates": {1}}), "not JSON serializable"),
        (lambda: podfit.check("kind: ["), "not YAML"),
        (lambda: podfit.check("deploy/llama.yaml"), "is not a Kubernetes object"),
        (lambda: podfit.check(["kind: Pod"]), "is not a Kubernetes object"),  # type: ignore[list-item]
        (lambda: podfit.check("kind: Pod\nspec: {{ .Values.spec }}\n"), "template"),
        (lambda: podfit.check({"metadata": {"creationTimestamp": date(2026, 1, 1)}}), "not JSON serializable"),
        (lambda: podfit.check("kind: Pod", policy="kind: Polic"), "policy"),
    ],
)
def test_what_a_caller_gets_wrong_is_a_value_error(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: podfit.plan("env HF_TOKEN=hf_abcdefGHIJKLMNOPQRSTUVWXYZ012345 sleep 1"),
        lambda: podfit.plan(["login", "--password=hf_abcdefGHIJKLMNOPQRSTUVWXYZ012345"]),
        lambda: podfit.check("hf_abcdefGHIJKLMNOPQRSTUVWXYZ012345"),
    ],
)
def test_an_error_shows_no_secret(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError) as error:
        call()

    assert "abcdefGHIJ" not in str(error.value)


def test_an_import_loads_nothing() -> None:
    code = "import sys, podfit; print(*sorted(name for name in sys.modules if name.startswith('podfit.')))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""
