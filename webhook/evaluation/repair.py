"""Findings → the edits that leave none of them that a fix exists for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from webhook.evaluation.lint import Judged, Result, lint
from webhook.evaluation.policy import Policy
from webhook.kube.manifest.parameters import carried
from webhook.kube.patch import Edit, apply, json_patch
from webhook.kube.workload import JSON
from webhook.rules.rule import Place
from webhook.vllm.facts import Facts


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
    accepted: Iterable[tuple[Result, Judged]] = (),
) -> Repaired:
    """Repairs every finding whose fix is applied there.

    One at a time, each on what the one before it left: a volume that one fix adds changes what the next one computes.
    A finding that survives its own fix is left alone. `rules`: only these, where any are named. `namespace`: where the
    object goes, in case it does not say so. `accepted`: findings of `obj` that stay as they are.
    """
    made: list[Judged] = []
    tried: set[tuple[str, str, str]] = set()
    kept = {_same(*one) for one in accepted}
    while True:
        results = lint(obj, policy, facts, where=where, namespace=namespace).results
        findings = [one for result in results for one in result.findings if _same(result, one) not in kept]
        judged = next((one for one in findings if _wanted(one, rules) and _key(one) not in tried), None)
        if judged is None:
            left = [one for one in findings if one.mode == "deny" and (not rules or one.rule in rules)]
            return Repaired(tuple(made), tuple(left))
        tried.add(_key(judged))
        patch = json_patch(obj, judged.finding.fix)
        if patch:
            obj = carried(obj, apply(obj, patch))
            made.append(judged)


def _wanted(judged: Judged, rules: Collection[str]) -> bool:
    return judged.applies and (not rules or judged.rule in rules)


def _same(result: Result, judged: Judged) -> tuple[str, str, str]:
    """How a finding is known again when others are repaired: what stands in a list moves, and keeps its words."""
    path = judged.finding.path
    in_list = bool(path.parts) and isinstance(path.parts[-1], int)
    return judged.rule, result.engine.container.name, judged.finding.message if in_list else str(path)


def _key(judged: Judged) -> tuple[str, str, str]:
    # The message too: all words of a script have one path, and what moves up in a list takes another's.
    return judged.rule, str(judged.finding.path), judged.finding.message
