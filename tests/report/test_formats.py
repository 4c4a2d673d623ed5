"""What `podfit check` found in every format: valid, on the right line, and with one exit code."""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import xmlschema
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podfit.cli import main
from podfit.cli.check import FORMATS as OPTION
from podfit.evaluation import denial
from podfit.kube import manifest
from podfit.kube.path import FieldPath
from podfit.report.comments import in_vain
from podfit.report.markdown import escaped
from podfit.rules import all_rules
from tests.cluster.server import Server
from tests.e2e import binaries

HERE = Path(__file__).parents[1]
ROOT = HERE.parent
SARIF = json.loads((HERE / "report" / "sarif.json").read_text())
HELM = binaries.tool("helm")
JUNIT = xmlschema.XMLSchema(str(HERE / "report" / "junit.xsd"))
FORMATS = OPTION.names
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: llama, namespace: chat}
spec:
  nodeSelector: {nvidia.com/gpu.product: Tesla-T4}
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.21.0
      args:
        - --model
        - unsloth/Llama-3.1-8B-Instruct
        - --dtype=half
        - --swap-space=8
      resources:
        limits: {nvidia.com/gpu: 1, memory: 32Gi}
"""
"""Line 13 has a flag that 0.21 does not know; the weights do not fit a T4."""
Check = Callable[..., tuple[int, str, str]]


@pytest.fixture(name="check")
def _check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """`podfit check …` in a folder with `pod.yaml`: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(POD)

    def check(*argv: str) -> tuple[int, str, str]:
        try:
            code = main(["check", *argv])
        except SystemExit as error:
            code = int(error.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return check


def test_text_underlines_the_value_in_its_line(check: Check) -> None:
    code, out, _ = check("--show-source", "pod.yaml")

    assert code == 1
    assert "┌ pod.yaml:13:11\n" in out
    line, under = out.split("┌ pod.yaml:13:11\n")[1].splitlines()[:2]
    start = under.index("^")
    assert line[start : start + under.count("^")] == "--swap-space=8"


OBSERVE = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: observe}\nspec: {enforce: {mode: %s}}\n"


@pytest.mark.parametrize("mode", ["audit", "warn"])
def test_before_enforcing_each_format_says_what_would_be_denied(check: Check, tmp_path: Path, mode: str) -> None:
    """As `podfit scan`: the limit of a policy changes what follows from a finding, and not which are shown."""
    (tmp_path / "observe.yaml").write_text(OBSERVE % mode)
    observed = "--policy", "observe.yaml", "pod.yaml"
    free = json.loads(check("--format", "json", "pod.yaml")[1])
    code, out, _ = check(*observed)
    _, text, _ = check("--format", "json", *observed)
    limited = json.loads(text)

    assert code == 0, "nothing is denied today"
    assert 'vllm": denied if enforced' in out
    assert re.search(r"(?m)^denied if enforced  removed-flag  spec", out)
    would = free["summary"]["denied"]
    assert out.splitlines()[-2].startswith(
        f"1 file, 1 vLLM container; findings: 0 denied today, {would} would be if enforced, "
    )
    summary = limited["summary"]
    assert summary | {"denied": would, "likely": 0} == {**free["summary"], "would_deny": would, "likely": 0}
    assert summary["likely"] == free["summary"]["likely"] + would, "their level under this policy"
    assert not limited["results"][0]["denied"]
    assert [(row["rule"], row["would"]) for row in limited["results"][0]["findings"]] == [
        (row["rule"], row["mode"]) for row in free["results"][0]["findings"]
    ]
    assert "denied if enforced" in check("--format", "markdown", *observed)[1]
    assert "denied if enforced  " in check("--format", "junit", *observed)[1]
    assert check("--fail-on", "likely", *observed)[0] == 1


def test_an_ignored_object_and_an_exception_are_not_shown_as_denied_if_enforced(check: Check, tmp_path: Path) -> None:
    (tmp_path / "observe.yaml").write_text(OBSERVE % "ignore")
    assert "0 denied, 0 likely to fail, 0 advice" in check("--policy", "observe.yaml", "pod.yaml")[1]
    accepted = "{rules: ['*'], reason: a trial, owner: chat, expires: 2999-01-01}"
    text = OBSERVE.replace("spec: {", f"spec: {{exceptions: [{accepted}], ") % "audit"
    (tmp_path / "observe.yaml").write_text(text)
    assert "0 denied, 0 likely to fail, 0 advice; " in check("--policy", "observe.yaml", "pod.yaml")[1]


def test_text_has_the_place_without_the_source_line(check: Check) -> None:
    out = check("pod.yaml")[1]

    assert "\n  at pod.yaml:13:11\n" in out
    assert "│" not in out


SAME = """\
apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  containers:
  - name: first
    image: vllm/vllm-openai:v0.27.1
    args: [Qwen/Qwen3-8B, --swap-space=8, --port=8000, --max-model-len=8192]
    resources: {limits: {nvidia.com/gpu: 1, memory: 64Gi}}
  - name: second
    image: vllm/vllm-openai:v0.27.1
    args: [Qwen/Qwen3-8B, --swap-space=8, --port=8001, --max-model-len=8192]
    resources: {limits: {nvidia.com/gpu: 1, memory: 48Gi}}
"""


def test_people_read_a_finding_of_several_containers_once_with_all_its_places(check: Check, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(SAME)
    code, out, _ = check("two.yaml")
    markdown = check("--format", "markdown", "two.yaml")[1]
    first, second = out.split('Pod two, container "second"')

    assert code == 1
    assert "\n  at two.yaml:8:27\n  also in line 12\n" in first
    assert second.startswith(": denied\n"), "its state counts them"
    assert "removed-flag" not in second
    assert "findings as in an earlier container of the object" in second
    assert out.count("does not know '--swap-space'") == markdown.count("swap-space") == 1
    assert "`two.yaml:8`<br>also in line 12<br>" in markdown
    rows = json.loads(check("--format", "json", "two.yaml")[1])["results"]
    assert [sum(row["rule"] == "removed-flag" for row in one["findings"]) for one in rows] == [1, 1], "JSON has each"


def test_quiet_shows_only_what_makes_the_run_fail(check: Check) -> None:
    code, out, err = check("-q", "pod.yaml")

    assert code == 1
    assert "denied  removed-flag" in out
    assert not any(line.startswith(("advice", "next:", "1 file")) for line in out.splitlines())
    assert not err


def test_rules_are_chosen_and_ignored(check: Check) -> None:
    rules = {row["rule"] for row in json.loads(check("--format", "json", "pod.yaml")[1])["results"][0]["findings"]}
    only = json.loads(check("--format", "json", "--rule", "removed-flag", "pod.yaml")[1])["results"][0]["findings"]
    rest = json.loads(check("--format", "json", "--ignore", "removed-flag", "pod.yaml")[1])["results"][0]["findings"]

    assert {row["rule"] for row in only} == {"removed-flag"}
    assert {row["rule"] for row in rest} == rules - {"removed-flag"}
    code, _, err = check("--rule", "removed-flg", "pod.yaml")
    assert (code, err) == (2, "error: --rule removed-flg: there is no such rule; did you mean removed-flag?\n")


@pytest.mark.parametrize("given", ["https://docs.example/rules/", "https://docs.example/rules/{rule}"])
def test_links_lead_to_the_rule_pages(check: Check, given: str) -> None:
    url, options = "https://docs.example/rules/removed-flag", ("--docs-url", given, "pod.yaml")

    assert f"  see {url}\n" in check(*options)[1]
    sarif = json.loads(check("--format", "sarif", *options)[1])["runs"][0]["tool"]["driver"]["rules"]
    assert url in {rule["helpUri"] for rule in sarif}
    gitlab = json.loads(check("--format", "gitlab", *options)[1])
    assert {"body": url} in [row["content"] for row in gitlab]


def test_reports_for_other_programs_link_to_the_site_by_default(check: Check) -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["site_url"]

    sarif = json.loads(check("--format", "sarif", "pod.yaml")[1])["runs"][0]["tool"]["driver"]["rules"]
    assert f"{site}rules/removed-flag/" in {rule["helpUri"] for rule in sarif}
    gitlab = json.loads(check("--format", "gitlab", "pod.yaml")[1])
    assert {"body": f"{site}rules/removed-flag/"} in [row["content"] for row in gitlab]
    assert site not in check("pod.yaml")[1]


def test_text_has_no_colours_where_it_is_no_terminal(check: Check) -> None:
    assert "\x1b" not in check("pod.yaml")[1]


def test_colours_are_for_terminals_and_nobody_who_said_no(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1;31mdenied" in check("pod.yaml")[1]

    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in check("pod.yaml")[1]


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize(("files", "code"), [(["pod.yaml"], 1), (["pod.yaml", "broken.yaml"], 3), (["none.yaml"], 0)])
def test_the_exit_code_is_the_same_for_every_format(
    check: Check, tmp_path: Path, output: str, files: list[str], code: int
) -> None:
    (tmp_path / "broken.yaml").write_text("a: [1\nb: 2\n")
    (tmp_path / "none.yaml").write_text("kind: ConfigMap\n")

    assert check("--format", output, *files)[0] == code


def test_sarif_is_valid_and_names_line_column_and_rule(check: Check, tmp_path: Path) -> None:
    (tmp_path / "a b%.yaml").write_text("a: [1\nb: 2\n")
    sarif = json.loads(check("--format", "sarif", "pod.yaml", "a b%.yaml")[1])

    jsonschema.validate(sarif, SARIF)
    (run,) = sarif["runs"]
    (removed,) = [one for one in run["results"] if one["ruleId"] == "removed-flag"]
    region = removed["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"], region["endColumn"]) == (13, 11, 25)
    assert run["tool"]["driver"]["rules"][removed["ruleIndex"]]["id"] == "removed-flag"
    assert removed["level"] == "error"
    (unreadable,) = run["invocations"][0]["toolExecutionNotifications"]
    place = unreadable["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a%20b%25.yaml"}, "region": {"startLine": 2}}


def test_junit_is_valid_with_a_case_for_each_finding_and_each_clean_container(check: Check, tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text((HERE.parent / "examples" / "good.yaml").read_text())
    (tmp_path / "broken.yaml").write_text("a: [1\nb: 2\n")
    xml = check("--format", "junit", "pod.yaml", "good.yaml", "broken.yaml")[1]

    JUNIT.validate(xml)
    from xml.etree.ElementTree import fromstring

    suites = {suite.get("name"): suite for suite in fromstring(xml)}  # noqa: S314
    failures = [case.get("name") for case in suites["pod.yaml"].iter("testcase") if case.find("failure") is not None]
    assert "Pod chat/llama, container vllm: removed-flag" in failures
    assert int(str(suites["pod.yaml"].get("failures"))) == len(failures)
    assert [case.find("failure") for case in suites["good.yaml"].iter("testcase")] == [None]
    assert suites["broken.yaml"].get("errors") == "1"


def test_github_annotates_the_line_and_escapes_what_it_must(check: Check, tmp_path: Path) -> None:
    (tmp_path / "a,b:c.yaml").write_text(POD)
    out = check("--format", "github", "a,b:c.yaml")[1]

    (line,) = [line for line in out.splitlines() if "title=removed-flag" in line]
    assert line.startswith("::error file=a%2Cb%3Ac.yaml,line=13,endLine=13,col=11,endColumn=24,title=removed-flag::")
    assert "%0A" in line
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in out.splitlines())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("@org/team", "@\u200borg/team"),
        ("to @user, please", "to @\u200buser, please"),
        ("vllm/vllm-openai@sha256:0", "vllm/vllm-openai@sha256:0"),
    ],
)
def test_markdown_mentions_no_user_and_keeps_digests(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_gitlab_has_what_its_code_quality_report_requires(check: Check, tmp_path: Path) -> None:
    (tmp_path / "again.yaml").write_text(POD)
    rows = json.loads(check("--format", "gitlab", "pod.yaml", "again.yaml")[1])

    required = {"description", "check_name", "fingerprint", "severity", "location"}
    assert all(set(row) == required | {"content"} for row in rows)
    assert len({row["fingerprint"] for row in rows}) == len(rows)
    assert {row["severity"] for row in rows} <= {"info", "minor", "major", "critical", "blocker"}
    (removed,) = [row for row in rows if row["check_name"] == "removed-flag" and row["location"]["path"] == "pod.yaml"]
    assert removed["location"]["lines"] == {"begin": 13}


def test_markdown_tells_it_as_a_table_whose_cells_stay_cells(check: Check) -> None:
    out = check("--format", "markdown", "pod.yaml")[1]

    assert out.startswith("## podfit\n\n1 file, 1 vLLM container; findings: 2 denied")
    rows = [line for line in out.splitlines() if line.startswith("| **denied**")]
    assert rows
    assert all(len(re.split(r"(?<!\\)\|", row)) == 7 for row in rows)


def test_each_format_says_why_a_finding_is_not_denied(check: Check, tmp_path: Path) -> None:
    spec = {"containers": [{"name": "vllm", "image": "vllm/vllm-openai", "args": ["m", "--max-num-seqs=no"]}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m"}, "spec": spec}
    (tmp_path / "no-release.yaml").write_text(json.dumps(pod))
    text, markdown = (check("--format", name, "no-release.yaml")[1] for name in ("text", "markdown"))
    findings = json.loads(check("--format", "json", "no-release.yaml")[1])["results"][0]["findings"]
    (why,) = [row["not_denied"] for row in findings if row["rule"] == "invalid-flag-value"]

    assert "the image names no release" in why
    assert f"not denied: {why}" in " ".join(text.split())
    assert f"<br>not denied: {why}" in markdown


def test_several_formats_at_once_one_of_them_to_the_screen(check: Check, tmp_path: Path) -> None:
    code, out, _ = check("--format", "text", "--format", "sarif=out.sarif", "--format=junit=out.xml", "pod.yaml")

    assert code == 1
    assert "2 denied" in out
    jsonschema.validate(json.loads((tmp_path / "out.sarif").read_text()), SARIF)
    JUNIT.validate((tmp_path / "out.xml").read_text())


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--format", "text", "--format", "json", "pod.yaml"], "only one can go to standard output"),
        (["--format", "xml", "pod.yaml"], "'xml' is not a valid format. Expected one of text, json"),
        (["--format", "sarif=", "pod.yaml"], "names no file"),
        ([], "check needs a FILE"),
        (["*.yml"], "*.yml: no file matches"),
        (["--values", "x.yaml", "pod.yaml"], "--values and --set belong to --helm"),
    ],
)
def test_what_can_not_be_meant_is_a_usage_error(check: Check, argv: list[str], said: str) -> None:
    code, _, err = check(*argv)

    assert code == 2
    assert said in err


@pytest.mark.parametrize("where", [".", "**/*.json"])
def test_a_file_that_nobody_named_and_that_is_no_manifest_is_skipped(check: Check, tmp_path: Path, where: str) -> None:
    (tmp_path / "tsconfig.json").write_text('{\n  // strict\n  "compilerOptions": {"strict": true,}\n}\n')

    code, _, err = check(where, "pod.yaml")
    assert code == 1
    assert "tsconfig.json:3: skipped: no manifest: not YAML: " in err
    assert "error: " not in err
    assert check("tsconfig.json")[0] == 3

    (tmp_path / "broken.json").write_text('{"apiVersion": "v1", "kind": "Pod",\n')
    assert check(where)[0] == 3


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["--policy", "strikt"], 2, "error: --policy strikt: not a shipped policy, and no such file or directory. Did"),
        (["--policy", "ours.yaml"], 3, "--policy ours.yaml: no such file or directory\n"),
        (["--baseline", "b.json"], 3, "--baseline b.json: no such file or directory\n"),
    ],
)
def test_a_file_that_is_not_there_is_told_with_its_option(check: Check, argv: list[str], code: int, said: str) -> None:
    found, _, err = check("pod.yaml", *argv)

    assert found == code
    assert said in err


@pytest.mark.parametrize(
    "line",
    [
        'E1121 23:50:54.561837    3741 run.go:72] "command failed" err="no \\"x\\" in it"',
        'Error: no "x" in it',
    ],
)
def test_a_programs_words_are_told_without_its_loggers(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    program = tmp_path / "bin" / "kustomize"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{line}\nEND\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    code, _, err = check("-k", "base")

    assert code == 3
    assert err.removeprefix("error: kustomize build base: ").removeprefix("Error: ") == 'no "x" in it\n'


def test_a_pattern_goes_into_folders(check: Check, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "deep.yaml").write_text(POD)

    assert "2 files, 2 vLLM containers" in check("**/*.yaml")[1]
    assert "1 file, 1 vLLM container" in check("a/*/*.yaml")[1]


# ── What is accepted ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_baseline_accepts_what_was_there_and_nothing_new(check: Check, tmp_path: Path) -> None:
    assert check("--write-baseline", "base.json", "pod.yaml")[0] == 0

    code, out, _ = check("--baseline", "base.json", "pod.yaml")
    assert code == 0
    assert "0 denied" in out
    assert "accepted" in out

    moved = POD.replace("        - --dtype=half\n", "        - --seed=1\n        - --dtype=half\n")
    (tmp_path / "pod.yaml").write_text(moved)
    assert check("--baseline", "base.json", "pod.yaml")[0] == 0

    (tmp_path / "pod.yaml").write_text(POD.replace("--swap-space=8", "--swap-space=8\n        - --task=generate"))
    code, out, _ = check("--baseline", "base.json", "pod.yaml")
    assert code == 1
    assert out.count("\ndenied  ") == 1

    (tmp_path / "pod.yaml").write_text(POD.replace("        - --swap-space=8\n", ""))
    code, _, err = check("--baseline", "base.json", "pod.yaml")
    assert code == 0
    assert "1 finding no longer present" in err

    assert check("--write-baseline", "base.json", "pod.yaml")[0] == 0
    (tmp_path / "other.yaml").write_text("")
    assert "no longer present" not in check("--baseline", "base.json", "other.yaml")[2]
    (tmp_path / "pod.yaml").write_text("")
    said = check("--baseline", "base.json", "./pod.yaml", "other.yaml")[2]
    assert "no longer present; update it with --write-baseline" in said


def test_fix_leaves_the_findings_of_a_baseline_alone(check: Check, tmp_path: Path) -> None:
    check("--write-baseline", "base.json", "pod.yaml")
    (tmp_path / "podfit.yaml").write_text("baseline: base.json\n")

    assert main(["fix", "pod.yaml"]) == 0
    assert main(["fix", "--no-config", "--baseline", "base.json", "--write", "pod.yaml"]) == 0
    assert (tmp_path / "pod.yaml").read_text() == POD
    assert main(["fix", "--no-config", "--write", "pod.yaml"]) == 0
    assert (tmp_path / "pod.yaml").read_text() != POD


def test_a_baseline_that_is_none_is_told(check: Check, tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text('{"version": 3}')

    code, _, err = check("--baseline", "base.json", "pod.yaml")

    assert code == 3
    assert "base.json: not a baseline" in err


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("--num-scheduler-steps=8", "--use-v2-block-manager", id="flag"),
        pytest.param("VLLM_PORT, value: A", "VLLM_USE_V1, value: A", id="variable"),
    ],
)
def test_a_new_finding_does_not_pass_for_one_that_is_gone(
    check: Check, tmp_path: Path, before: str, after: str
) -> None:
    old = POD.replace("args:", "env: [{name: VLLM_PORT, value: A}]\n      args:")
    old = old.replace("v0.21.0", "v0.10.2").replace("--swap-space", "--num-scheduler-steps")
    (tmp_path / "pod.yaml").write_text(old)
    check("--write-baseline", "base.json", "pod.yaml")
    assert check("--baseline", "base.json", "pod.yaml")[0] == 0
    (tmp_path / "pod.yaml").write_text(old.replace(before, after))

    code, out, err = check("--baseline", "base.json", "pod.yaml")

    assert "1 finding no longer present" in err
    assert (code, out.count("\ndenied  ")) == (1, 1)


@pytest.mark.parametrize("after", ["--swap-space 16", "--swap_space=16"])
def test_a_flag_is_the_same_however_it_is_spelt(check: Check, tmp_path: Path, after: str) -> None:
    check("--write-baseline", "base.json", "pod.yaml")
    words = "\n        - ".join(after.split())
    (tmp_path / "pod.yaml").write_text(POD.replace("--swap-space=8", words))

    assert "denied  removed-flag" not in check("--baseline", "base.json", "pod.yaml")[1]


def test_a_baseline_of_version_1_accepts_as_it_did_and_is_told(check: Check, tmp_path: Path) -> None:
    check("--write-baseline", "base.json", "pod.yaml")
    known = json.loads((tmp_path / "base.json").read_text())
    assert known["version"] == 2
    parts = ("removed-flag", "Pod chat/llama", "vllm", "spec.containers[].args[]")
    row = {"fingerprint": hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]}
    (tmp_path / "base.json").write_text(json.dumps({"version": 1, "findings": [row]}))

    _, out, err = check("--baseline", "base.json", "pod.yaml")

    assert "accepted removed-flag" not in out
    assert "accepted" in out
    assert "note: base.json: version 1 does not distinguish flags or variables" in err


@pytest.mark.parametrize(
    "comment",
    [
        ("        - --swap-space=8\n", "        - --swap-space=8  # podfit: ignore removed-flag -- old image in dev\n"),
        ("        - --swap", "        # podfit: ignore removed-flag: old image in dev\n        - --swap"),
        ("        - --swap", "        # podfit: ignore shm-missing, removed-flag – old image in dev\n        - --swap"),
    ],
)
def test_a_comment_with_a_reason_accepts_what_is_on_its_line(
    check: Check, tmp_path: Path, comment: tuple[str, str]
) -> None:
    (tmp_path / "pod.yaml").write_text(POD.replace(*comment))

    out = check("pod.yaml")[1]

    assert "denied  removed-flag" not in out
    assert "accepted removed-flag: comment: old image in dev" in out
    assert "denied  gpu-memory-exceeded" in out


def test_an_annotation_that_the_policy_allows_is_accepted_with_its_reason(check: Check, tmp_path: Path) -> None:
    annotated = '{name: llama, namespace: chat, annotations: {podfit.dev/ignore.removed-flag: "still 0.16 in dev"}}'
    (tmp_path / "pod.yaml").write_text(POD.replace("{name: llama, namespace: chat}", annotated))
    (tmp_path / "policy.yaml").write_text(
        "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: dev}\nspec: {allowIgnore: [removed-flag]}\n"
    )

    assert "denied  removed-flag" in check("pod.yaml")[1]
    out = check("--policy", "policy.yaml", "pod.yaml")[1]
    assert "denied  removed-flag" not in out
    assert "accepted removed-flag: annotation: ignored by its author: still 0.16 in dev" in out


def test_a_comment_without_a_reason_accepts_nothing_and_is_told(check: Check, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD.replace("space=8", "space=8  # podfit: ignore removed-flag"))

    code, out, err = check("pod.yaml")

    assert code == 1
    assert "denied  removed-flag" in out
    assert "pod.yaml:13: `podfit: ignore removed-flag` silences nothing without a reason" in err


def test_a_comment_about_a_rule_that_is_not_there_says_so() -> None:
    text = "a: 1  # podfit: ignore unknown-flg -- ours\nb: 2  # podfit: ignore unknown-flag, xyzzy -- ours\n"

    assert list(in_vain("pod.yaml", text, all_rules())) == [
        "pod.yaml:1: `podfit: ignore unknown-flg` silences nothing: there is no such rule; did you mean unknown-flag?",
        "pod.yaml:2: `podfit: ignore xyzzy` silences nothing: there is no such rule; `podfit explain` lists them",
    ]


def test_what_is_accepted_is_suppressed_in_sarif_skipped_in_junit_and_not_annotated(
    check: Check, tmp_path: Path
) -> None:
    (tmp_path / "pod.yaml").write_text(POD.replace("space=8", "space=8  # podfit: ignore removed-flag -- dev"))

    sarif = json.loads(check("--format", "sarif", "pod.yaml")[1])
    jsonschema.validate(sarif, SARIF)
    (removed,) = [one for one in sarif["runs"][0]["results"] if one["ruleId"] == "removed-flag"]
    assert removed["suppressions"] == [{"kind": "inSource", "justification": "comment: dev"}]
    xml = check("--format", "junit", "pod.yaml")[1]
    JUNIT.validate(xml)
    assert "<skipped>comment: dev</skipped>" in xml
    assert "removed-flag" not in check("--format", "github", "pod.yaml")[1]
    assert "removed-flag" not in check("--format", "gitlab", "pod.yaml")[1]


def test_warnings_fail_where_that_is_asked_for(check: Check, tmp_path: Path) -> None:
    pod = POD.replace("--swap-space=8", "--max-model-len=4096").replace("Tesla-T4", "NVIDIA-L4")
    (tmp_path / "pod.yaml").write_text(pod)

    assert check("pod.yaml")[0] == 0
    assert check("--fail-on", "warn", "pod.yaml")[0] == 1
    assert "::error" in check("--fail-on", "warn", "--format", "github", "pod.yaml")[1]
    assert "::error" not in check("--format", "github", "pod.yaml")[1]


@pytest.mark.parametrize("fmt", ["text", "markdown"])
def test_people_are_shown_the_first_findings_of_a_rule_and_how_many_there_are(
    check: Check, tmp_path: Path, fmt: str
) -> None:
    more = "".join(f"\n        - --no-such-flag-{number}" for number in range(50))
    (tmp_path / "pod.yaml").write_text(POD.replace("        - --swap-space=8", f"        - --swap-space=8{more}"))

    shown = check("--format", fmt, "pod.yaml")[1]

    assert "no-such-flag-19" in shown.replace("\\", "")
    assert "no-such-flag-20" not in shown.replace("\\", "")
    assert "and 30 more; --format json has all" in shown
    assert "no-such-flag-49" in check("--format", "json", "pod.yaml")[1]


def test_json_has_stars_for_secrets_unless_it_is_asked_for_them(check: Check, tmp_path: Path) -> None:
    key = "sk-" + "0123456789abcdefghij"
    script = f"      command: [sh, -c]\n      args: ['vllm serve Qwen/Qwen3-0.6B --api-key {key} --swap-space 4']\n"
    args = POD[POD.index("      args:") : POD.index("      resources:")]
    small = POD.replace("limits: {", "requests: {memory: 1Gi}\n        limits: {")
    (tmp_path / "pod.yaml").write_text(small.replace(args, script))

    starred = json.loads(check("--format", "json", "--audit", "pod.yaml")[1])["results"][0]
    shown = json.loads(check("--format", "json", "--audit", "--show-secrets", "pod.yaml")[1])["results"][0]

    assert starred["masked"]
    assert not shown["masked"]
    assert key not in json.dumps(starred)
    assert shown["plan"]["engine"]["arguments"]["api_key"] == [key]
    assert starred["plan"]["engine"]["arguments"]["api_key"] == ["*" * 23]
    assert starred["patch"] is None
    assert key in json.dumps(shown["patch"])
    rows = {row["rule"]: row for row in starred["findings"]}
    assert (rows["shell-swallows-sigterm"]["fix"], rows["shell-swallows-sigterm"]["masked"]) == (None, True)
    assert rows["memory-request-too-low"]["fix"]
    assert not rows["memory-request-too-low"]["masked"]


def test_secrets_do_not_get_into_logs(check: Check, tmp_path: Path) -> None:
    secret = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ012345"
    pod = POD.replace("      resources:", f"      env: [{{name: HF_TOKEN, value: {secret}}}]\n      resources:")
    (tmp_path / "pod.yaml").write_text(pod)

    for output in FORMATS:
        assert secret not in check("--format", output, "pod.yaml")[1]


# ── Rendered manifests ───────────────────────────────────────────────────────────────────────────────────────────────


def _program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_charts_and_kustomizations_are_rendered_by_the_machines_programs(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    _program(tmp_path, "helm", f'printf "%s " "$@" > {tmp_path}/asked; cat {tmp_path}/pod.yaml')
    _program(tmp_path, "kustomize", f"cat {tmp_path}/pod.yaml")

    code, out, _ = check("--helm", "charts/llm", "--values", "prod.yaml", "--set", "a=b", "-k", "overlay")

    assert code == 1
    assert "helm template charts/llm: Pod chat/llama" in out
    assert "kustomize build overlay:13:11" in out
    assert (tmp_path / "asked").read_text() == "template podfit charts/llm --values prod.yaml --set a=b "


def test_the_next_command_repairs_files_but_not_what_a_program_printed(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    _program(tmp_path, "helm", f"cat {tmp_path}/pod.yaml")

    of_file, of_both, of_chart = (
        check(*words)[1].splitlines()[-1]
        for words in (("pod.yaml",), ("pod.yaml", "--helm", "chart"), ("--helm", "chart"))
    )

    assert of_file.startswith("next: podfit fix pod.yaml    # a repair for ")
    assert of_both.startswith("next: podfit fix pod.yaml    # a repair for ")
    assert of_chart.startswith("next: podfit explain ")


@pytest.mark.skipif(HELM is None, reason="no Helm: put it on PATH, or `python -m tests.e2e.binaries helm`")
def test_a_chart_is_rendered_by_helm_with_its_values(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert HELM is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "helm").symlink_to(HELM)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "chart" / "templates").mkdir(parents=True)
    (tmp_path / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: llm\nversion: 1.0.0\n")
    (tmp_path / "chart" / "values.yaml").write_text("swap: '8'\n")
    template = POD.replace(
        "--swap-space=8", '{{ with .Values.swap }}"--swap-space={{ . }}"{{ else }}--dtype=half{{ end }}'
    )
    (tmp_path / "chart" / "templates" / "pod.yaml").write_text(template)

    refused = check("--helm", "chart", "--gpu", "h100")[1]
    changed = check("--helm", "chart", "--set", "swap=", "--gpu", "h100")[1]

    assert "removed-flag" in refused
    assert "removed-flag" not in changed


def test_a_live_object_is_asked_of_the_cluster(check: Check, api_server: Server) -> None:
    pod = yaml.safe_load(POD)
    pod["spec"]["containers"][0]["args"] += ["--served-model-name", "1e3"]
    api_server.answers["/api/v1/namespaces/chat/pods/llama"] = pod

    code, out, _ = check("pod/llama", "-n", "chat", "--format", "json")

    assert code == 1
    (result,) = json.loads(out)["results"]
    assert (result["file"], result["object"]["name"]) == ("pod/llama", "llama")
    assert result["plan"]["engine"]["arguments"]["served_model_name"] == ["1e3"], "what is text stays text"


def test_what_the_cluster_says_is_told(check: Check, api_server: Server) -> None:
    api_server.answers["/api/v1/namespaces/chat/pods/x"] = (404, {}, {"message": 'pods "x" not found'})

    assert check("pod/x")[::2] == (
        3, 'error: pod/x: no such file or folder here; in the cluster: 404: pods "x" not found\n'
    )  # fmt: skip
    assert check("nonsense/x")[::2] == (
        3,
        "error: nonsense/x: no such file or folder here; in the cluster: this cluster has no kind 'nonsense'\n",
    )


def test_what_helm_says_of_a_bad_chart_is_told(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    _program(tmp_path, "helm", "echo 'Error: Chart.yaml file is missing' >&2; exit 1")

    code, _, err = check("--helm", "charts/llm")

    assert code == 3
    assert "helm template podfit charts/llm: Error: Chart.yaml file is missing" in err


def test_a_program_that_is_not_there_is_told_with_what_to_do(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    code, _, err = check("-k", "overlay")

    assert code == 3
    assert "kustomize is not installed; render elsewhere and pipe it" in err


# ── Places ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("spec.containers[0].args[2]", "--dtype=half"),
        ("spec.containers[0].image", "vllm/vllm-openai:v0.21.0"),
        ("spec.containers[0].args", "args"),
        ("spec.containers[0].startupProbe", "name: vllm"),
        ("spec.containers[0].resources.limits.memory", "32Gi"),
        ("spec.containers[0].resources.requests", "resources"),
        ("status", "apiVersion: v1"),
    ],
)
def test_a_place_is_its_value_its_key_or_what_is_above(path: str, text: str) -> None:
    (document,) = manifest.read("# a comment\n---\n" + POD, "pod.yaml").documents
    mark = document.mark_of(FieldPath.parse(path))

    line = document.text.splitlines()[mark.line - 1]
    assert line[mark.column - 1 : mark.end_column - 1] == text


def test_in_a_script_the_flag_is_underlined(check: Check, tmp_path: Path) -> None:
    args = POD[POD.index("      args:") : POD.index("      resources:")]
    script = (
        "      command: [sh, -c]\n      args:\n        - |\n          echo start\n          vllm serve "
        "unsloth/Llama-3.1-8B-Instruct \\\n            --dtype half --swap-space 8\n"
    )
    (tmp_path / "pod.yaml").write_text(POD.replace(args, script))

    rows: list[dict[str, Any]] = json.loads(check("--format", "json", "pod.yaml")[1])["results"][0]["findings"]

    (removed,) = [row for row in rows if row["rule"] == "removed-flag"]
    assert (removed["line"], removed["column"]) == (14, 26)


def test_in_a_script_the_flag_that_would_be_changed_is_underlined(check: Check, tmp_path: Path) -> None:
    args = POD[POD.index("      args:") : POD.index("      resources:")]
    script = (
        "      command: [sh, -c]\n      args:\n        - |\n          export HF_HOME=/models\n          exec vllm "
        "serve unsloth/Llama-3.1-8B-Instruct \\\n            --enforce-eager --max-model-len 28000\n"
    )
    (tmp_path / "pod.yaml").write_text(POD.replace(args, script).replace("Tesla-T4", "NVIDIA-L4"))

    out = check("--show-source", "pod.yaml")[1]

    shown = out[out.index("advice  concurrency-too-low") :].splitlines()
    line, under = shown[2:4]
    assert line[under.index("^") :].startswith("--max-model-len 28000")


@pytest.mark.parametrize("width", range(60, 100, 3))
def test_a_narrow_terminal_gets_narrow_lines_and_no_number_without_its_unit(width: int) -> None:
    told = "needs 15 GiB of 13.4 GiB after 95 s, at least 24.5 % more " * 5

    lines = denial.wrapped(told, "  ", width=width)

    assert max(map(len, lines)) <= width
    assert not [line for line in lines if line[-1].isdigit()]
    assert " ".join(line.strip() for line in lines) == told.strip()


@given(
    st.text(st.sampled_from("ab-% \t\n\u00a0\u2028\u200b9é"), max_size=60),
    st.sampled_from(["", "  ", "lead:  "]),
    st.integers(12, 60),
)
def test_lines_that_fit_are_what_textwrap_makes_of_them(words: str, first: str, width: int) -> None:
    wrapped = textwrap.wrap(
        words, width, initial_indent=first, subsequent_indent=first, break_long_words=False, break_on_hyphens=False
    )

    if not re.search(r"\d [KMGTBs%]", words):  # what textwrap does not know of
        assert denial.wrapped(words, first, width=width) == [line.replace("\u00a0", " ") for line in wrapped]


def test_check_is_as_wide_as_the_terminal(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podfit.cli.support.terminal.width", lambda: 72)
    prose = [line for line in check("pod.yaml")[1].splitlines() if "│" not in line and "[" not in line]

    assert max(map(len, prose)) <= 72


def test_alternatives_are_told_as_such_in_an_annotation(check: Check, tmp_path: Path) -> None:
    out = check("--format", "github", str(ROOT / "tests" / "rules" / "model-cache-missing" / "bad.yaml"))[1]

    (line,) = [line for line in out.splitlines() if "title=model-cache-missing" in line]
    assert "%0Aany one of these:%0A- a PersistentVolumeClaim of " in line
    assert line.count("%0A- ") == 2


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("vllm/vllm-openai:latest", "the image names no release; every vLLM release that is known rejects it"),
        ("acme/vllm-openai:v0.21.0", "image 'acme/vllm-openai:v0.21.0' is none of vLLM's own"),
    ],
)
def test_a_warning_says_what_keeps_it_from_being_a_denial(check: Check, tmp_path: Path, image: str, why: str) -> None:
    pod = POD.replace("vllm/vllm-openai:v0.21.0", image).replace("--swap-space=8", "--max-modle-len=8192")
    (tmp_path / "pod.yaml").write_text(pod)

    out = check("pod.yaml")[1]

    shown = " ".join(out[out.index("likely to fail  unknown-flag") :].split("\n\n")[0].split())
    assert f"not denied: likely, not certain: {why}" in shown


# ── What others read ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_json_is_as_its_schema_says(check: Check) -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "check.json").read_text())

    jsonschema.validate(json.loads(check("--format", "json", "pod.yaml")[1]), schema)


def test_the_action_and_the_hook_call_the_command_as_it_is(check: Check) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

    assert hook["entry"].split() == ["podfit", "check"]
    run = action["runs"]["steps"][-1]["run"]
    for output in re.findall(r"--format[ =](\w+)", run):
        assert check("--format", output, "pod.yaml")[0] == 1
    assert set(re.findall(r"inputs\.([\w-]+)", json.dumps(action["runs"]))) == set(action["inputs"])


def test_json_counts_what_text_counts_and_has_audited_findings_only_if_asked(check: Check, tmp_path: Path) -> None:
    args = POD[POD.index("      args:") : POD.index("      resources:")]
    script = "      command: [sh, -c]\n      args: ['vllm serve Qwen/Qwen3-0.6B --swap-space 4']\n"
    (tmp_path / "pod.yaml").write_text(POD.replace(args, script))
    text = check("pod.yaml")[1]
    plain, audited = (json.loads(check("--format", "json", *words, "pod.yaml")[1]) for words in ((), ("--audit",)))

    summary = plain["summary"]
    levels = [row["level"] for one in plain["results"] for row in one["findings"]]
    assert f"{summary['denied']} denied, {summary['likely']} likely to fail, {summary['advice']} advice" in text
    assert f"a repair for {summary['repairable']} of {len(levels)} finding" in text
    assert {level: levels.count(level) for level in ("denied", "likely", "advice")}.items() <= summary.items()
    assert "audited" not in levels
    assert summary["audited"] > 0
    assert audited["summary"] == summary
    rows = [row for one in audited["results"] for row in one["findings"]]
    assert len([row for row in rows if row["level"] == "audited"]) == summary["audited"]
    assert audited["results"][0]["plan"]["findings"] == audited["results"][0]["findings"]


SKIPPED = {
    "helm-template": "{{/* a comment */}}\n" + POD,
    "kustomize-patch": f"$patch: merge\n{POD}",
    "not-an-object": "just a text\n",
    "not-a-manifest": "a: [\n",
    "template": "apiVersion: v1\nkind: Service\nspec: {ports: [{port: ${PORT}}]}\n",
}


@pytest.mark.parametrize("reason", SKIPPED)
@pytest.mark.parametrize("output", FORMATS)
def test_a_skipped_file_is_visible_in_every_format(check: Check, tmp_path: Path, output: str, reason: str) -> None:
    (tmp_path / "pod.yaml").unlink()
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "skipped-one.yaml").write_text(SKIPPED[reason])

    code, out, _ = check("--format", output, "deploy")
    failing, _, _ = check("--format", output, "--fail-on-skipped", "deploy")

    assert (code, failing) == (0, 1)
    assert ("1 file skipped in whole or in part" if output == "text" else "skipped-one.yaml") in out


def test_skipped_files_are_counted_by_reason(check: Check, tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    for reason, text in SKIPPED.items():
        (tmp_path / "deploy" / f"{reason}.yaml").write_text(text)
    (tmp_path / "deploy" / "kustomization.yaml").write_text("patches: [{path: named.yaml}]\n")
    (tmp_path / "deploy" / "named.yaml").write_text(POD)

    code, out, err = check("--format", "json", "deploy", "--fail-on-skipped")

    found = json.loads(out)
    assert code == 1
    assert found["summary"]["skipped"] == 6
    assert {Path(one["file"]).stem: one["reason"] for one in found["skipped"]} == {
        **{reason: reason for reason in SKIPPED},
        "named": "kustomize-patch",
    }
    named = "deploy/named.yaml: skipped: a Kustomize patch (named in deploy/kustomization.yaml); check the result: "
    assert f"{named}podfit check --kustomize deploy\n" in err
    assert check("deploy")[1].count("6 files skipped in whole or in part (") == 1


def test_a_whole_input_passes_with_fail_on_skipped(check: Check) -> None:
    assert check("--fail-on-skipped", "--rule", "shm-missing", "pod.yaml")[0] == 0


HOSTILE = ("x`\n\n# all checks passed", "a|b `c`\n| d |", "\ud800", "<b>&lt;![a](http://e)", "n\r\n::error::no")


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_text_in_every_format(check: Check, tmp_path: Path, output: str, name: str) -> None:
    pod = yaml.safe_load(POD)
    pod["metadata"] |= {"name": name, "namespace": name}
    pod["spec"]["containers"][0] |= {"name": name}
    pod["spec"]["containers"][0]["args"].append(f"--no-such={name}")
    file = name.replace("/", "").encode(errors="surrogateescape" if name != "\ud800" else "replace").decode()
    (tmp_path / f"{file}.json").write_text(json.dumps(pod))

    code, out, _ = check("--format", output, f"{file}.json")

    assert code == 1
    out.encode()
    if output in ("sarif", "gitlab", "json"):
        assert json.loads(out)
    assert not any(line.lstrip().startswith(("# all", "| d |", "::error::no")) for line in out.splitlines())


@pytest.mark.parametrize("name", [one for one in FORMATS if one != "gitlab"])  # it has nothing but findings
def test_a_newer_release_is_named_once(check: Check, tmp_path: Path, name: str) -> None:
    pod = POD.replace("v0.21.0", "v0.99.0")
    for number in range(2):
        (tmp_path / f"{number}.yaml").write_text(pod)
    out = check("--format", name, "0.yaml", "1.yaml")[1]
    assert len(re.findall(r"vLLM 0\.99\.0 is newer than podfit's facts", " ".join(out.split()))) == 1
