"""Consequence of a finding, and rows of the table that lower it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from podfit.base.secret import Secrets
from podfit.evaluation.lint.fixes import rewrites_secret
from podfit.evaluation.lint.update import Key, Update
from podfit.evaluation.policy import Setting, Subject, Terms
from podfit.evaluation.policy.layer import STRENGTH
from podfit.kube.workload import JSON
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Level, Mode, Place, Rule

Exemption = Literal["exception", "annotation"]
"""Acceptance of a finding: by an exception of a policy, or by an annotation of the author."""
LEVEL_STRENGTH: Mapping[Level, int] = {"advice": 0, "likely": 1, "denied": 2}


@dataclass(frozen=True, kw_only=True, slots=True)
class Consequence:
    """Result of a finding under the terms of a policy."""

    mode: Mode
    """The policy's mode, lowered by the doubts."""
    applies: bool
    """The finding's fix is applied: by the webhook if the policy says so, by `podfit fix` unless the policy forbids."""
    level_at_most: Level = "denied"
    reason: str | None = None
    """Why a doubt lowered it, for people: the last doubt that did. Not masked; None if none did."""
    softened_by: tuple[str, ...] = ()
    """The names of the doubts that lowered it, in their order."""
    exempted: Exemption | None = None
    unlimited: Mode | None = None
    """The mode without the limit of the policy's `enforce.mode`; None if the policy has no such limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Facts about a rule's findings that are not in the finding or its engine."""

    setting: Setting
    terms: Terms
    place: Place
    subject: Subject
    now: datetime | None
    object: JSON
    secrets: Secrets
    unrepairable: str | None
    """Why the mutating webhook does not repair the rule's findings; None if it may."""
    update: Update | None
    """The change from the old object; None if there is none."""
    denied_before: Callable[[], frozenset[Key]]
    """Evaluate the old object, once, and return the keys of its denied findings."""

    @property
    def rule(self) -> Rule:
        """The rule with the policy's parameters."""
        return self.setting.rule

    def webhook_repairs(self, finding: Finding) -> bool:
        """Return whether the mutating webhook applies the finding's fix."""
        fix = self.setting.fix
        by_policy = fix is True or (fix == "certain" and finding.certainty == "certain")
        return by_policy and self.unrepairable is None and self._can_apply(finding)

    def applies(self, finding: Finding) -> bool:
        """Return whether the finding's fix is applied, by the webhook or by `podfit fix`."""
        by_command = self.place == "check" and self.setting.fix is not False
        return (by_command and self._can_apply(finding)) or self.webhook_repairs(finding)

    def _can_apply(self, finding: Finding) -> bool:
        return bool(finding.fix) and not rewrites_secret(finding.fix, self.object, self.secrets)


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """One reason why a finding has less consequence than its rule's mode."""

    name: str
    when: str
    """When it applies, for people: a row of docs/decisions.md."""
    reason: Callable[[Finding, Engine, Context], str | None]
    """Return the reason for people; None if the doubt does not apply."""
    mode_at_most: Mode = "warn"
    level_at_most: Level = "denied"
    stops_repair: bool = False
    exempts: Exemption | None = None
    """The finding is reported as accepted."""

    def is_limit(self, consequence: Consequence) -> bool:
        """Return whether the doubt would lower the consequence if it applied."""
        lowers_mode = STRENGTH[self.mode_at_most] < STRENGTH[consequence.mode]
        lowers_level = LEVEL_STRENGTH[self.level_at_most] < LEVEL_STRENGTH[consequence.level_at_most]
        stops_repair = self.stops_repair and consequence.applies
        exempts = self.exempts is not None and consequence.exempted is None
        return lowers_mode or lowers_level or stops_repair or exempts

    def lower(self, consequence: Consequence, reason: str) -> Consequence:
        """Return the consequence with the limits of the doubt."""
        return replace(
            consequence,
            mode=min(consequence.mode, self.mode_at_most, key=STRENGTH.__getitem__),
            applies=consequence.applies and not self.stops_repair,
            level_at_most=min(consequence.level_at_most, self.level_at_most, key=LEVEL_STRENGTH.__getitem__),
            reason=reason,
            softened_by=(*consequence.softened_by, self.name),
            exempted=consequence.exempted or self.exempts,
        )


def initial(finding: Finding, context: Context) -> Consequence:
    """Return the consequence of the finding's rule under the policy, before any doubt. Advice of a rule that warns is
    only audited."""
    mode = context.setting.mode
    if mode == "warn" and finding.advice:
        mode = "audit"
    return Consequence(mode=mode, applies=context.applies(finding))


def soften(
    consequence: Consequence, doubts: Iterable[Doubt], finding: Finding, engine: Engine, context: Context
) -> Consequence:
    """Apply the doubts in order.

    The lowest limit wins. A doubt is asked only while the consequence is above one of its limits: after the first
    doubt that makes a denial a warning, no other such doubt is asked.
    """
    for doubt in doubts:
        if doubt.is_limit(consequence) and (reason := doubt.reason(finding, engine, context)) is not None:
            consequence = doubt.lower(consequence, reason)
    return consequence
