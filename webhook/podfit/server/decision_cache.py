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
from operator import itemgetter
from threading import Lock

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

_NOBODY = review.unread("")
"""Placeholder for the user of the request."""

_Key = tuple[str, str, str, bytes]
"""Webhook, version of the policy, version of the facts, hash of the request."""


class DecisionCache:
    """Remembers the last decisions, each with its weight; safe for threads."""

    def __init__(self, size: int = CACHE_BYTES) -> None:
        self._lock = Lock()
        self._kept: LRUCache[_Key, tuple[Decision, int]] = LRUCache(size, getsizeof=itemgetter(1))

    def decide(
        self,
        webhook: Webhook,
        request: Request,
        policy: Policy,
        facts: Facts,
        compute: Callable[[Request], Decision] | None = None,
    ) -> Decision:
        """The decision of `review.decide`, from the cache if the same request came before.

        `compute`: called instead of `review.decide` for a new request; raises only what that raises.
        """
        compute = compute or (lambda essential_request: review.decide(webhook, essential_request, policy, facts))
        essential = _essential(request)
        try:
            what = _bytes(essential)
        except ValueError:  # nested deeper than marshal goes
            return compute(request)
        key = (webhook, policy.version, facts.version, hashlib.sha256(what).digest())
        with self._lock:
            cached = self._kept.get(key)
        if cached is not None:
            return cached[0]._replace(request=request, remembered=True)
        decision = compute(essential)
        if decision.error is None and not _may_soften(decision):  # else the next one is computed again
            kept = decision._replace(request=_NOBODY)
            weight = _weight(kept)
            if weight <= self._kept.maxsize // 64:  # one must not push out all others
                with self._lock:
                    self._kept[key] = kept, weight
        return decision._replace(request=request)


def _may_soften(decision: Decision) -> bool:
    """Return whether the decision may change with equal versions. A denied update may be allowed as a rollback as soon
    as its revision is seen, and revisions are not part of the facts' version (`snapshot.WatchedKind.aside`)."""
    return decision.outcome == "denied" and decision.request.operation == "UPDATE"


def _weight(decision: Decision) -> int:
    """About the bytes that a decision takes in memory."""
    status = decision.status or {}
    causes = status.get("details", {}).get("causes", ())
    pairs = (
        len(decision.rules) + len(decision.exempted) + sum(len(shadowed.rules) + 1 for shadowed in decision.shadowed)
    )
    texts = (decision.patch or "", status.get("message", ""), *decision.warnings, *decision.annotations.values())
    return (
        _ENTRY
        + sum(map(len, texts))
        + sum(len(cause["message"]) + len(cause["field"]) + _CAUSE for cause in causes)
        + pairs * _PAIR
    )


def _essential(request: Request) -> Request:
    """The request without what makes no difference to its answer."""
    obj = request.object
    made_up = obj is not None and _is_name_made_up(obj)
    return request._replace(
        uid="",
        name=None if made_up else request.name,
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
    if obj is None or not isinstance(metadata := obj.get("metadata", {}), Mapping):
        return obj
    left = dict(metadata)
    for name in _MADE_UP:
        left.pop(name, None)
    if left.get("generateName"):
        left.pop("name", None)
    essential = {**obj, "metadata": left}
    essential.pop("status", None)
    return essential


def _bytes(request: Request) -> bytes:
    """The request as bytes, the random letters of the token's volume replaced. With several such names it is as given.

    marshal's format 2 writes equal values alike; newer ones also write which value is referenced twice."""
    what = marshal.dumps([*request], 2)
    tokens = set(_TOKEN.findall(what))
    return what.replace(tokens.pop(), b"(token)") if len(tokens) == 1 else what
