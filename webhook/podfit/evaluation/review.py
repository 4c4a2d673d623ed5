"""AdmissionReview in, AdmissionReview out: what the two webhooks answer, without HTTP.

The shape of the answer is `admission.k8s.io/v1`, which API servers check strictly
(k8s.io/apiserver pkg/admission/plugin/webhook/request/admissionreview.go). It has the request's uid. A patch has
its type, and only the mutating webhook may send one. Only `parse` (in `request`) raises: BadReview.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from podfit.base.printable import one_line, shortened
from podfit.base.secret import Secrets
from podfit.evaluation import bounds, denial
from podfit.evaluation.lint import GradedFinding, Report, RuleError, Shadow, lint
from podfit.evaluation.policy import Policy, Subject
from podfit.evaluation.policy.layer import harder_mode
from podfit.evaluation.repair import Repaired, repair
from podfit.evaluation.request import API_VERSION, BadReview, Request, parse, unread
from podfit.kube.patch import json_patch
from podfit.kube.path import mapping
from podfit.kube.workload import JSON
from podfit.rules.rule import Mode
from podfit.vllm.facts import Facts

__all__ = [
    "API_VERSION", "BadReview", "Decision", "FoundRule", "Outcome", "Request", "Shadowed", "Webhook",
    "allowed_without_time", "decide", "failed", "mutate", "parse", "unread", "validate",
]  # fmt: skip

Webhook = Literal["validate", "mutate"]
Outcome = Literal["allowed", "denied", "patched", "skipped", "failed", "late"]
"""skipped: allowed without an evaluation, there is no vLLM in it or no evaluated field changed; failed: an error of
podfit, allowed; late: podfit was too slow, allowed."""

_LINT = "next: podfit policy lint FILE says the same before anything is applied; docs/policies.md has every field"
"""The last line of a denial of a Policy."""
_MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror Pod, by which a kubelet shows a static Pod."""
MAX_POLICY_NAME_LENGTH = 64
"""Characters of a Policy's name in the first line of its denial. A choice: the line stays short."""


class FoundRule(NamedTuple):
    """A finding, as far as the metrics and the log need it."""

    rule: str
    mode: Mode
    would: Mode
    """The mode without the limit of `enforce.mode`."""


class Shadowed(NamedTuple):
    """The decision that a policy that is only counted would have made."""

    policy: str
    outcome: Literal["denied", "would_deny", "allowed"]
    """would_deny: denied without the limit of `enforce.mode`."""
    rules: tuple[FoundRule, ...]


_NONE: Mapping[str, str] = {}


class Decision(NamedTuple):
    """The decision of a review, with everything that the answer, the metrics and the log need."""

    request: Request
    outcome: Outcome
    rules: tuple[FoundRule, ...] = ()
    """Each finding's rule and modes."""
    errors: tuple[RuleError, ...] = ()
    """Rules that failed with an error: they denied nothing."""
    exempted: tuple[tuple[str, str], ...] = ()
    """Rule and what exempts it ("exception", "annotation"), of each finding that is only audited for that."""
    shadowed: tuple[Shadowed, ...] = ()
    """The decisions of the policies that are only counted."""
    warnings: tuple[str, ...] = ()
    status: Mapping[str, Any] | None = None
    """The status that the API server returns to the client of a denial."""
    patch: str | None = None
    """JSON Patch, in base64; None where nothing changes."""
    annotations: Mapping[str, str] = _NONE
    """The findings, for the audit log and the access log: rule=mode, and rule=reason of the exempted ones.

    `would` and `would-rules`: the same without the limit of `enforce.mode`, if that is different."""
    versions: Mapping[str, str] = _NONE
    error: Exception | None = None
    """podfit's own failure: the object is allowed, the edge logs and counts it."""
    remembered: bool = False
    """It was decided before, for an object that differs in nothing that matters."""

    @property
    def would_deny(self) -> bool:
        """The validating webhook would deny without the limit of `enforce.mode`, and does not."""
        return _would_deny(self.outcome, self.rules)

    @property
    def answer(self) -> dict[str, Any]:
        """The whole AdmissionReview to send, with HTTP status 200."""
        response: dict[str, Any] = {"uid": self.request.uid, "allowed": self.outcome != "denied"}
        if self.status:
            response["status"] = dict(self.status)
        if self.warnings:
            response["warnings"] = list(self.warnings)
        if self.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = self.patch
        if self.outcome != "skipped":
            response["auditAnnotations"] = {"decision": self.outcome, **self.annotations, **self.versions}
        return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def _would_deny(outcome: Outcome, rules: Iterable[FoundRule]) -> bool:
    """Return whether only `enforce.mode` keeps the validating webhook from denying. The mutating one never denies."""
    return outcome == "allowed" and any(finding.would == "deny" for finding in rules)


def _annotations(
    outcome: Outcome, rules: Iterable[FoundRule], exempted: Iterable[tuple[str, str]] = ()
) -> dict[str, str]:
    """`Decision.annotations`, without empty ones."""
    modes: dict[str, Mode] = {}
    unlimited: dict[str, Mode] = {}
    for finding in rules:
        modes[finding.rule] = harder_mode(finding.mode, modes.get(finding.rule, "ignore"))
        unlimited[finding.rule] = harder_mode(finding.would, unlimited.get(finding.rule, "ignore"))
    limited = {rule: f"{modes[rule]}({would})" for rule, would in unlimited.items() if would != modes[rule]}
    lists: dict[str, Mapping[str, str]] = {"rules": modes, "exempted": dict(exempted), "would-rules": limited}
    annotations: dict[str, str] = {}
    for key, word_of_rule in lists.items():
        if word_of_rule:
            annotations[key] = bounds.join_bounded([f"{rule}={word_of_rule[rule]}" for rule in sorted(word_of_rule)])
    if _would_deny(outcome, rules):
        annotations["would"] = "denied"
    return annotations


def validate(request: Request, policy: Policy, facts: Facts) -> dict[str, Any]:
    """The validating webhook's answer."""
    return decide("validate", request, policy, facts).answer


def mutate(request: Request, policy: Policy, facts: Facts) -> dict[str, Any]:
    """The mutating webhook's answer: it never denies, and has nothing to say of podfit's own objects."""
    return decide("mutate", request, policy, facts).answer


def decide(webhook: Webhook, request: Request, policy: Policy, facts: Facts) -> Decision:
    """One webhook's decision. Never raises: an error of ours allows the object and says so. A Policy, podfit's own
    object, is validated but never patched."""
    try:
        if (request.group, request.kind) == ("podfit.dev", "Policy"):
            return _of_policy(request) if webhook == "validate" else Decision(request, "skipped")
        if _is_allowed_at_once(webhook, request, policy, facts):
            return Decision(request, "skipped")
        if webhook == "validate":
            return _validate(request, policy, facts)
        return _mutate(request, policy, facts)
    except Exception as error:
        return failed(request, error)


def failed(request: Request, error: Exception) -> Decision:
    """Allowed, because of an error of ours."""
    words = f"podfit could not check this: an error in podfit ({type(error).__name__}), not in the manifest; allowed"
    return Decision(request, "failed", warnings=(words,), error=error)


def allowed_without_time(request: Request, why: str) -> Decision:
    """Allowed, because there was no time to evaluate it: `why` in a few words."""
    return Decision(request, "late", warnings=(f"podfit could not check this in time ({why}); allowed",))


def _versions(policy: Policy, facts: Facts) -> dict[str, str]:
    """The audit annotations on what decided."""
    return {"policy-version": policy.version, "facts-version": facts.version}


def _validate(request: Request, policy: Policy, facts: Facts) -> Decision:
    """The decision of the validating webhook."""
    old = request.old_object if request.operation == "UPDATE" else None
    report = lint(request.object or {}, policy, facts, where="admission", old=old, namespace=request.namespace)
    if not report.results and not report.errors and not report.unread:
        return Decision(request, "skipped")  # no vLLM in it
    outcome: Outcome = "denied" if report.denied else "allowed"
    rules = _rules_and_modes(report.findings)
    exempted = tuple([(finding.rule, finding.exempted) for finding in report.findings if finding.exempted])
    return Decision(
        request,
        outcome,
        rules,
        report.errors,
        exempted=exempted,
        shadowed=tuple(map(_shadowed, report.shadows)),
        warnings=tuple(denial.warnings(report)),
        status=_status(report) if report.denied else None,
        annotations=_annotations(outcome, rules, exempted),
        versions=_versions(policy, facts),
    )


def _of_policy(request: Request) -> Decision:
    """The decision on podfit's own object: a policy that can't be used is denied when the admin applies it. Skipped:
    a request that sets no spec (DELETE, `status`), and a policy that is being deleted."""
    from podfit.evaluation.policy import document  # pydantic, where there is a policy

    if request.operation not in ("CREATE", "UPDATE") or request.object is None or request.subresource:
        return Decision(request, "skipped")
    if (request.object.get("metadata") or {}).get("deletionTimestamp"):
        return Decision(request, "skipped")
    problems = document.check(request.object)
    if not problems:
        return Decision(request, "allowed")
    secrets = Secrets.of(request.object)
    causes = [bounds.Cause("FieldValueInvalid", one_line(str(path)), secrets.line(text)) for path, text in problems]
    name = shortened(one_line(request.name or "(no name)"), MAX_POLICY_NAME_LENGTH)
    first = f"{denial.many(len(causes), 'problem')} in Policy {name}"
    lines = (f"{cause.field or 'policy'}: {cause.text}" for cause in causes)
    message = bounds.message(first, lines, len(causes), _LINT)
    return Decision(request, "denied", status=_forbidden(message, bounds.causes(causes)))


def _mutate(request: Request, policy: Policy, facts: Facts) -> Decision:
    """The decision of the mutating webhook: the patch, with a warning per repair alone. The validating webhook sees the
    changed object and reports the rest."""
    report = lint(request.object or {}, policy, facts, where="admission", namespace=request.namespace)
    if not report.results and not report.errors:
        return Decision(request, "skipped")  # no vLLM in it
    rules = _rules_and_modes(report.findings)
    outcome: Outcome = "allowed"
    warnings: tuple[str, ...] = ()
    patch: str | None = None
    if report.edits:
        # All that a second call would repair is repaired now: API servers call again where others changed the object.
        repaired = repair(
            report.object, policy, facts, where="admission", namespace=request.namespace, rows=report.results
        )
        operations = json_patch(report.object, repaired.edits)
        if operations:
            outcome = "patched"
            warnings = _repair_warnings(repaired)
            patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return Decision(
        request,
        outcome,
        rules,
        report.errors,
        warnings=warnings,
        patch=patch,
        annotations=_annotations(outcome, rules),
        versions=_versions(policy, facts),
    )


def _repair_warnings(repaired: Repaired) -> tuple[str, ...]:
    """A warning for each repair, within the bounds of an answer."""
    return tuple(bounds.warnings([denial.warning(finding, "; repaired") for finding in repaired.repairs]))


def _rules_and_modes(findings: Iterable[GradedFinding]) -> tuple[FoundRule, ...]:
    """Each finding's rule and modes."""
    return tuple(FoundRule(finding.rule, finding.mode, finding.would) for finding in findings)


def _shadowed(shadow: Shadow) -> Shadowed:
    """The part of a shadow policy's decision that the metrics count."""
    outcome: Literal["denied", "would_deny", "allowed"] = "allowed"
    if shadow.denied:
        outcome = "denied"
    elif shadow.would_deny:
        outcome = "would_deny"
    return Shadowed(shadow.policy, outcome, _rules_and_modes(shadow.findings))


def _is_allowed_at_once(webhook: Webhook, request: Request, policy: Policy, facts: Facts) -> bool:
    """Return whether the request is allowed without an evaluation: it changes nothing that podfit evaluates, a denial
    would do harm, or this webhook does not patch such objects."""
    if request.operation not in ("CREATE", "UPDATE") or request.object is None:
        return True
    if request.subresource and not (request.is_pod and request.subresource == "resize"):
        return True
    metadata = mapping(request.object.get("metadata"))
    if metadata.get("deletionTimestamp"):  # then only finalizers are removed
        return True
    if _MIRROR in mapping(metadata.get("annotations")):  # the kubelet runs a static Pod in any case
        return True
    if request.operation == "UPDATE" and _compared_part(request.object) == _compared_part(request.old_object or {}):
        return True
    if webhook == "mutate":
        # Most of a Pod can't be changed once it exists; GitOps tools compare workloads with their source, not Pods.
        if request.is_pod:
            return request.operation != "CREATE"
        return not policy.of(Subject.of(request.object, facts, request.namespace)).mutate_workloads
    return False


def _compared_part(obj: JSON) -> dict[str, Any]:
    """All of an object but its metadata and status."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _status(report: Report) -> dict[str, Any]:
    """The status of a denial: the message for people, and a cause for each finding."""
    rows = [
        bounds.Cause(finding.rule, one_line(finding.path), one_line(finding.finding.message))
        for finding in denial.denials(report)
    ]
    return _forbidden(denial.refusal(report), bounds.causes(rows))


def _forbidden(message: str, causes: list[dict[str, str]]) -> dict[str, Any]:
    """The status of a denial, in the only form of which kubectl shows the whole message; `causes` are for programs."""
    return {"code": 403, "reason": "Forbidden", "message": message, "details": {"causes": causes}}
