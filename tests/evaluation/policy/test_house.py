"""The five policies of docs/house-rules.md on forty Pods, by every way in which podfit decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cli import main
from podfit.evaluation import review
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy, load
from podfit.evaluation.policy.layer import harder_mode
from podfit.kube import snapshot
from podfit.kube.companions import Companions
from podfit.rules.rule import Mode
from podfit.vllm.facts import Facts
from tests.house import CASES, FOLDER, NODES, RULES, Case
from tests.reviews import admission_review

JSON = dict[str, Any]
NODE_OBJECTS = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product}},
        "status": {"allocatable": {"nvidia.com/gpu": "4"}},
    }
    for name, product in NODES.items()
]
ALL_CASES = [
    pytest.param(policy, case, id=f"{policy}/{case.name}") for policy, cases in CASES.items() for case in cases
]


def policy_of(name: str) -> Policy:
    return load([(name, (FOLDER / f"{name}.yaml").read_text())])


def rule_of(policy: str) -> str:
    return RULES.get(policy, "house-limits")


def hardest(modes: Iterator[Mode]) -> Mode | None:
    """The hardest of the modes that a user sees; None without one."""
    found: Mode = "ignore"
    for mode in modes:
        found = harder_mode(found, mode)
    return found if found in ("deny", "warn") else None


def test_there_are_forty_cases_and_a_policy_for_each_file() -> None:
    assert len(ALL_CASES) == 40
    assert set(CASES) == {path.stem for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize(("policy", "case"), ALL_CASES)
def test_check_decides_right(
    policy: str, case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.yaml").write_text(yaml.safe_dump_all(NODE_OBJECTS))
    Path("case.yaml").write_text(yaml.safe_dump_all([case.object, *case.others]))
    options = ["--policy", str(FOLDER / f"{policy}.yaml"), "--nodes", "nodes.yaml", "--format", "json", "-v"]

    main(["check", *options, "case.yaml"])

    (result,) = json.loads(capsys.readouterr().out)["results"]
    own = [finding for finding in result["findings"] if finding["rule"] == rule_of(policy)]
    assert hardest(finding["mode"] for finding in own) == case.expected
    assert not [finding for finding in result["findings"] if finding not in own and finding["mode"] == "deny"]


@pytest.mark.parametrize(("policy", "case"), ALL_CASES)
def test_scan_decides_as_check(policy: str, case: Case) -> None:
    held = Companions((case.object, *case.others))
    facts = Facts(companions=held, config_maps=held.config_maps, fleet=snapshot.from_objects(NODE_OBJECTS))

    report = lint(case.object, policy_of(policy), facts, where="scan")

    assert not report.errors
    assert hardest(one.mode for one in report.findings if one.rule == rule_of(policy)) == case.expected


@pytest.mark.parametrize(("policy", "case"), ALL_CASES)
def test_the_webhook_decides_right(policy: str, case: Case) -> None:
    request = review.parse(json.dumps(admission_review(case.object)).encode())
    facts = Facts(cluster=snapshot.from_objects(NODE_OBJECTS))

    answer = review.validate(request, policy_of(policy), facts)["response"]

    assert answer["allowed"] is (case.admitted != "deny"), answer
    told = [warning for warning in answer.get("warnings", ()) if rule_of(policy) in warning]
    assert bool(told) is (case.admitted == "warn"), answer


@pytest.mark.parametrize(("policy", "case"), ALL_CASES)
def test_what_was_denied_before_an_update_is_a_warning(policy: str, case: Case) -> None:
    changed = {**case.object, "metadata": {**case.object["metadata"], "labels": {"changed": "true"}}}
    body = admission_review(changed, "UPDATE", old=case.object)
    facts = Facts(cluster=snapshot.from_objects(NODE_OBJECTS))

    answer = review.validate(review.parse(json.dumps(body).encode()), policy_of(policy), facts)["response"]

    assert answer["allowed"], answer
