"""Findings → the edits that leave none of them that a fix exists for."""

from __future__ import annotations

from collections.abc import Collection

from webhook.facts import Facts
from webhook.lint import Judged, lint
from webhook.patch import Edit, apply, json_patch
from webhook.policy import Policy
from webhook.rule import Place
from webhook.workload import JSON


def repair(
    obj: JSON, policy: Policy, facts: Facts, *, where: Place = "check", rules: Collection[str] = ()
) -> list[Edit]:
    """The edits, in the order in which they are made, of every finding whose fix is applied there.

    One at a time, each on what the one before it left: a volume that one fix adds changes what the next one computes.
    A finding that survives its own fix is left alone. `rules`: only these, where any are named.
    """
    edits: list[Edit] = []
    made: set[tuple[str, str, str]] = set()
    while True:
        findings = lint(obj, policy, facts, where=where).findings
        judged = next((one for one in findings if _wanted(one, rules) and _key(one) not in made), None)
        if judged is None:
            return edits
        made.add(_key(judged))
        patch = json_patch(obj, judged.finding.fix)
        if patch:
            obj = apply(obj, patch)
            edits += judged.finding.fix


def _wanted(judged: Judged, rules: Collection[str]) -> bool:
    return judged.applies and (not rules or judged.rule in rules)


def _key(judged: Judged) -> tuple[str, str, str]:
    # The message too: all words of a script have one path, and what moves up in a list takes another's.
    return judged.rule, str(judged.finding.path), judged.finding.message
