"""The policy line that decided, as text: `podfit explain --policy`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from podfit.base.printable import clean
from podfit.evaluation.denial import place
from podfit.evaluation.lint import GradedFinding, Report
from podfit.evaluation.policy import Policy, Subject, builtin
from podfit.evaluation.policy.layer import Layer, softer_mode
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
    """Mode, fix and parameters of a rule for an object, each with the values that podfit and the policies set, the last
    one in force. `subject` None: an object that every policy selects."""
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
    """(policy, it certainly selects the object) of those that select an object, or may, in their order."""
    for layer in policy.everything:
        selected = True if subject is None else layer.match.selects(subject)
        if selected is not False and not layer.shadow:
            yield layer, selected is True


def text(policy: Policy, rules: Iterable[type[Rule]], subject: Subject | None, *, every: bool) -> str:
    """Rule by rule the settings in force and their places; without `every`, only the rules that a policy names."""
    top = cap(policy, subject)
    lines = [f"no mode is stronger than {top.value}: {_where(top)}", ""] if top and top.value != "deny" else []
    for rule in rules:
        items = decided_fields(policy, rule, subject)
        if not every and all(word.decided.place == BUILT_IN_POLICY for word in items):
            continue
        lines.append(rule.id())
        for word in items:
            last = word.decided
            over = f" (over {_over(word.policy_values[-2])})" if len(word.policy_values) > 1 else ""
            value = last.value
            if word.name == "mode" and top is not None and softer_mode(value, top.value) != value:
                over, value = f" ({value}: {_where(last)})", top.value
                last = top
            lines.append(f"  {word.name:<14} {_value_text(value):<10} {_where(last)}{over}")
            if word.name == "mode" and value == "deny" and rule.never_denies:
                lines.append(f"  {'':<14} {'':<10} it only warns: {rule.never_denies}")
            if word.name == "mode" and value == "deny" and rule.partly_denies:
                lines.append(f"  {'':<14} {'':<10} some findings only warn: {rule.partly_denies}")
    return "\n".join(lines) if lines else "no policy speaks of any rule"


def findings(report: Report, rule: str) -> str:
    """Lines with the findings of a rule in each vLLM container of an object, and their consequences here."""
    if not report.results:
        return "no container in it runs vLLM"
    lines = []
    for result in report.results:
        rule_findings = [graded for graded in result.findings if graded.rule == rule and graded.mode != "ignore"]
        for finding in rule_findings:
            lines.append(f"{place(result.engine)}: {_consequence(finding)}: {finding.finding.message}")
            lines += [f"  not denied: {finding.why_softened}"] if finding.why_softened and not finding.exempted else []
        if not rule_findings:
            lines.append(f"{place(result.engine)}: no finding")
    return "\n".join(clean(line) for line in lines)


def _consequence(finding: GradedFinding) -> str:
    """The consequence of a finding here, and the one if the policy enforced, in words."""
    if finding.exempted is not None:
        return f"accepted by an {finding.exempted} ({finding.why_softened})"
    consequence = {"deny": "denied", "warn": "warned about", "audit": "only audited", "ignore": "ignored"}
    today = consequence[finding.mode]
    return today if finding.would == finding.mode else f"{today} today, {consequence[finding.would]} if enforced"


def _where(policy_value: PolicyValue) -> str:
    unsure = "" if policy_value.certain else ", if it is for this object: its namespace is not known well enough"
    return f"{policy_value.place}, policy {policy_value.policy}{unsure}" if policy_value.policy else policy_value.place


def _over(policy_value: PolicyValue) -> str:
    return f"{_value_text(policy_value.value)}, {policy_value.place}"


def _value_text(value: Any) -> str:
    """A value as a policy has it, in one line."""
    if is_dataclass(value):
        given = [(field.name, getattr(value, field.name)) for field in fields(value)]
        return f"{{{', '.join(f'{camel(name)}: {_value_text(it)}' for name, it in given if it not in (None, ()))}}}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value_text, value))}]" if value else "none"
    return str(value).lower() if isinstance(value, bool | None) else str(value)
