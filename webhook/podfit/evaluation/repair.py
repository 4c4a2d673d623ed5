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
    items: list[GradedFinding] = []
    settled: list[list[GradedFinding]] = []
    tried: set[tuple[str, str, str]] = set()
    kept = {_finding_identity(*pair) for pair in accepted}
    results = lint(obj, policy, facts, where=where, namespace=namespace).results if rows is None else rows
    rounds = _rounds(where, len(results))
    while True:
        findings = [
            (finding, result)
            for result in results
            for finding in result.findings
            if _finding_identity(result, finding) not in kept
        ]
        repairable = [
            (finding, result)
            for finding, result in findings
            if _must_apply(finding, rules, audited=audited) and _key(finding) not in tried
        ]
        if not repairable or not rounds:
            left = [finding for finding, _ in findings if _is_left(finding, rules)]
            return Repaired(tuple(items), tuple(left), tuple(map(tuple, settled)))
        rounds -= 1
        chosen = _apart(repairable)
        tried |= {_key(finding) for finding in chosen}
        after, changed = edited(obj, [finding.finding.fix for finding in chosen])
        obj = with_parameters_of(obj, after)
        done = [*compress(chosen, changed)]
        items += done
        results = lint(obj, policy, facts, where=where, namespace=namespace).results
        advised = [(finding, result) for finding, result in findings if _is_left(finding, rules)]
        settled += _settled(done, advised, results)


_READINGS, _ROUNDS = 2048, 8
"""Evaluations of containers for all repairs of an object, and the rounds that an object with many containers gets."""
_IN_A_REVIEW = 256
"""Evaluations in a review, which must end in time: each takes one to four milliseconds."""


def _rounds(where: Place, containers: int) -> int:
    """The number of rounds of repairs, each of which evaluates all containers again."""
    if where == "admission":
        return max(1, _IN_A_REVIEW // max(1, containers))
    return max(_ROUNDS, _READINGS // max(1, containers))


def _apart(pairs: Sequence[tuple[GradedFinding, Result]]) -> list[GradedFinding]:
    """The findings of one round: the first one, and the first of each other Pod template, if the fixes of all of them
    are within their templates. `pairs` is not empty."""
    first, result = pairs[0]
    chosen = {result.engine.workload.path: first}
    if _is_within(first, result):
        for finding, other in pairs:
            if other.engine.workload.path not in chosen and _is_within(finding, other):
                chosen[other.engine.workload.path] = finding
    return list(chosen.values())


def _is_within(finding: GradedFinding, result: Result) -> bool:
    """The fix changes nothing but the Pod template."""
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
    done: Sequence[GradedFinding], before: Sequence[tuple[GradedFinding, Result]], results: Iterable[Result]
) -> list[list[GradedFinding]]:
    """For each repair: findings of `before`, other than the repaired ones, that are not in `results` any more. If
    several repairs may be the reason, the first one in the same Pod template counts. A finding is not gone if the same
    rule now reports another one in its container."""
    items = [(graded, result) for result in results for graded in result.findings if graded.is_reported]
    known = {_finding_identity(result, graded) for graded, result in before}
    now = {_finding_identity(result, graded) for graded, result in items}
    fresh = Counter(
        (graded.rule, result.engine.container.path)
        for graded, result in items
        if _finding_identity(result, graded) not in known
    )
    repaired = {id(graded) for graded in done}
    rows: list[list[GradedFinding]] = [[] for _ in done]
    for finding, result in before:
        if not done or id(finding) in repaired or _finding_identity(result, finding) in now:
            continue
        rule = finding.rule, result.engine.container.path
        if fresh[rule]:  # it is still there, in other words
            fresh[rule] -= 1
            continue
        parts = result.engine.workload.path.parts
        at = next((at for at, other in enumerate(done) if other.field_path.parts[: len(parts)] == parts), 0)
        rows[at].append(finding)
    return rows


def _finding_identity(result: Result, finding: GradedFinding) -> tuple[str, str, str]:
    """(rule, container, field) of a finding, the same after other repairs; in a list, whose items move, with its
    message instead of the field."""
    path = finding.field_path
    in_list = bool(path.parts) and isinstance(path.parts[-1], int)
    return finding.rule, result.engine.container.name, finding.message if in_list else str(path)


def _key(finding: GradedFinding) -> tuple[str, str, str]:
    """(rule, field, message) of a finding."""
    # The message too: all words of a script have one path, and what moves up in a list takes another's.
    return finding.rule, str(finding.field_path), finding.message
