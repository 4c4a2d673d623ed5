"""Findings → the edits that leave none of them that a fix exists for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

from podfit.evaluation.lint import Judged, Result, lint
from podfit.evaluation.policy import Policy
from podfit.kube.manifest.parameters import with_parameters_of
from podfit.kube.patch import Edit, edited
from podfit.kube.workload import JSON
from podfit.rules.rule import Place
from podfit.vllm.facts import Facts


@dataclass(frozen=True)
class Repaired:
    """What repairing an object came to."""

    made: tuple[Judged, ...]
    """The findings that were repaired, in the order of their repairs."""
    left: tuple[Judged, ...]
    """What the repaired object is still denied or warned for, by the rules that were asked for."""
    settled: tuple[tuple[Judged, ...], ...] = ()
    """For each of `made`: other findings that its repair removed, in the order of the rules."""

    @property
    def fixed(self) -> int:
        """How many findings the repairs removed."""
        return len(self.made) + sum(map(len, self.settled))

    @property
    def denied(self) -> tuple[Judged, ...]:
        """What is still denied."""
        return tuple(judged for judged in self.left if judged.mode == "deny")

    @property
    def edits(self) -> list[Edit]:
        """The edits, in the order in which they are made."""
        return [edit for judged in self.made for edit in judged.finding.fix]


def repair(
    obj: JSON,
    policy: Policy,
    facts: Facts,
    *,
    where: Place = "check",
    rules: Collection[str] = (),
    audited: bool = True,
    namespace: str | None = None,
    accepted: Iterable[tuple[Result, Judged]] = (),
    found: Sequence[Result] | None = None,
) -> Repaired:
    """Repairs every finding whose fix is applied there.

    One at a time in each Pod template, each on what the one before it left: a volume that one fix adds changes what the
    next one computes. A finding that survives its own fix is left alone. `rules`: only these, where any are named.
    `audited`: findings that are only audited are repaired, too.
    `namespace`: where the object goes, in case it does not say so. `accepted`: findings of `obj` that stay as they are.
    `found`: what `lint` says of `obj`, for a caller who has asked already.
    """
    made: list[Judged] = []
    settled: list[list[Judged]] = []
    tried: set[tuple[str, str, str]] = set()
    kept = {_finding_identity(*one) for one in accepted}
    results = lint(obj, policy, facts, where=where, namespace=namespace).results if found is None else found
    rounds = _rounds(where, len(results))
    while True:
        findings = [
            (one, result) for result in results for one in result.findings if _finding_identity(result, one) not in kept
        ]
        wanted = [pair for pair in findings if _must_apply(pair[0], rules, audited) and _key(pair[0]) not in tried]
        if not wanted or not rounds:
            left = [one for one, _ in findings if _is_told(one, rules)]
            return Repaired(tuple(made), tuple(left), tuple(map(tuple, settled)))
        rounds -= 1
        chosen = _apart(wanted)
        tried |= {_key(judged) for judged in chosen}
        after, changed = edited(obj, [judged.finding.fix for judged in chosen])
        obj = with_parameters_of(obj, after)
        done = [*compress(chosen, changed)]
        made += done
        results = lint(obj, policy, facts, where=where, namespace=namespace).results
        told = [pair for pair in findings if _is_told(pair[0], rules)]
        settled += _settled(done, told, results)


_READINGS, _ROUNDS = 2048, 8
"""How many containers are evaluated again for all repairs of an object, and how often each is in any case."""
_IN_A_REVIEW = 256
"""The same in a review, which must end in time: each takes one to four milliseconds."""


def _rounds(where: Place, containers: int) -> int:
    if where == "admission":
        return max(1, _IN_A_REVIEW // max(1, containers))
    return max(_ROUNDS, _READINGS // max(1, containers))


def _apart(wanted: Sequence[tuple[Judged, Result]]) -> list[Judged]:
    """The first finding, and with it the first of each other Pod template, where their fixes touch nothing else."""
    first, result = wanted[0]
    chosen = {result.engine.workload.path: first}
    if _is_within(first, result):
        for judged, other in wanted:
            if other.engine.workload.path not in chosen and _is_within(judged, other):
                chosen[other.engine.workload.path] = judged
    return list(chosen.values())


def _is_within(judged: Judged, result: Result) -> bool:
    """The fix changes nothing but the Pod template."""
    parts = result.engine.workload.path.parts
    return all(edit.path.parts[: len(parts)] == parts for edit in judged.finding.fix)


def _must_apply(judged: Judged, rules: Collection[str], audited: bool) -> bool:
    """Whether the finding has a fix that applies, of one of the rules (none named: of any)."""
    return judged.applies and (audited or judged.shown) and (not rules or judged.rule in rules)


def _is_told(judged: Judged, rules: Collection[str]) -> bool:
    """Whether the finding counts for what is left."""
    return judged.shown and (not rules or judged.rule in rules)


def _settled(
    done: Sequence[Judged], before: Sequence[tuple[Judged, Result]], after: Iterable[Result]
) -> list[list[Judged]]:
    """For each repair: other findings that are gone after it. If several repairs may be the reason, the one in the same
    Pod template counts."""
    shown = [(one, result) for result in after for one in result.findings if one.shown]
    known = {_finding_identity(result, one) for one, result in before}
    now = {_finding_identity(result, one) for one, result in shown}
    fresh = Counter(
        (one.rule, result.engine.container.path) for one, result in shown if _finding_identity(result, one) not in known
    )
    repaired = {id(one) for one in done}
    found: list[list[Judged]] = [[] for _ in done]
    for one, result in before:
        if not done or id(one) in repaired or _finding_identity(result, one) in now:
            continue
        rule = one.rule, result.engine.container.path
        if fresh[rule]:  # it is still there, in other words
            fresh[rule] -= 1
            continue
        parts = result.engine.workload.path.parts
        at = next((at for at, other in enumerate(done) if other.field_path.parts[: len(parts)] == parts), 0)
        found[at].append(one)
    return found


def _finding_identity(result: Result, judged: Judged) -> tuple[str, str, str]:
    """How a finding is known again when others are repaired: what is in a list moves, and keeps its words."""
    path = judged.field_path
    in_list = bool(path.parts) and isinstance(path.parts[-1], int)
    return judged.rule, result.engine.container.name, judged.message if in_list else str(path)


def _key(judged: Judged) -> tuple[str, str, str]:
    # The message too: all words of a script have one path, and what moves up in a list takes another's.
    return judged.rule, str(judged.field_path), judged.message
