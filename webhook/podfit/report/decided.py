"""Which line decided, for people."""

from __future__ import annotations

from collections.abc import Iterable

from podfit.evaluation.policy import Policy, Subject
from podfit.evaluation.policy.decided import BUILT_IN_POLICY, PolicyValue, cap, decided_fields
from podfit.evaluation.policy.layer import softer_mode
from podfit.rules.rule import Rule


def text(policy: Policy, rules: Iterable[type[Rule]], subject: Subject | None, *, every: bool) -> str:
    """Rule by rule the settings in force and their places; without `every`, only the rules that a policy names."""
    top = cap(policy, subject)
    lines = [f"no mode is stronger than {top.value}: {_where(top)}", ""] if top and top.value != "deny" else []
    for rule in rules:
        found = decided_fields(policy, rule, subject)
        if not every and all(word.decided.place == BUILT_IN_POLICY for word in found):
            continue
        lines.append(rule.id())
        for word in found:
            last = word.decided
            over = f" (over {_over(word.said[-2])})" if len(word.said) > 1 else ""
            value = last.value
            if word.name == "mode" and top is not None and softer_mode(value, top.value) != value:
                over, value = f" ({value}: {_where(last)})", top.value
                last = top
            lines.append(f"  {word.name:<14} {_shown(value):<10} {_where(last)}{over}")
            if word.name == "mode" and value == "deny" and rule.never_denies:
                lines.append(f"  {'':<14} {'':<10} it only warns: {rule.never_denies}")
    return "\n".join(lines) if lines else "no policy speaks of any rule"


def _where(said: PolicyValue) -> str:
    unsure = "" if said.certain else ", if it is for this object: its namespace is not known well enough"
    return f"{said.place}, policy {said.policy}{unsure}" if said.policy else said.place


def _over(said: PolicyValue) -> str:
    return f"{_shown(said.value)}, {said.place}"


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
