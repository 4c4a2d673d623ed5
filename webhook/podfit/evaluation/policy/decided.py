"""The line of the policy that decided: `podfit explain --policy`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, NamedTuple

from podfit.evaluation.policy import Policy, Subject, builtin
from podfit.evaluation.policy.layer import Layer
from podfit.rules.rule import Rule, camel

BUILT_IN_POLICY = "built in"


class PolicyValue(NamedTuple):
    """The value of one field in one policy."""

    value: Any
    place: str
    """ "file:line", or "built in"."""
    policy: str
    """Its name; empty where it is built in."""
    certain: bool = True
    """It is known that the policy selects the object."""


class DecidedField(NamedTuple):
    """A rule's mode, fix or a parameter, with everything that is said of it: the last one decides."""

    name: str
    """The name as a policy spells it."""
    policy_values: tuple[PolicyValue, ...]

    @property
    def decided(self) -> PolicyValue:
        """The value that applies. If a policy may not apply, the softer answer may be another (docs/policies.md)."""
        return self.policy_values[-1]


def decided_fields(policy: Policy, rule: type[Rule], subject: Subject | None) -> list[DecidedField]:
    """Every word of a rule for an object; None: for one that every policy selects."""
    default = builtin().base.settings[rule.id()]
    entries: dict[str, list[PolicyValue]] = {
        "mode": [PolicyValue(default.mode, BUILT_IN_POLICY, "")],
        "fix": [PolicyValue(default.fix, BUILT_IN_POLICY, "")],
        **{field.name: [PolicyValue(getattr(default.rule, field.name), BUILT_IN_POLICY, "")] for field in fields(rule)},
    }
    for layer, certain in _applying(policy, subject):
        rule_settings = layer.rules.get(rule.id())
        if rule_settings is None:
            continue
        given = {"mode": rule_settings.mode, "fix": rule_settings.fix, **rule_settings.parameters}
        for name, value in given.items():
            if value is not None:
                place = layer.place("spec", "rules", rule.id(), camel(name))
                entries[name].append(PolicyValue(value, place, layer.name, certain))
    return [DecidedField(camel(name), tuple(policy_values)) for name, policy_values in entries.items()]


def cap(policy: Policy, subject: Subject | None) -> PolicyValue | None:
    """The policy value that limits the modes; None if there is no limit."""
    policy_value = None
    for layer, certain in _applying(policy, subject):
        if layer.at_most is not None:
            policy_value = PolicyValue(layer.at_most, layer.place("spec", "enforce", "mode"), layer.name, certain)
    return policy_value


def _applying(policy: Policy, subject: Subject | None) -> Iterator[tuple[Layer, bool]]:
    """The policies that select an object, or may, in their order."""
    for layer in policy.everything:
        selected = True if subject is None else layer.match.selects(subject)
        if selected is not False and not layer.shadow:
            yield layer, selected is True
