"""Steps over all findings of one container, after the doubts about each and before those of an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from podfit.evaluation.lint.results import GradedFinding
from podfit.evaluation.policy.layer import STRENGTH, harder_mode
from podfit.rules import all_rules
from podfit.rules.rule import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A step that lowers findings for what other findings or another server say."""

    name: str
    when: str
    """When it applies, for people: a row of docs/decisions.md."""
    effect: str

    def lower(self, finding: GradedFinding, mode: Mode, reason: str) -> GradedFinding:
        """Return the finding with this mode."""
        softened_by = (*finding.softened_by, self.name)
        consequence = replace(finding.consequence, mode=mode, reason=reason, softened_by=softened_by)
        return replace(finding, consequence=consequence)


PRESUMED_RULE = Step(
    name="presumed-rule",
    when="the problem is hidden until another rule's problem is fixed",
    effect="at most the other rule's mode",
)
NEXT_SERVER = Step(
    name="next-server",
    when="the script starts another server when this one has failed, and that one is not denied",
    effect="a warning",
)
STEPS = (PRESUMED_RULE, NEXT_SERVER)


def limit_to_presumed(findings: Sequence[GradedFinding]) -> Sequence[GradedFinding]:
    """Return the findings, each with at most the mode of the rule that it presumes (`Finding.presumes`)."""
    if not any(finding.unmasked.presumes for finding in findings):
        return findings
    modes = _strongest_modes(findings)
    return [_limited_to_presumed(finding, modes) for finding in findings]


def _limited_to_presumed(finding: GradedFinding, modes: Mapping[str, Mode]) -> GradedFinding:
    """The finding with at most the mode of the rule that it presumes; "ignore" if that rule reports nothing."""
    rule = finding.unmasked.presumes
    mode = modes.get(rule, "ignore") if rule else finding.mode
    if STRENGTH[mode] >= STRENGTH[finding.mode]:
        return finding
    return PRESUMED_RULE.lower(finding, mode, f"it matters only with {rule}, whose mode is {mode}")


def without_yielding(findings: Sequence[GradedFinding]) -> Sequence[GradedFinding]:
    """Return the findings without those whose cause another rule reports at least as strongly
    (`Finding.yields_to`)."""
    if not any(finding.unmasked.yields_to for finding in findings):
        return findings
    modes = _strongest_modes(findings)
    return [finding for finding in findings if not _yields(finding, modes)]


def _yields(finding: GradedFinding, modes: Mapping[str, Mode]) -> bool:
    """True if a rule that the finding yields to reports with the same mode or a stronger one."""
    stronger = (
        rule in modes and STRENGTH[modes[rule]] >= STRENGTH[finding.mode] for rule in finding.unmasked.yields_to
    )
    return any(stronger)


def _strongest_modes(findings: Sequence[GradedFinding]) -> Mapping[str, Mode]:
    """Rule → the strongest mode of its findings."""
    modes: dict[str, Mode] = {}
    for finding in findings:
        modes[finding.rule] = harder_mode(modes.get(finding.rule, "ignore"), finding.mode)
    return modes


def soften_for_next_server(findings: Sequence[GradedFinding]) -> Sequence[GradedFinding]:
    """Return the findings of a server after whose failure the script starts another one that is not denied.

    What a policy forbids is still forbidden."""
    forbidding = {rule_id for rule_id, rule in all_rules().items() if rule.forbids}
    return [
        NEXT_SERVER.lower(finding, "warn", "the script starts another server when this one has failed")
        if finding.mode == "deny" and finding.rule not in forbidding
        else finding
        for finding in findings
    ]
