"""AdmissionReview in, AdmissionReview out: what the two webhooks answer, without HTTP.

The shape of the answer is `admission.k8s.io/v1`, which API servers check strictly
(k8s.io/apiserver pkg/admission/plugin/webhook/request/admissionreview.go). It has the request's uid. A patch has
its type, and only the mutating webhook may send one. Nothing here raises but `parse`, which raises BadReview.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

from podfit.base import numbers
from podfit.base.printable import one_line, shortened
from podfit.base.secret import FORMS, Secrets
from podfit.evaluation import bounds, denial, subject
from podfit.evaluation.lint import Judged, Report, RuleError, Shadow, lint
from podfit.evaluation.policy import Policy, Subject
from podfit.evaluation.policy.layer import harder_mode
from podfit.evaluation.repair import Repaired, repair
from podfit.kube.patch import json_patch
from podfit.kube.path import mapping
from podfit.kube.workload import JSON
from podfit.kube.workload.controller import may_be_controller
from podfit.rules.rule import Mode
from podfit.vllm.facts import Facts

API_VERSION = "admission.k8s.io/v1"
Webhook = Literal["validate", "mutate"]
Outcome = Literal["allowed", "denied", "patched", "skipped", "failed", "late"]
"""skipped: allowed without an evaluation, there is no vLLM in it or no evaluated field changed; failed: an error of
podfit, allowed; late: podfit was too slow, allowed."""

_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_RESOURCES = {
    ("", "pods"): ("", "Pod"),
    ("", "podtemplates"): ("", "PodTemplate"),
    ("", "replicationcontrollers"): ("", "ReplicationController"),
    ("apps", "daemonsets"): ("apps", "DaemonSet"),
    ("apps", "deployments"): ("apps", "Deployment"),
    ("apps", "replicasets"): ("apps", "ReplicaSet"),
    ("apps", "statefulsets"): ("apps", "StatefulSet"),
    ("batch", "cronjobs"): ("batch", "CronJob"),
    ("batch", "jobs"): ("batch", "Job"),
}
"""Kubernetes' own workloads, resource → kind, each with its API group. A custom resource's plural is its author's
choice, so that nothing can be said of it."""
_KINDS = {kind: resource for resource, kind in _RESOURCES.items()}
_LINT = "next: podfit policy lint FILE says the same before anything is applied; docs/policies.md has every field"
_MIRROR = "kubernetes.io/config.mirror"
FoundRule = tuple[str, Mode, Mode]
"""A finding's rule, its mode, and its mode without the limit of `enforce.mode`."""


class BadReview(ValueError):  # noqa: N818 - the name that other rooms and the documentation use
    """The request is not an AdmissionReview that can be answered; the text is one line."""


@dataclass(frozen=True, slots=True)
class Request:
    """What an AdmissionReview asks. Field names are those of `AdmissionRequest`."""

    uid: str
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    group: str
    kind: str
    resource: str
    subresource: str
    """ "" for the resource itself, else "status", "scale", "resize" …"""
    namespace: str | None
    name: str | None
    object: JSON | None
    """None on DELETE."""
    old_object: JSON | None
    dry_run: bool
    user: str = ""
    """The name of the user who asks; empty if it is unknown."""

    @property
    def is_pod(self) -> bool:
        """It is about a Pod (or one of its subresources that carry the whole Pod)."""
        return (self.group, self.kind) == ("", "Pod")

    @property
    def is_probe(self) -> bool:
        """`podfit doctor` asks whether podfit is asked: a dry run of a faulty Pod, of which nothing remains."""
        return self.dry_run and self.is_pod and self.name == subject.PROBE_POD


@dataclass(frozen=True, slots=True)
class Shadowed:
    """What a policy that is only counted would have done."""

    policy: str
    outcome: Literal["denied", "would_deny", "allowed"]
    """would_deny: denied without the limit of `enforce.mode`."""
    found: tuple[FoundRule, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, and everything that the answer, the metrics and the log need of it."""

    request: Request
    outcome: Outcome
    found: tuple[FoundRule, ...] = ()
    """Each finding's rule and modes."""
    errors: tuple[RuleError, ...] = ()
    """Rules that failed with an error: they denied nothing."""
    exempted: tuple[tuple[str, str], ...] = ()
    """Rule and what exempts it ("exception", "annotation"), of each finding that is only audited for that."""
    shadowed: tuple[Shadowed, ...] = ()
    """What the policies that are only counted would have done."""
    warnings: tuple[str, ...] = ()
    status: Mapping[str, Any] | None = None
    """What the API server hands to the client of a denial."""
    patch: str | None = None
    """JSON Patch, in base64; None where nothing changes."""
    versions: Mapping[str, str] = field(default_factory=dict)
    error: Exception | None = None
    """What went wrong in here: the object is allowed, the edge logs and counts it."""
    remembered: bool = False
    """It was decided before, for an object that differs in nothing that matters."""

    @property
    def would_deny(self) -> bool:
        """The validating webhook would deny without the limit of `enforce.mode`, and does not."""
        return self.outcome == "allowed" and any(would == "deny" for _, _, would in self.found)

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
            response["auditAnnotations"] = {"decision": self.outcome, **self.annotations(), **self.versions}
        return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}

    def annotations(self) -> dict[str, str]:
        """What was found, for the audit log and the access log: rule=mode, and rule=reason of the exempted ones.

        `would` and `would-rules`: the same without the limit of `enforce.mode`, if that is different."""
        modes: dict[str, Mode] = {}
        unlimited: dict[str, Mode] = {}
        for rule, mode, would in self.found:
            modes[rule] = harder_mode(mode, modes.get(rule, "ignore"))
            unlimited[rule] = harder_mode(would, unlimited.get(rule, "ignore"))
        limited = {rule: f"{modes[rule]}({would})" for rule, would in unlimited.items() if would != modes[rule]}
        lists: dict[str, Mapping[str, str]] = {"rules": modes, "exempted": dict(self.exempted), "would-rules": limited}
        shown = {
            key: bounds.listed([f"{rule}={words[rule]}" for rule in sorted(words)])
            for key, words in lists.items()
            if words
        }
        return {**shown, "would": "denied"} if self.would_deny else shown


def validate(request: Request, policy: Policy, facts: Facts) -> dict[str, Any]:
    """The validating webhook's answer."""
    return decide("validate", request, policy, facts).answer


def mutate(request: Request, policy: Policy, facts: Facts) -> dict[str, Any]:
    """The mutating webhook's answer: it never denies, and has nothing to say of podfit's own objects."""
    return decide("mutate", request, policy, facts).answer


def decide(webhook: Webhook, request: Request, policy: Policy, facts: Facts) -> Decision:
    """One webhook's decision. Never raises: an error of ours allows the object and says so."""
    try:
        if (request.group, request.kind) == ("podfit.dev", "Policy"):
            return _of_policy(request) if webhook == "validate" else Decision(request, "skipped")
        if _is_allowed_at_once(webhook, request, policy, facts):
            return Decision(request, "skipped")
        return (_validate if webhook == "validate" else _mutate)(request, policy, facts)
    except Exception as error:
        return failed(request, error)


def failed(request: Request, error: Exception) -> Decision:
    """Allowed, because of an error of ours."""
    words = f"podfit could not check this: an error in podfit ({type(error).__name__}), not in the manifest; allowed"
    return Decision(request, "failed", warnings=(words,), error=error)


def unread(uid: str) -> Request:
    """A request of which nothing but its uid could be read."""
    return Request(uid, "", "", "", "", "", None, None, None, None, dry_run=False)


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
    return Decision(
        request,
        "denied" if report.denied else "allowed",
        _rules_and_modes(report.findings),
        report.errors,
        exempted=tuple((judged.rule, judged.exempted) for judged in report.findings if judged.exempted),
        shadowed=tuple(map(_shadowed, report.shadows)),
        warnings=tuple(denial.warnings(report)),
        status=_status(report) if report.denied else None,
        versions=_versions(policy, facts),
    )


def _of_policy(request: Request) -> Decision:
    """podfit's own object: a policy that can't be used is denied when the admin applies it."""
    from podfit.evaluation.policy import document  # pydantic, where there is a policy

    if request.operation not in ("CREATE", "UPDATE") or request.object is None or request.subresource:
        return Decision(request, "skipped")
    if (request.object.get("metadata") or {}).get("deletionTimestamp"):
        return Decision(request, "skipped")
    wrong = document.check(request.object)
    if not wrong:
        return Decision(request, "allowed")
    secrets = Secrets.of(request.object)
    first = f"{denial.many(len(wrong), 'problem')} in Policy {shortened(one_line(request.name or '(no name)'), 64)}"
    told = [(one_line(str(path)), secrets.line(message)) for path, message in wrong]
    message = bounds.message(first, (f"{path or 'policy'}: {line}" for path, line in told), len(told), _LINT)
    causes = bounds.causes([("FieldValueInvalid", path, line) for path, line in told])
    return Decision(request, "denied", status=_forbidden(message, causes))


def _mutate(request: Request, policy: Policy, facts: Facts) -> Decision:
    """The patch, without warnings: the validating webhook sees the changed object and reports the rest."""
    report = lint(request.object or {}, policy, facts, where="admission", namespace=request.namespace)
    if not report.results and not report.errors:
        return Decision(request, "skipped")
    # All that a second call would repair is repaired now: API servers call again where others changed the object.
    made = (
        repair(report.object, policy, facts, where="admission", namespace=request.namespace, found=report.results)
        if report.edits
        else None
    )
    operations = json_patch(report.object, made.edits) if made else []
    return Decision(
        request,
        "patched" if operations else "allowed",
        _rules_and_modes(report.findings),
        report.errors,
        warnings=_repaired(made) if made and operations else (),
        patch=base64.b64encode(json.dumps(operations).encode()).decode() if operations else None,
        versions=_versions(policy, facts),
    )


def _repaired(made: Repaired) -> tuple[str, ...]:
    return tuple(bounds.warnings([denial.warning(one, "; repaired") for one in made.made]))


def _rules_and_modes(findings: Iterable[Judged]) -> tuple[FoundRule, ...]:
    """Each finding's rule and modes."""
    return tuple((judged.rule, judged.mode, judged.would) for judged in findings)


def _shadowed(shadow: Shadow) -> Shadowed:
    """What the metrics need of a shadow policy's decision."""
    outcome: Literal["denied", "would_deny", "allowed"] = "would_deny" if shadow.would_deny else "allowed"
    return Shadowed(shadow.policy, "denied" if shadow.denied else outcome, _rules_and_modes(shadow.findings))


def _is_allowed_at_once(webhook: Webhook, request: Request, policy: Policy, facts: Facts) -> bool:
    """Allowed at once: nothing that we evaluate is asked for, or denying it would do harm."""
    if request.operation not in ("CREATE", "UPDATE") or request.object is None:
        return True
    if request.subresource and not (request.is_pod and request.subresource == "resize"):
        return True
    metadata = mapping(request.object.get("metadata"))
    if metadata.get("deletionTimestamp") or _MIRROR in mapping(metadata.get("annotations")):
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
    """All of an object but labels, annotations, finalizers and status."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _status(report: Report) -> dict[str, Any]:
    rows = [(one.rule, one_line(one.path), one_line(one.finding.message)) for one in denial.denials(report)]
    return _forbidden(denial.refusal(report), bounds.causes(rows))


def _forbidden(message: str, causes: list[dict[str, str]]) -> dict[str, Any]:
    """The only form that kubectl shows whole: 403, Forbidden, with causes next to the message for machines."""
    return {"code": 403, "reason": "Forbidden", "message": message, "details": {"causes": causes}}


def parse(body: bytes) -> Request:
    """Reads an AdmissionReview; raises BadReview where it is none, or where it contradicts itself."""
    review = _decode_json(body)
    if review.get("kind") != "AdmissionReview":
        _refuse(f"kind is {_quote(review.get('kind'))}, expected AdmissionReview")
    if review.get("apiVersion") != API_VERSION:
        _refuse(f"apiVersion is {_quote(review.get('apiVersion'))}, expected {API_VERSION}")
    request = review.get("request")
    if not isinstance(request, dict):
        _refuse("request is missing")
    operation = _string_field(request, "operation")
    if operation not in _OPERATIONS:
        _refuse(f"request.operation is {_quote(operation)}, expected one of {', '.join(_OPERATIONS)}")
    kind, resource = _object_field(request, "kind"), _object_field(request, "resource")
    found = Request(
        uid=_string_field(request, "uid"),
        operation=operation,
        group=_string_field(kind, "group", "kind.group", optional=True),
        kind=_string_field(kind, "kind", "kind.kind"),
        resource=_string_field(resource, "resource", "resource.resource"),
        subresource=_string_field(request, "subResource", optional=True),
        namespace=_string_field(request, "namespace", optional=True) or None,
        name=_string_field(request, "name", optional=True) or None,
        object=_optional_object(request, "object"),
        old_object=_optional_object(request, "oldObject"),
        dry_run=request.get("dryRun") is True,
        user=_string_field(mapping(request.get("userInfo")), "username", "userInfo.username", optional=True),
    )
    _check_kinds_agree(found, _string_field(kind, "version", "kind.version", optional=True), resource)
    return _without_claimed_owners(found)


def _without_claimed_owners(request: Request) -> Request:
    """The request without the owners of a workload, if the requester cannot be a controller.

    The owners of a Pod stay: a denial there could make an outage of a node drain."""
    metadata = mapping((request.object or {}).get("metadata"))
    if request.is_pod or "ownerReferences" not in metadata or may_be_controller(request.user):
        return request
    left = {key: value for key, value in metadata.items() if key != "ownerReferences"}
    return replace(request, object={**(request.object or {}), "metadata": left})


def _check_kinds_agree(request: Request, version: str, resource: Mapping[str, Any]) -> None:
    """The object is of the kind, and the kind of the resource, that the request names."""
    if request.operation not in ("CREATE", "UPDATE"):
        return
    if request.object is None:
        _refuse(f"request.object is missing in a {request.operation}")
    api_version = f"{request.group}/{version}" if request.group else version
    for where, obj in (("object", request.object), ("oldObject", request.old_object)):
        if obj is None:
            continue
        if not isinstance(obj.get("metadata", {}), dict):
            _refuse(f"request.{where}.metadata is a JSON {_type(obj['metadata'])}, expected an object")
        if (obj.get("apiVersion"), obj.get("kind")) != (api_version, request.kind):
            _refuse(
                f"request.{where} is {_quote(obj.get('apiVersion'))} {_quote(obj.get('kind'))}, "
                f"request.kind says {_quote(api_version)} {_quote(request.kind)}"
            )
    if request.subresource:
        return  # deployments/scale carries a Scale
    named = (_string_field(resource, "group", "resource.group", optional=True), request.resource)
    kind = (request.group, request.kind)
    if _RESOURCES.get(named, kind) != kind or _KINDS.get(kind, named) != named:
        _refuse(f"request.kind {_quote(request.kind)} is not the kind of request.resource {_quote(request.resource)}")


def _decode_json(body: bytes) -> dict[str, Any]:
    """The body as a JSON object; raises BadReview with the place of the error."""
    try:
        found = _JSON.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadReview(f"the body is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        wrong = error.msg.removesuffix(" at")  # "Unterminated string starting at"
        raise BadReview(f"the body is not JSON: {wrong} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise BadReview("the body is nested too deep") from None
    except BadReview:
        raise
    except ValueError:  # an integer of thousands of digits
        raise BadReview("the body is not JSON: a number is out of range") from None
    if not isinstance(found, dict):
        _refuse(f"the body is a JSON {_type(found)}, expected an AdmissionReview object")
    return found


def _not_a_number(word: str) -> NoReturn:
    raise BadReview(f"the body is not JSON: {word} is not a JSON number")


_JSON = json.JSONDecoder(parse_constant=_not_a_number, parse_int=lambda digits: numbers.bounded(int(digits)))


def _object_field(request: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field of the request that must be an object; raises BadReview."""
    part = request.get(name)
    if not isinstance(part, dict):
        _refuse(f"request.{name} is missing")
    return part


def _optional_object(request: Mapping[str, Any], name: str) -> JSON | None:
    """`object` or `oldObject` of the request; raises BadReview where it is not an object."""
    obj = request.get(name)
    if obj is not None and not isinstance(obj, dict):
        _refuse(f"request.{name} is a JSON {_type(obj)}, expected an object")
    return obj


def _string_field(part: Mapping[str, Any], name: str, place: str | None = None, *, optional: bool = False) -> str:
    """A field that must be a string, empty where it is optional and absent; raises BadReview."""
    word = part.get(name)
    if word is None or word == "":
        if not optional:
            _refuse(f"request.{place or name} is missing")
        return ""
    if not isinstance(word, str):
        _refuse(f"request.{place or name} is a JSON {_type(word)}, expected a string")
    return word


def _refuse(message: str) -> NoReturn:
    """Raises BadReview."""
    raise BadReview(message)


def _quote(value: object) -> str:
    """A stranger's value for one line of text: short, quoted, without control characters."""
    shown = json.dumps(FORMS.masked(value)) if isinstance(value, str) else f"a JSON {_type(value)}"
    return "missing" if value is None else shown if len(shown) <= 80 else f"{shown[:79]}…"


def _type(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")
