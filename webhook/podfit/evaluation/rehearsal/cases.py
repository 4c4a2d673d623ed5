"""`podfit policy test`: cases in YAML, each an object and what the policy is expected to make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from podfit.evaluation import review
from podfit.evaluation.policy import Policy, PolicyError
from podfit.evaluation.policy.document import validate
from podfit.evaluation.policy.records import Strict
from podfit.evaluation.policy.words import RuleId
from podfit.evaluation.rehearsal import RehearsedDecision, RehearsedObject, rehearse
from podfit.kube.manifest import Document
from podfit.kube.path import FieldPath
from podfit.kube.snapshot import Snapshot
from podfit.rules.rule import Mode
from podfit.vllm.facts import Facts

KIND = "PolicyTest"


class Expected(Strict):
    """The expected decision on an object. Fields that are not set are not compared, except that no other rule may
    deny."""

    denied: bool | None = None
    rules: dict[RuleId, Mode | Literal["none"]] = Field(default_factory=dict)
    patched: list[RuleId] | None = None


class Case(Strict):
    """One object and what is expected."""

    name: str
    object: dict[str, Any] | None = None
    file: str | None = None
    namespace_labels: dict[str, str] | None = None
    nodes: str | None = None
    now: str | None = None
    expect: Expected


class CasesShape(Strict):
    """A file of cases."""

    api_version: Literal["podfit.dev/v1alpha1"]
    kind: Literal["PolicyTest"]
    metadata: dict[str, Any] = Field(default_factory=dict)
    policies: list[str] = Field(default_factory=list)
    cases: Annotated[list[Case], Field(min_length=1)]


@dataclass(frozen=True)
class CaseOutcome:
    """A case that was run."""

    name: str
    line: int
    wrong: tuple[str, ...]
    """Differences from the expected decision, a line each."""


def shape_of(document: Document, name: str) -> CasesShape:
    """The checked cases of a document; raises PolicyError with `FILE:LINE: path: message`."""
    if wrong := validate(CasesShape, document.object):
        raise PolicyError(
            [f"{name}:{document.line_of(path)}: {str(path) or 'cases'}: {message}" for path, message in wrong]
        )
    return CasesShape.model_validate(dict(document.object))


def run(
    cases_shape: CasesShape,
    document: Document,
    policy: Policy,
    read: Callable[[str], Mapping[str, Any]],
    facts_of_nodes: Callable[[str], Facts],
) -> Iterator[CaseOutcome]:
    """The outcome of every case. `read`: name of a file → its object; `facts_of_nodes`: name of a file → facts with the
    nodes in it; both as a case names the file. A case that can't be run is an outcome with its error."""
    for index, case in enumerate(cases_shape.cases):
        line = document.line_of(FieldPath(("cases", index)))
        if (case.object is None) == (case.file is None):
            yield CaseOutcome(case.name, line, ("a case has either an object or a file",))
            continue
        try:
            obj = RehearsedObject.of(case.object if case.object is not None else read(str(case.file)))
            at = policy.at(datetime.fromisoformat(case.now)) if case.now else policy
        except (review.BadReview, ValueError) as error:
            yield CaseOutcome(case.name, line, (str(error),))
            continue
        facts = facts_of_nodes(case.nodes) if case.nodes else Facts()
        verdict = rehearse(obj, at, _with_labels(facts, obj, case.namespace_labels))
        yield CaseOutcome(case.name, line, tuple(_mismatches(case.expect, verdict)))


def _with_labels(facts: Facts, obj: RehearsedObject, labels: Mapping[str, str] | None) -> Facts:
    """The facts with a cluster that has the object's namespace, with these labels; unchanged if `labels` is None. The
    nodes of a case are not in the cluster, but described ones (`Facts.fleet`), and stay."""
    if labels is None:
        return facts
    metadata = obj.object.get("metadata")
    own_namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    namespace = str(own_namespace or obj.namespace or "")
    objects = {"namespaces": {("", namespace): {"labels": labels}}}  # kind → (namespace, name) → object; it is in none
    return replace(facts, cluster=Snapshot(objects, version="case"))


def _mismatches(expected: Expected, verdict: RehearsedDecision) -> Iterator[str]:
    """Each difference between the expected decision and the policy's, one line each. Unless the case expects a denial,
    a rule that it does not name must not deny."""
    for rule, expected_mode in expected.rules.items():
        mode = verdict.modes.get(rule, "none")
        if mode != expected_mode:
            yield f"{rule}: expected {expected_mode}, got {mode}{_finding_of_rule(verdict, rule)}"
    if not expected.denied:
        for rule, rule_mode in verdict.modes.items():
            if rule_mode == "deny" and rule not in expected.rules:
                yield f"{rule}: expected nothing, got deny{_finding_of_rule(verdict, rule)}"
    if expected.denied is not None and expected.denied != verdict.denied:
        yield f"denied: expected {str(expected.denied).lower()}, got {str(verdict.denied).lower()}"
    if expected.patched is not None and set(expected.patched) != set(verdict.patched):
        yield f"patched: expected {_join_rules(expected.patched)}, got {_join_rules(verdict.patched)}"
    for error in verdict.report.errors:
        yield f"{error.rule}: {error.error}"


def _finding_of_rule(verdict: RehearsedDecision, rule: str) -> str:
    """The finding of a rule behind a mismatch, for people; empty without one."""
    finding = verdict.worst(rule)
    if finding is None:
        return ""
    softened = f" ({finding.why_softened})" if finding.why_softened else ""
    return f": {finding.finding.path}: {finding.finding.message}{softened}"


def _join_rules(rules: Iterable[str]) -> str:
    """Rule ids separated by commas; "nothing" for none."""
    return ", ".join(sorted(rules)) or "nothing"
