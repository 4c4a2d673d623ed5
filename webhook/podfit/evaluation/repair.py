"""Findings → the edits that leave none of them that a fix exists for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import compress
from typing import NamedTuple

from podfit.evaluation.lint import GradedFinding, Result, lint
from podfit.evaluation.policy import Policy
from podfit.kube.manifest.parameters import with_parameters_of
from podfit.kube.patch import Edit, edited
from podfit.kube.workload import JSON
from podfit.rules.rule import Place
from podfit.vllm.facts import Facts

FindingOfContainer = tuple[GradedFinding, Result]
"""A finding, and the container that it is about."""


class _Identity(NamedTuple):
    """A finding, as it is recognized after other repairs."""

    rule: str
    container: str
    place: str
    """Its field; in a list, whose items move, its message instead."""


class _Key(NamedTuple):
    """A finding, as it is recognized after its own repair."""

    rule: str
    field: str
    message: str
    """All words of a script have one field, and an item that moves up in a list takes another's."""


class Repaired(NamedTuple):
    """The result of repairing an object."""

    repairs: tuple[GradedFinding, ...]
    """The findings that were repaired, in the order of their repairs."""
    left: tuple[GradedFinding, ...]
    """The findings for which the repaired object is still denied or warned, of the selected rules."""
    settled: tuple[tuple[GradedFinding, ...], ...] = ()
    """For each of `repairs`: other findings that it removed, in the order of the rules."""

    @property
    def fixed(self) -> int:
        """The number of findings that the repairs removed."""
        return len(self.repairs) + sum(map(len, self.settled))

    @property
    def denied(self) -> tuple[GradedFinding, ...]:
        """The findings that still deny after the repair."""
        return tuple(finding for finding in self.left if finding.mode == "deny")

    @property
    def edits(self) -> list[Edit]:
        """The edits, in the order in which they are made."""
        return [edit for finding in self.repairs for edit in finding.finding.fix]


def repair(
    obj: JSON,
    policy: Policy,
    facts: Facts,
    *,
    where: Place = "check",
    rules: Collection[str] = (),
    audited: bool = True,
    namespace: str | None = None,
    accepted: Iterable[tuple[Result, GradedFinding]] = (),
    rows: Sequence[Result] | None = None,
) -> Repaired:
    """Repair every finding whose fix is applied there.

    One at a time in each Pod template, each on what the one before it left: a volume that one fix adds changes what the
    next one computes. A finding that survives its own fix is left alone. `rules`: only these, if any are named.
    `audited`: findings that are only audited are repaired, too. `namespace`: where the object goes if it names none.
    `accepted`: findings of `obj` that stay as they are. `rows`: the results of `lint` for `obj`, if they are known.
    """
    repairs: list[GradedFinding] = []
    settled: list[list[GradedFinding]] = []
    tried: set[_Key] = set()
    kept = {_identity(result, finding) for result, finding in accepted}
    results = lint(obj, policy, facts, where=where, namespace=namespace).results if rows is None else rows
    rounds = _rounds(where, len(results))
    while True:
        all_findings = [(finding, result) for result in results for finding in result.findings]
        findings = [(finding, result) for finding, result in all_findings if _identity(result, finding) not in kept]
        left = [(finding, result) for finding, result in findings if _is_left(finding, rules)]
        repairable = [
            (finding, result)
            for finding, result in findings
            if _must_apply(finding, rules, audited=audited) and _key(finding) not in tried
        ]
        if not repairable or not rounds:
            return Repaired(tuple(repairs), tuple(finding for finding, _ in left), tuple(map(tuple, settled)))
        rounds -= 1
        chosen = _independent(repairable)
        tried |= {_key(finding) for finding in chosen}
        after, changed = edited(obj, [finding.finding.fix for finding in chosen])
        obj = with_parameters_of(obj, after)
        repaired = [*compress(chosen, changed)]  # a fix may change nothing after another one
        repairs += repaired
        results = lint(obj, policy, facts, where=where, namespace=namespace).results
        settled += _settled(repaired, left, results)


MAX_EVALUATIONS, MIN_ROUNDS = 2048, 8
"""Evaluations of containers for all repairs of an object, and the rounds that an object with many containers gets. A
choice: `podfit fix` ends within seconds."""
MAX_EVALUATIONS_OF_REVIEW = 256
"""Evaluations in a review, which must end in time: each takes one to four milliseconds."""


def _rounds(where: Place, containers: int) -> int:
    """The number of rounds of repairs, each of which evaluates all containers again."""
    if where == "admission":
        return max(1, MAX_EVALUATIONS_OF_REVIEW // max(1, containers))
    return max(MIN_ROUNDS, MAX_EVALUATIONS // max(1, containers))


def _independent(pairs: Sequence[FindingOfContainer]) -> list[GradedFinding]:
    """The findings of one round: the first one, and the first of each other Pod template, if the fixes of all of them
    are within their templates. Then none changes what another one computed. `pairs` is not empty."""
    first, result = pairs[0]
    chosen = {result.engine.workload.path: first}
    if _is_within(first, result):
        for finding, other in pairs:
            if other.engine.workload.path not in chosen and _is_within(finding, other):
                chosen[other.engine.workload.path] = finding
    return list(chosen.values())


def _is_within(finding: GradedFinding, result: Result) -> bool:
    """True if the fix changes nothing but the Pod template of the container."""
    parts = result.engine.workload.path.parts
    return all(edit.path.parts[: len(parts)] == parts for edit in finding.finding.fix)


def _must_apply(finding: GradedFinding, rules: Collection[str], *, audited: bool) -> bool:
    """True if the finding has a fix that applies, of one of the rules (none named: of any). `audited`: also if it is
    only audited."""
    return finding.applies and (audited or finding.is_reported) and (not rules or finding.rule in rules)


def _is_left(finding: GradedFinding, rules: Collection[str]) -> bool:
    """True if the finding counts as left until it is repaired: it denies or warns, and is of one of the rules (none
    named: of any)."""
    return finding.is_reported and (not rules or finding.rule in rules)


def _settled(
    done: Sequence[GradedFinding], before: Sequence[FindingOfContainer], results: Iterable[Result]
) -> list[list[GradedFinding]]:
    """For each repair of `done`: findings of `before`, other than the repaired ones, that are not in `results` any
    more. If several repairs may be the reason, the first one in the same Pod template counts, or the first of all. A
    finding is not gone if the same rule now reports another one in its container."""
    after = [(graded, result) for result in results for graded in result.findings if graded.is_reported]
    identities_before = {_identity(result, graded) for graded, result in before}
    identities_after = {_identity(result, graded) for graded, result in after}
    new = Counter(  # (rule, container) → number of findings that were not there before
        (graded.rule, result.engine.container.path)
        for graded, result in after
        if _identity(result, graded) not in identities_before
    )
    repaired_ids = {id(graded) for graded in done}
    settled: list[list[GradedFinding]] = [[] for _ in done]
    for finding, result in before:
        if not done or id(finding) in repaired_ids or _identity(result, finding) in identities_after:
            continue
        rule_and_container = finding.rule, result.engine.container.path
        if new[rule_and_container]:  # it is still there, with another message or field
            new[rule_and_container] -= 1
            continue
        template = result.engine.workload.path.parts
        in_template = [
            index for index, repair in enumerate(done) if repair.field_path.parts[: len(template)] == template
        ]
        settled[in_template[0] if in_template else 0].append(finding)
    return settled


def _identity(result: Result, finding: GradedFinding) -> _Identity:
    """The identity of a finding, the same after other repairs."""
    path = finding.field_path
    is_in_list = bool(path.parts) and isinstance(path.parts[-1], int)
    return _Identity(finding.rule, result.engine.container.name, finding.message if is_in_list else str(path))


def _key(finding: GradedFinding) -> _Key:
    """The key of a finding: one with the same key after its repair survived it."""
    return _Key(finding.rule, str(finding.field_path), finding.message)
