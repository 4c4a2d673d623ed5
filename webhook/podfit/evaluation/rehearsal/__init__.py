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
    """The object before an update; None for a new one."""
    namespace: str | None = None
    """The namespace of the review, if the object names none."""

    @classmethod
    def of(cls, obj: JSON) -> RehearsedObject:
        """The rehearsed object of an object, or of an AdmissionReview of one; raises review.BadReview if the latter is
        not valid."""
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
        """The first finding of a rule with its hardest mode; None if the rule found nothing."""
        for finding in self.report.findings:
            if finding.rule == rule and finding.mode == self.modes.get(rule):
                return finding
        return None


def rehearse(obj: RehearsedObject, policy: Policy, facts: Facts) -> RehearsedDecision:
    """The decision that the webhook would make, with the rules whose fix it would apply: in Pods, and in workloads if
    the policy has mutate.workloads."""
    report = lint(obj.object, policy, facts, where="admission", old=obj.old, namespace=obj.namespace)
    modes: dict[str, Mode] = {}
    for finding in report.findings:
        modes[finding.rule] = harder_mode(finding.mode, modes.get(finding.rule, "ignore"))
    terms = policy.of(Subject.of(obj.object, facts, obj.namespace))
    fixed: dict[str, None] = {}  # a set that keeps the order
    if obj.object.get("kind") == "Pod" or terms.mutate_workloads:
        fixed = dict.fromkeys(graded.rule for graded in report.findings if graded.applies)
    return RehearsedDecision(report, modes, tuple(fixed))
