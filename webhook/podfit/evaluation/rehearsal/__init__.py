"""A rehearsal of a policy: cases with their expected decisions, and two policies on the same objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from podfit.evaluation import review
from podfit.evaluation.lint import GradedFinding, Report, lint
from podfit.evaluation.policy import Policy, Subject
from podfit.evaluation.policy.layer import harder_mode
from podfit.kube.workload import JSON
from podfit.rules.rule import Mode
from podfit.vllm.facts import Facts


@dataclass(frozen=True)
class RehearsedObject:
    """An object as the webhook would get it."""

    object: JSON
    old: JSON | None = None
    namespace: str | None = None

    @classmethod
    def of(cls, obj: JSON) -> RehearsedObject:
        """From an object, or from an AdmissionReview of one; raises review.BadReview where that is none."""
        if obj.get("kind") != "AdmissionReview":
            return cls(obj)
        request = review.parse(json.dumps(obj).encode())
        old = request.old_object if request.operation == "UPDATE" else None
        return cls(request.object or {}, old, request.namespace)


@dataclass(frozen=True)
class RehearsedDecision:
    """A short form of a policy's decision on an object."""

    report: Report
    modes: Mapping[str, Mode]
    """Rule → its hardest mode, of the rules that found something."""
    patched: tuple[str, ...]
    """Rules whose fix the mutating webhook applies."""

    @property
    def denied(self) -> bool:
        """The object is denied."""
        return self.report.denied

    def worst(self, rule: str) -> GradedFinding | None:
        """The finding of a rule that has its hardest mode."""
        return next(
            (
                finding
                for finding in self.report.findings
                if (finding.rule, finding.mode) == (rule, self.modes.get(rule))
            ),
            None,
        )


def rehearse(obj: RehearsedObject, policy: Policy, facts: Facts) -> RehearsedDecision:
    """Decide as the webhook would."""
    report = lint(obj.object, policy, facts, where="admission", old=obj.old, namespace=obj.namespace)
    modes: dict[str, Mode] = {}
    for finding in report.findings:
        modes[finding.rule] = harder_mode(finding.mode, modes.get(finding.rule, "ignore"))
    terms = policy.of(Subject.of(obj.object, facts, obj.namespace))
    patches = obj.object.get("kind") == "Pod" or terms.mutate_workloads
    fixed = dict.fromkeys(graded.rule for graded in report.findings if graded.applies) if patches else ()
    return RehearsedDecision(report, modes, tuple(fixed))
