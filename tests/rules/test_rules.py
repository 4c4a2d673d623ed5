"""Every rule, proven by its examples in tests/rules/<rule>/: bad*.yaml, good*.yaml, fixed*.yaml, golden bad*.out.

`make docs` accepts new golden output; read the diff before you commit it.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import Field, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import load
from podfit.kube import manifest
from podfit.kube.patch import apply, json_patch
from podfit.kube.workload import kserve, others
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.report import rule_page
from podfit.rules import all_rules
from podfit.rules.rule import FACTS, Fix, Mode, Place, Plane, Threat
from podfit.vllm import gpu, model
from podfit.vllm.facts import Fact, Facts
from scripts.docs import EXAMPLES, beside, examples, policy_beside, printed


def _cases(kind: str) -> list[Any]:
    return [
        pytest.param(rule_id, path, id=f"{rule_id}/{path.stem}")
        for rule_id in all_rules()
        for path in examples(rule_id, kind)
    ]


def _reports(path: Path) -> list[tuple[Any, Report]]:
    read = manifest.read(path.read_bytes(), path.name)
    assert not read.errors, read.errors
    facts = beside(read)
    found = [(doc.object, lint(doc.object, policy_beside(path), facts, where="check")) for doc in read.documents]
    assert not [error for _, report in found for error in report.errors]
    return found


def _beside(path: Path, before: Any, after: Any) -> Facts:
    """What is known of an example's object once it is repaired: the file's other objects, and itself."""
    read = manifest.read(path.read_bytes(), path.name)
    documents = [replace(one, object=after) if one.object == before else one for one in read.documents]
    return beside(read._replace(documents=tuple(documents)))


def _found(report: Report) -> Counter[tuple[str, str]]:
    return Counter((judged.rule, str(judged.finding.path)) for judged in report.findings)


@pytest.mark.parametrize("rule_id", list(all_rules()))
def test_a_rule_has_all_its_files(rule_id: str) -> None:
    """CONTRIBUTING.md, "Eight typical changes", lists them."""
    folder, page = EXAMPLES / rule_id, ROOT / "docs" / "rules" / f"{rule_id}.md"
    missing = [f"write {folder / kind}.yaml" for kind in ("bad", "good") if not examples(rule_id, kind)]
    outputs = [page, *(path.with_suffix(".out") for path in examples(rule_id, "bad"))]
    missing += [f"run `make docs` for {path}" for path in outputs if not path.exists()]
    missing += [f"run `make docs` for {path}" for path, text in LISTS.items() if not re.search(rf"\b{rule_id}\b", text)]

    assert not missing, f"{rule_id}: " + "; ".join(missing).replace(f"{ROOT}/", "")


ROOT = Path(__file__).parents[2]
LISTS = {
    path: path.read_text()
    for path in (
        ROOT / "policies" / "default.yaml",
        ROOT / "policies" / "schema.json",
        ROOT / "docs" / "rules" / "README.md",
        ROOT / "charts" / "podfit" / "values.schema.json",
        ROOT / "charts" / "podfit" / "files" / "policies.podfit.dev.yaml",
    )
}
"""Generated files that list all rules, and their texts."""


def test_every_folder_of_examples_belongs_to_a_rule() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"__pycache__"} == set(all_rules())


@pytest.mark.parametrize(("rule_id", "path"), _cases("bad"))
def test_a_bad_example_has_the_finding(rule_id: str, path: Path) -> None:
    assert rule_id in {judged.rule for _, report in _reports(path) for judged in report.findings}


@pytest.mark.parametrize(("rule_id", "path"), _cases("bad"))
def test_the_output_of_a_bad_example_is_the_golden_one(rule_id: str, path: Path) -> None:
    assert printed(path) == path.with_suffix(".out").read_text()


@pytest.mark.parametrize(("rule_id", "path"), [*_cases("good"), *_cases("fixed")])
def test_a_good_example_has_vllm_and_no_such_finding(rule_id: str, path: Path) -> None:
    reports = [report for _, report in _reports(path)]

    assert any(report.results for report in reports)
    assert rule_id not in {judged.rule for report in reports for judged in report.findings}


@pytest.mark.parametrize(("rule_id", "path"), [*_cases("good"), *_cases("fixed")])
def test_a_good_example_is_not_denied(rule_id: str, path: Path) -> None:
    assert not [judged for _, report in _reports(path) for judged in report.findings if judged.mode == "deny"]


@pytest.mark.parametrize(("rule_id", "path"), _cases("bad"))
def test_a_fix_repairs_its_finding_brings_nothing_new_and_is_stable(rule_id: str, path: Path) -> None:
    """The patch applies, the finding is gone, no rule finds anything new, a second pass changes nothing."""
    for obj, report in _reports(path):
        for judged in report.findings:
            if judged.rule != rule_id or not judged.finding.fix:
                continue
            fixed = apply(obj, json_patch(obj, judged.finding.fix))
            after = lint(fixed, policy_beside(path), _beside(path, obj, fixed), where="check")

            assert (judged.rule, str(judged.finding.path)) not in _found(after)
            assert not {rule for rule, _ in _found(after)} - {rule for rule, _ in _found(report)}
            assert json_patch(fixed, judged.finding.fix) == []


@pytest.mark.parametrize(("rule_id", "path"), _cases("bad"))
def test_what_rests_on_a_fact_that_only_informs_denies_nothing(
    rule_id: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a guessed model and GPU only that is denied which is certain without them."""

    def with_facts(change: Callable[[Fact[Any]], Fact[Any] | None]) -> set[tuple[str, str]]:
        def changed(find: Callable[..., Fact[Any] | None]) -> Callable[..., Fact[Any] | None]:
            return lambda *given: change(fact) if (fact := find(*given)) else None

        with monkeypatch.context() as patched:
            patched.setattr("podfit.rules.reading.model.find", changed(model.find))
            patched.setattr("podfit.rules.reading.gpu.find", changed(gpu.find))
            return {
                (judged.rule, str(judged.finding.path))
                for _, report in _reports(path)
                for judged in report.findings
                if judged.mode == "deny"
            }

    assert with_facts(lambda fact: fact._replace(may_deny=False)) <= with_facts(lambda fact: None)


@pytest.mark.parametrize("rule_id", list(all_rules()))
def test_a_rule_is_declared_in_words_that_are_known(rule_id: str) -> None:
    rule = all_rules()[rule_id]
    words = {word for row in WORKLOAD_KINDS.values() for word in row.completes} | kserve.EVERYTHING | others.DYNAMO

    assert rule.plane in get_args(Plane)
    assert rule.threatens in get_args(Threat)
    assert rule.mode in get_args(Mode)
    assert rule.fix in get_args(Fix)
    assert rule.where <= set(get_args(Place))
    assert set(rule.needs) <= FACTS.keys()
    assert set(rule.mute_for) <= words
    assert not [name for name, value in vars(rule).items() if isinstance(value, Field)], (
        "a parameter without @dataclass"
    )


@pytest.mark.parametrize(("rule_id", "path"), _cases("fixed"))
def test_a_fixed_example_is_what_the_fix_makes(rule_id: str, path: Path) -> None:
    bad = path.with_name(path.name.replace("fixed", "bad", 1))
    for (obj, report), (wanted, _) in zip(_reports(bad), _reports(path), strict=True):
        edits = [edit for judged in report.findings if judged.rule == rule_id for edit in judged.finding.fix]

        assert apply(obj, json_patch(obj, edits)) == wanted


@pytest.mark.parametrize("rule_id", [rule_id for rule_id, rule in all_rules().items() if rule_page.has_fix(rule)])
def test_a_rule_with_a_fix_has_an_example_that_shows_it(rule_id: str) -> None:
    reports = [report for path in examples(rule_id, "bad") for _, report in _reports(path)]

    assert any(judged.rule == rule_id and judged.finding.fix for report in reports for judged in report.findings)


@pytest.mark.parametrize("rule_id", list(all_rules()))
def test_a_rule_whose_example_has_a_fix_says_so(rule_id: str) -> None:
    reports = [report for path in examples(rule_id, "bad") for _, report in _reports(path)]
    fixed = any(judged.rule == rule_id and judged.finding.fix for report in reports for judged in report.findings)

    assert rule_page.has_fix(all_rules()[rule_id]) or not fixed


@pytest.mark.parametrize("rule_id", list(all_rules()))
def test_a_rule_documents_itself(rule_id: str) -> None:
    rule = all_rules()[rule_id]

    assert len(rule.title()) <= 100
    assert len((rule.__doc__ or "").splitlines()) > 3
    assert all(description for _, _, description in rule_page.parameters(rule))


_NOT_CERTAIN = re.compile(r'"(likely|possible)"( if .+ else "(likely|possible)")?,?')


@pytest.mark.parametrize("rule_id", list(all_rules()))
def test_a_rule_says_why_it_never_denies_exactly_where_no_finding_can_be_certain(rule_id: str) -> None:
    rule = all_rules()[rule_id]
    source = inspect.getsource(inspect.getmodule(rule) or rule)
    said = [line.partition("certainty=")[2] for line in source.splitlines() if "certainty=" in line]
    doubtful = [one for one in said if _NOT_CERTAIN.fullmatch(one)]
    never = bool(said) and len(doubtful) == len(said) == source.count("Finding(")
    assert (rule.never_denies is not None) == never


@pytest.mark.parametrize("rule_id", [rule_id for rule_id, rule in all_rules().items() if rule.partly_denies])
def test_a_rule_that_denies_in_part_has_an_example_that_only_warns(rule_id: str) -> None:
    reports = [report for path in examples(rule_id, "bad") for _, report in _reports(path)]

    assert all_rules()[rule_id].never_denies is None
    assert {one.certainty for report in reports for one in report.findings if one.rule == rule_id} - {"certain"}


def test_a_rule_that_never_denies_says_so_in_the_finding_and_on_its_page() -> None:
    rule = all_rules()["model-cache-missing"]
    path = examples(rule.id(), "bad")[0]
    document = manifest.read(path.read_bytes(), path.name).documents[0]
    policy = load([("ours.yaml", POLICY_THAT_DENIES)])

    found = [one for one in lint(document.object, policy, Facts(), where="check").findings if one.rule == rule.id()]

    assert [(one.mode, one.why_softened) for one in found] == [("warn", f"likely, not certain: {rule.never_denies}")]
    assert f"never, also where a policy says so: {rule.never_denies}" in rule_page.text(rule)


POLICY_THAT_DENIES = """
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata: {name: ours}
spec:
  rules:
    model-cache-missing: {mode: deny}
"""
