"""Decisions that need not be made twice: the 500 Pods of a ReplicaSet are one computation.

A decision is a pure function of the webhook, the request, the policy and the facts. All of that is the key, except the
parts that no rule reads:

- the user, the request's and the object's uid, times, `managedFields`, and status
- the five random letters of the API server (after a `generateName`, and in the name of the token's volume)
"""

from __future__ import annotations

import hashlib
import marshal
import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from threading import Lock
from typing import NamedTuple

from cachetools import LRUCache

from podfit.evaluation import review
from podfit.evaluation.policy import Policy
from podfit.evaluation.review import Decision, Request, Webhook
from podfit.kube.workload import JSON
from podfit.vllm.facts import Facts

CACHE_BYTES = 16 << 20
"""Bytes of decisions that are kept: about 12,000, both webhooks' for 5,000 workloads. A GitOps controller applies them
all again every few minutes, in the same order; a cache that is a little too small for such a round keeps none of it."""
_ENTRY = 1024
"""Bytes of a kept decision without its answer's text, about (sys.getsizeof of its parts)."""
_CAUSE = 256
"""Bytes of a cause, without its texts."""
_PAIR = 80
"""Bytes of a rule and its effect; all decisions share the texts."""
_MADE_UP = ("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation", "selfLink")
"""Fields of `metadata` that the API server fills in, and that differ between the objects of one template."""
_TOKEN = re.compile(rb"u\x15\0\0\0kube-api-access-[a-z0-9]{5}")
"""The name of the volume that the ServiceAccount admission plugin adds to a Pod (plugin/pkg/admission/serviceaccount),
as marshal writes a text of 21 bytes."""

_NO_REQUEST = review.unread("")
"""Placeholder for the request of a kept decision: each request of the same essence has its own."""
MAX_SHARE = 64
"""A decision larger than this fraction (1/64) of the cache is not kept, so that it does not push out many others."""


class _Key(NamedTuple):
    """All that a decision depends on."""

    webhook: str
    policy_version: str
    facts_version: str
    request_hash: bytes
    """SHA-256 of the essential request (`_essential`)."""


class _Kept(NamedTuple):
    """A decision in the cache."""

    decision: Decision
    weight: int
    """Bytes, about (`_weight`)."""


class DecisionCache:
    """Remembers the decisions that were used last, within a limit of bytes; safe for threads."""

    def __init__(self, size: int = CACHE_BYTES) -> None:
        self._lock = Lock()
        self._kept: LRUCache[_Key, _Kept] = LRUCache(size, getsizeof=attrgetter("weight"))

    def decide(
        self,
        webhook: Webhook,
        request: Request,
        policy: Policy,
        facts: Facts,
        compute: Callable[[Request], Decision] | None = None,
    ) -> Decision:
        """The decision of `review.decide`, from the cache if the same request came before (then `remembered`).

        `compute`: called instead of `review.decide` for a new request, without the parts that no rule reads. What it
        raises is raised here.
        """
        compute = compute or (lambda essential_request: review.decide(webhook, essential_request, policy, facts))
        essential = _essential(request)
        try:
            content = _bytes(essential)
        except ValueError:  # nested deeper than marshal goes
            return compute(request)
        key = _Key(webhook, policy.version, facts.version, hashlib.sha256(content).digest())
        with self._lock:
            cached = self._kept.get(key)
        if cached is not None:
            return cached.decision._replace(request=request, remembered=True)
        decision = compute(essential)
        if decision.error is None and not _may_soften(decision):  # else the next one is computed again
            kept = decision._replace(request=_NO_REQUEST)
            weight = _weight(kept)
            if weight <= self._kept.maxsize // MAX_SHARE:
                with self._lock:
                    self._kept[key] = _Kept(kept, weight)
        return decision._replace(request=request)


def _may_soften(decision: Decision) -> bool:
    """Return whether the decision may change with equal versions. A denied update may be allowed as a rollback as soon
    as its revision is seen, and revisions are not part of the facts' version (`snapshot.WatchedKind.aside`)."""
    return decision.outcome == "denied" and decision.request.operation == "UPDATE"


def _weight(decision: Decision) -> int:
    """About the bytes that a decision takes in memory, with a byte per character of its texts."""
    status = decision.status or {}
    texts = (decision.patch or "", status.get("message", ""), *decision.warnings, *decision.annotations.values())
    text_bytes = sum(len(text) for text in texts)
    causes = status.get("details", {}).get("causes", ())
    cause_bytes = sum(len(cause["message"]) + len(cause["field"]) + _CAUSE for cause in causes)
    shadow_pairs = sum(len(shadow.rules) + 1 for shadow in decision.shadowed)  # its findings, and the policy itself
    pairs = len(decision.rules) + len(decision.exempted) + shadow_pairs
    return _ENTRY + text_bytes + cause_bytes + pairs * _PAIR


def _essential(request: Request) -> Request:
    """The request without the parts that no rule reads (see the module)."""
    obj = request.object
    has_made_up_name = obj is not None and _is_name_made_up(obj)
    return request._replace(
        uid="",
        name=None if has_made_up_name else request.name,
        object=_without_made_up(obj),
        old_object=_without_made_up(request.old_object),
        dry_run=False,
        user="",
    )


def _is_name_made_up(obj: JSON) -> bool:
    """Return whether the API server made the object's name, of a `generateName`."""
    metadata = obj.get("metadata")
    return isinstance(metadata, Mapping) and bool(metadata.get("generateName"))


def _without_made_up(obj: JSON | None) -> JSON | None:
    """The object without its status and the metadata that the API server makes. None, and an object whose metadata is
    not a mapping, are returned as they are."""
    metadata = obj.get("metadata", {}) if obj is not None else None
    if obj is None or not isinstance(metadata, Mapping):
        return obj
    essential_metadata = {name: value for name, value in metadata.items() if name not in _MADE_UP}
    if essential_metadata.get("generateName"):
        essential_metadata.pop("name", None)
    essential = {**obj, "metadata": essential_metadata}
    essential.pop("status", None)
    return essential


def _bytes(request: Request) -> bytes:
    """The request as bytes, equal for equal requests; raises ValueError if it is nested too deep.

    The name of the token's volume, which ends with random letters, is replaced. With several such names none is, since
    a difference between them would be lost. marshal's format 2 writes equal values alike. Newer ones also write which
    value is referenced twice."""
    content = marshal.dumps([*request], 2)
    token_volumes = set(_TOKEN.findall(content))
    if len(token_volumes) != 1:
        return content
    return content.replace(token_volumes.pop(), b"(token)")
