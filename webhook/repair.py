"""Findings → the edits that leave none of them that a fix exists for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from webhook.facts import Facts
from webhook.lint import Judged, lint
from webhook.patch import Edit, apply, json_patch
from webhook.policy import Policy
from webhook.rule import Place
from webhook.workload import JSON


@dataclass(frozen=True)
class Repaired:
    """What repairing an object came to."""

    made: tuple[Judged, ...]
    """The findings that were repaired, in the order of their repairs."""
    left: tuple[Judged, ...]
    """What is still denied of the repaired object, by the rules that were asked for."""

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
    namespace: str | None = None,
) -> Repaired:
    """Repairs every finding whose fix is applied there.

    One at a time, each on what the one before it left: a volume that one fix adds changes what the next one computes.
    A finding that survives its own fix is left alone. `rules`: only these, where any are named. `namespace`: where the
    object goes, in case it does not say so.
    """
    made: list[Judged] = []
    tried: set[tuple[str, str, str]] = set()
    while True:
        findings = lint(obj, policy, facts, where=where, namespace=namespace).findings
        judged = next((one for one in findings if _wanted(one, rules) and _key(one) not in tried), None)
        if judged is None:
            left = [one for one in findings if one.mode == "deny" and (not rules or one.rule in rules)]
            return Repaired(tuple(made), tuple(left))
        tried.add(_key(judged))
        patch = json_patch(obj, judged.finding.fix)
        if patch:
            obj = apply(obj, patch)
            made.append(judged)


def _wanted(judged: Judged, rules: Collection[str]) -> bool:
    return judged.applies and (not rules or judged.rule in rules)


def _key(judged: Judged) -> tuple[str, str, str]:
    # The message too: all words of a script have one path, and what moves up in a list takes another's.
    return judged.rule, str(judged.finding.path), judged.finding.message
