"""The tab Policy effect: the same changes as `podfit policy diff`, and those of a saved scan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podfit.cli import main
from podfit.evaluation import rehearsal
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.evaluation.scan import Scan, rows
from podfit.kube import manifest
from podfit.report import scan as as_scan
from podfit.ui import effect
from podfit.ui.question import QuestionError
from podfit.vllm.facts import Facts
from tests.ui.desks import desk

EXAMPLES = Path(__file__).parents[2] / "examples"


def answer(**asked: object) -> dict[str, Any]:
    return effect.answer(asked, desk(EXAMPLES))


def changed(found: dict[str, Any]) -> set[tuple[str, str, str, str]]:
    return {
        (row["what"], row["where"], row["object"], row["rule"]) for group in found["groups"] for row in group["rows"]
    }


def test_the_changes_are_those_of_policy_diff(capsys: pytest.CaptureFixture[str]) -> None:
    main(["policy", "diff", "default", "strict", "--on", str(EXAMPLES), "--format", "json"])
    tree = json.loads(capsys.readouterr().out)

    found = answer(shipped=["strict"])

    assert found["objects"] == tree["objects"]
    assert changed(found) == {(row["what"], row["where"], row["object"], row["rule"]) for row in tree["changes"]}
    assert found["groups"][0]["what"] == "newly denied"


@pytest.mark.parametrize("policy", ["strict", "observe", "autofix", "shared-gpu"])
def test_the_counts_are_those_of_policy_diff(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["policy", "diff", "default", policy, "--on", str(EXAMPLES)])
    printed = capsys.readouterr().out

    shown = answer(shipped=[policy])

    assert printed.endswith(f"{shown['summary']}\n")
    headings = [f"{group['what']}: {group['count']}" for group in shown["groups"]]
    assert [line for line in printed.splitlines() if line[:1].isalpha()] == headings


def test_counts_are_by_namespace_and_rule() -> None:
    (group, *_) = answer(shipped=["strict"])["groups"]

    assert sum(one["count"] for one in group["counts"]) == len(group["rows"])
    assert {one["namespace"] for one in group["counts"]} == {row["namespace"] for row in group["rows"]}
    assert "" not in {one["namespace"] for one in group["counts"]}


def test_no_policy_changes_nothing() -> None:
    found = answer()

    assert found["groups"] == []
    assert found["objects"] > 0


def test_a_policy_that_is_pasted() -> None:
    policy = """apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata: {name: ours}
spec: {enforce: {mode: warn}}
"""
    found = answer(policy=policy)

    assert {row["what"] for group in found["groups"] for row in group["rows"]} == {"no longer denied"}


def test_a_broken_policy_is_an_error_at_its_line() -> None:
    with pytest.raises(QuestionError, match=r"pasted policy:4: spec\.ruls") as raised:
        answer(policy="apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: ours}\nspec: {ruls: {}}\n")

    assert raised.value.field == "policy"


def test_each_problem_of_a_policy_has_its_line() -> None:
    with pytest.raises(QuestionError) as raised:
        answer(policy="kind: Policy\nspec: {ruls: {}}\n")

    problems = str(raised.value).split("\n")
    assert len(problems) == 3
    assert all(problem.startswith("pasted policy:") for problem in problems)


@pytest.mark.parametrize("names", ["strict", [3], ["../strict"]])
def test_only_shipped_policies_have_names(names: object) -> None:
    with pytest.raises(QuestionError) as raised:
        answer(shipped=names)

    assert raised.value.field == "shipped"


def saved() -> str:
    found = Scan()
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for document in manifest.read(path.read_bytes(), path.name).documents:
            found.rows += rows(lint(document.object, builtin(), Facts()))
    return "".join(as_scan.as_json(found))


def test_a_saved_scan_stands_for_the_objects() -> None:
    found = answer(shipped=["strict"], scan=saved())

    live = {(what, name, rule) for what, _, name, rule in changed(answer(shipped=["strict"])) if what == "newly denied"}
    of_scan = {(what, name, rule) for what, _, name, rule in changed(found) if what == "newly denied"}
    assert of_scan
    assert of_scan <= live
    assert "findings, not objects" in found["note"]


def test_a_saved_scan_under_the_default_policy_changes_nothing() -> None:
    assert answer(scan=saved())["groups"] == []


@pytest.mark.parametrize("scan", ["{", "[]", "{}", "[" * 100_000])
def test_what_is_no_scan_is_an_error(scan: str) -> None:
    with pytest.raises(QuestionError) as raised:
        answer(scan=scan)

    assert raised.value.field == "scan"


@pytest.mark.parametrize("row", [3, {}, {"object": []}, {"findings": [None, {"rule": "none"}]}])
def test_a_strange_scan_is_no_crash(row: object) -> None:
    assert answer(shipped=["strict"], scan=json.dumps({"results": [row]}))["groups"] == []


def test_each_object_is_evaluated_once_per_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    own = rehearsal.rehearse

    def counted(one: Any, policy: Any, facts: Any) -> Any:
        asked.append(policy.version)
        return own(one, policy, facts)

    monkeypatch.setattr(effect, "rehearse", counted)
    held = desk(EXAMPLES)
    first = effect.answer({"shipped": ["strict"]}, held)

    assert effect.answer({"shipped": ["strict"]}, held) == first
    assert len(asked) == 2 * first["objects"]
    effect.answer({"shipped": ["observe"]}, held)
    assert len(asked) == 3 * first["objects"]


def test_an_object_that_is_denied_already_is_not_decided_otherwise(tmp_path: Path) -> None:
    source = (EXAMPLES / "llama-70b-without-shm.yaml").read_text()
    (tmp_path / "pod.yaml").write_text(source)
    policy = """
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata:
  name: ours
spec:
  rules:
    startup-probe-missing: {mode: deny}
    readiness-probe-missing: {mode: deny}
    model-cache-missing: {mode: deny}
"""

    found = effect.answer({"policy": policy}, desk(tmp_path / "pod.yaml"))

    assert (found["decided"], found["changed"]) == (0, 1)


def test_prepared_files_are_not_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    held = desk(EXAMPLES)
    effect.prepare(held)

    monkeypatch.setattr(effect, "rehearse", None)
    assert effect.answer({"shipped": list(held.shipped)[:1]}, held)["objects"] > 0
