"""AdmissionReview → `Request`, or `BadReview` for a body that is not one or contradicts itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from podfit.base import numbers
from podfit.base.secret import FORMS
from podfit.evaluation import subject
from podfit.kube.path import mapping
from podfit.kube.workload import JSON
from podfit.kube.workload.controller import may_be_controller

API_VERSION = "admission.k8s.io/v1"
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
choice, so nothing is known about it."""
_KINDS = {kind: resource for resource, kind in _RESOURCES.items()}
"""Kind → resource, of the same."""
MAX_QUOTE_LENGTH = 80
"""Characters of a value that a message quotes. A choice: the message stays one line."""


class BadReview(ValueError):  # noqa: N818 - the name that other packages and the documentation use
    """The request is not an AdmissionReview that can be answered; the text is one line."""


class Request(NamedTuple):
    """The request of an AdmissionReview. Field names are those of `AdmissionRequest`."""

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
    """The name of the requesting user; empty if it is unknown."""

    @property
    def is_pod(self) -> bool:
        """It is about a Pod (or one of its subresources that carry the whole Pod)."""
        return (self.group, self.kind) == ("", "Pod")

    @property
    def is_probe(self) -> bool:
        """It is from `podfit doctor`: a dry run of a faulty Pod, of which nothing remains."""
        return self.dry_run and self.is_pod and self.name == subject.PROBE_POD


def unread(uid: str) -> Request:
    """Return a request of which nothing but its uid could be read."""
    return Request(
        uid=uid,
        operation="",
        group="",
        kind="",
        resource="",
        subresource="",
        namespace=None,
        name=None,
        object=None,
        old_object=None,
        dry_run=False,
    )


def parse(body: bytes) -> Request:
    """Read an AdmissionReview. Raises BadReview if it is not one, or if it contradicts itself."""
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
    parsed = Request(
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
    _check_kinds_agree(parsed, _string_field(kind, "version", "kind.version", optional=True), resource)
    return _without_claimed_owners(parsed)


def _without_claimed_owners(request: Request) -> Request:
    """Return the request without the owners of a workload, if the requester cannot be a controller.

    The owners of a Pod stay: a denial there could make an outage of a node drain."""
    metadata = mapping((request.object or {}).get("metadata"))
    if request.is_pod or "ownerReferences" not in metadata or may_be_controller(request.user):
        return request
    left = {key: value for key, value in metadata.items() if key != "ownerReferences"}
    return request._replace(object={**(request.object or {}), "metadata": left})


def _check_kinds_agree(request: Request, version: str, resource: Mapping[str, Any]) -> None:
    """Check that the object is of the kind, and the kind of the resource, that the request names; raises BadReview.
    Other operations than CREATE and UPDATE are allowed unread."""
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
    group_resource = (_string_field(resource, "group", "resource.group", optional=True), request.resource)
    group_kind = (request.group, request.kind)
    # If neither of the two is Kubernetes' own, nothing is known, and they agree.
    expected_kind = _RESOURCES.get(group_resource, group_kind)
    expected_resource = _KINDS.get(group_kind, group_resource)
    if expected_kind != group_kind or expected_resource != group_resource:
        _refuse(f"request.kind {_quote(request.kind)} is not the kind of request.resource {_quote(request.resource)}")


def _decode_json(body: bytes) -> dict[str, Any]:
    """Return the body as a JSON object; raises BadReview with the place of the error."""
    try:
        review = _JSON.decode(body.decode("utf-8"))
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
    if not isinstance(review, dict):
        _refuse(f"the body is a JSON {_type(review)}, expected an AdmissionReview object")
    return review


def _not_a_number(word: str) -> NoReturn:
    """Raise BadReview for NaN or an infinity, which Python's decoder would take."""
    raise BadReview(f"the body is not JSON: {word} is not a JSON number")


_JSON = json.JSONDecoder(parse_constant=_not_a_number, parse_int=lambda digits: numbers.bounded(int(digits)))


def _object_field(request: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field of the request that must be an object; raises BadReview."""
    part = request.get(name)
    if not isinstance(part, dict):
        _refuse(f"request.{name} is missing")
    return part


def _optional_object(request: Mapping[str, Any], name: str) -> JSON | None:
    """Return `object` or `oldObject` of the request; raises BadReview if it is not an object."""
    obj = request.get(name)
    if obj is not None and not isinstance(obj, dict):
        _refuse(f"request.{name} is a JSON {_type(obj)}, expected an object")
    return obj


def _string_field(part: Mapping[str, Any], name: str, place: str | None = None, *, optional: bool = False) -> str:
    """Return a field that must be a string, empty if it is optional and absent; raises BadReview."""
    word = part.get(name)
    if word is None or word == "":
        if not optional:
            _refuse(f"request.{place or name} is missing")
        return ""
    if not isinstance(word, str):
        _refuse(f"request.{place or name} is a JSON {_type(word)}, expected a string")
    return word


def _refuse(message: str) -> NoReturn:
    """Raise BadReview with the message: the review is malformed."""
    raise BadReview(message)


def _quote(value: object) -> str:
    """Return a value of the request for one line of text: short, quoted, without control characters; "missing" for
    None."""
    if value is None:
        return "missing"
    quoted = json.dumps(FORMS.masked(value)) if isinstance(value, str) else f"a JSON {_type(value)}"
    return quoted if len(quoted) <= MAX_QUOTE_LENGTH else f"{quoted[: MAX_QUOTE_LENGTH - 1]}…"


def _type(value: object) -> str:
    """Return the name of a value's type in JSON."""
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")
