"""`podfit policy diff`: what another policy would make of the same objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from podfit.evaluation import subject
from podfit.evaluation.denial import many
from podfit.evaluation.policy import Policy
from podfit.evaluation.rehearsal import RehearsedDecision, RehearsedObject, rehearse
from podfit.vllm.facts import Facts

What = Literal["newly denied", "no longer denied", "newly warned", "no longer warned", "newly patched",
               "no longer patched", "otherwise changed"]  # fmt: skip
ORDER: tuple[What, ...] = (
    "newly denied", "no longer denied", "newly warned", "no longer warned", "newly patched", "no longer patched",
    "otherwise changed",
)  # fmt: skip


@dataclass(frozen=True)
class RuleChange:
    """One rule that would decide otherwise about an object."""

    what: What
    where: str
    """The file, or the cluster."""
    object: str
    """ "Deployment prod/llama-70b"."""
    rule: str
    before: str
    """The rule's hardest mode, or "none"; empty for a change of the patch."""
    after: str
    """As `before`."""
    message: str


def changes(
    pairs: Iterable[tuple[str, RehearsedObject, Facts]], policy: Policy, new: Policy
) -> Iterator[tuple[str, tuple[RuleChange, ...]]]:
    """For each object (its place, the object, and the facts known with it): its name, and what would change."""
    for where, obj, facts in pairs:
        before, after = rehearse(obj, policy, facts), rehearse(obj, new, facts)
        name = subject.describe_object(obj.object)
        yield name, tuple(rule_changes(where, name, before, after))


def summary(objects: int, changed: int) -> str:
    """The counts of a comparison in one line."""
    return f"{many(objects, 'object')}: {changed} would get another decision"


def rule_changes(where: str, name: str, before: RehearsedDecision, after: RehearsedDecision) -> Iterator[RuleChange]:
    """The changes for one object between two decisions, rule by rule: first of modes, then of patches.
    `where`, `name`: the file and the object, for people."""
    for rule in sorted(before.modes.keys() | after.modes.keys()):
        old, new = before.modes.get(rule, "none"), after.modes.get(rule, "none")
        if old != new:
            finding = after.worst(rule) or before.worst(rule)
            message = f"{finding.finding.path}: {finding.finding.message}" if finding else ""
            yield RuleChange(
                what=kind_of_change(old, new),
                where=where,
                object=name,
                rule=rule,
                before=old,
                after=new,
                message=message,
            )
    for rule in sorted(set(before.patched) ^ set(after.patched)):
        finding = after.worst(rule) or before.worst(rule)
        yield RuleChange(
            what="newly patched" if rule in after.patched else "no longer patched",
            where=where,
            object=name,
            rule=rule,
            before="",
            after="",
            message=finding.finding.message if finding else "",
        )


def kind_of_change(old: str, new: str) -> What:
    """The kind of a change from mode `old` to another mode `new`, each a mode or "none"; a denial counts before a
    warning."""
    if "deny" in (old, new):
        return "newly denied" if new == "deny" else "no longer denied"
    if "warn" in (old, new):
        return "newly warned" if new == "warn" else "no longer warned"
    return "otherwise changed"
