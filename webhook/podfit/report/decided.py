"""The policy line that decided, as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

from podfit.base.printable import clean
from podfit.evaluation.denial import place
from podfit.evaluation.lint import GradedFinding, Report
from podfit.evaluation.policy import Policy, Subject
from podfit.evaluation.policy.decided import BUILT_IN_POLICY, PolicyValue, cap, decided_fields
from podfit.evaluation.policy.layer import softer_mode
from podfit.rules.rule import Rule, camel


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
