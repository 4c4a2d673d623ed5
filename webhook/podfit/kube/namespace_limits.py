"""Checks a repair against the namespace's LimitRanges and ResourceQuotas, which could reject the repaired Pod.

The arithmetic is that of the API server's own admission plugins (Kubernetes 1.36
plugin/pkg/admission/limitranger/admission.go, pkg/quota/v1/evaluator/core/pods.go). Only new violations count: a Pod
that was rejected before the repair may still be rejected after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from podfit.kube import workload
from podfit.kube.path import mapping
from podfit.kube.quantity import try_parse
from podfit.kube.snapshot import Snapshot
from podfit.kube.workload import JSON
from podfit.kube.workload.template import as_list

_EXTENT = ("BestEffort", "NotBestEffort")
"""Scopes of a quota that a Pod enters or leaves with its first request."""


class _Limit(NamedTuple):
    """One item of a LimitRange."""

    name: str
    """The LimitRange's."""
    item: JSON
    """`type`, `min`, `max`, `default`, `defaultRequest`, `maxLimitRequestRatio`."""


class _Violation(NamedTuple):
    """A bound of a LimitRange that a Pod breaks."""

    key: tuple[str, ...]
    """Equal for the same violation of another Pod."""
    reason: str


class _BrokenBound(NamedTuple):
    """A bound of a LimitRange item that amounts break."""

    bound: str
    """ "min", "max" or "maxLimitRequestRatio"."""
    resource: str
    value: Any
    """The bound's quantity, as written."""


def refusal(
    old_object: JSON,
    after: JSON,
    namespace: str | None,
    snapshot: Snapshot,
    kinds: Mapping[str, Sequence[str]] | None = None,
) -> str | None:
    """The reason why the namespace may reject the Pods of `after` but not those of `old_object`; None without one.
    Limits that the snapshot cannot hold are a reason. `kinds`: further kinds with Pods, as for `workload.find`."""
    for kind, title in (("limitranges", "LimitRanges"), ("resourcequotas", "ResourceQuotas")):
        if snapshot.has_unknown(kind, namespace):
            return f"the {title} of the namespace are too large or too many to be known"
    limits = [
        _Limit(name, mapping(item))
        for (place, name), kept in snapshot.objects.get("limitranges", {}).items()
        if place == namespace
        for item in as_list(kept.get("limits"))
    ]
    quotas = [
        (name, kept) for (place, name), kept in snapshot.objects.get("resourcequotas", {}).items() if place == namespace
    ]
    if not limits and not quotas:
        return None
    for old, new in zip(workload.find(old_object, kinds), workload.find(after, kinds), strict=True):
        before, becomes = _Pod.of(old.spec, limits), _Pod.of(new.spec, limits)
        earlier = {violation.key for violation in _violations(before, limits)}
        for violation in _violations(becomes, limits):
            if violation.key not in earlier:
                return violation.reason
        for name, kept in quotas:
            reason = _added_to_quota(before, becomes, kept)
            if reason:
                return f"ResourceQuota {name}: {reason}"
    return None


class _Amounts(NamedTuple):
    """Requests and limits, in bytes or counts; a name that is absent is not given."""

    requests: Mapping[str, int]
    limits: Mapping[str, int]


class _Pod(NamedTuple):
    """A Pod's resources once the API server has filled in what is not given."""

    containers: tuple[tuple[str, _Amounts], ...]
    """(name, amounts) of each container and init container."""
    total: _Amounts

    @classmethod
    def of(cls, spec: JSON, limits: Sequence[_Limit]) -> _Pod:
        """The resources of a PodSpec, with the defaults of the namespace's LimitRanges. The total is that of the
        containers and sidecars, or of an init container that needs more."""
        mains = [item for item in as_list(spec.get("containers")) if isinstance(item, Mapping)]
        inits = [item for item in as_list(spec.get("initContainers")) if isinstance(item, Mapping)]
        of_mains = [_with_defaults(main, limits) for main in mains]
        of_inits = [_with_defaults(init, limits) for init in inits]
        of_sidecars = [
            amounts
            for init, amounts in zip(inits, of_inits, strict=True)
            if init.get("restartPolicy")  # Always
        ]
        running = [*of_sidecars, *of_mains]
        requests = _effective_sum([amounts.requests for amounts in running], [init.requests for init in of_inits])
        most = _effective_sum([amounts.limits for amounts in running], [init.limits for init in of_inits])
        of_pod = mapping(spec.get("resources"))  # they win over the sum of the containers
        total = _Amounts({**requests, **_amounts(of_pod.get("requests"))}, {**most, **_amounts(of_pod.get("limits"))})
        names = [str(container.get("name")) for container in (*mains, *inits)]
        return cls(tuple(zip(names, (*of_mains, *of_inits), strict=True)), total)


def _effective_sum(running: Sequence[Mapping[str, int]], once: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Resource → the sum of those that run together, or the most that one of those before them takes."""
    effective: dict[str, int] = {}
    for name in {name for amounts in (*running, *once) for name in amounts}:
        together = sum(amounts.get(name, 0) for amounts in running)
        effective[name] = max([together, *(amounts.get(name, 0) for amounts in once)])
    return effective


def _with_defaults(container: JSON, limits: Sequence[_Limit]) -> _Amounts:
    """The requests and limits of a container as its namespace completes them. A request that is not set is the limit;
    amounts that are then not set are a LimitRange's defaults."""
    written = mapping(container.get("resources"))
    most = _amounts(written.get("limits"))
    least = {**most, **_amounts(written.get("requests"))}
    for limit in limits:
        if limit.item.get("type") == "Container":
            most = {**_amounts(limit.item.get("default")), **most}
            least = {**_amounts(limit.item.get("defaultRequest")), **least}
    return _Amounts(least, most)


def _amounts(written: object) -> dict[str, int]:
    """Resource → bytes or count, of `requests` or `limits`; values that are not quantities are left out."""
    return {str(name): size for name, value in mapping(written).items() if (size := try_parse(value)) is not None}


def _violations(pod: _Pod, limits: Sequence[_Limit]) -> Iterator[_Violation]:
    """Each violation of a LimitRange by the Pod or one of its containers."""
    subjects_by_type = {"Pod": (("", pod.total),), "Container": pod.containers}
    for name, item in limits:
        limit_type = str(item.get("type"))
        for subject, amounts in subjects_by_type.get(limit_type, ()):
            for bound, resource, value in _broken_bounds(item, amounts):
                key = (name, limit_type, subject, bound, resource)
                yield _Violation(key, f"LimitRange {name}: {bound} {resource} {value} for a {limit_type.lower()}")


def _broken_bounds(item: JSON, amounts: _Amounts) -> Iterator[_BrokenBound]:
    """Each `min`, `max` and `maxLimitRequestRatio` of a LimitRange item that the amounts break. A bound also breaks if
    the amount is not set; one that is not a quantity never does."""
    for resource, value in mapping(item.get("min")).items():
        bound, least = try_parse(value), amounts.requests.get(resource)
        if bound is not None and (least is None or min(least, amounts.limits.get(resource, least)) < bound):
            yield _BrokenBound("min", resource, value)
    for resource, value in mapping(item.get("max")).items():
        bound, most = try_parse(value), amounts.limits.get(resource)
        if bound is not None and (most is None or max(most, amounts.requests.get(resource, most)) > bound):
            yield _BrokenBound("max", resource, value)
    for resource, value in mapping(item.get("maxLimitRequestRatio")).items():
        bound, least, most = try_parse(value), amounts.requests.get(resource), amounts.limits.get(resource)
        if bound is not None and (not least or most is None or most > bound * least):
            yield _BrokenBound("maxLimitRequestRatio", resource, value)


def _added_to_quota(was: _Pod, becomes: _Pod, quota: JSON) -> str | None:
    """The reason why the change needs more of a quota; None if it does not. The free part is not read, since another
    Pod may take it meanwhile."""
    had_resources = bool(was.total.requests or was.total.limits)
    has_resources = bool(becomes.total.requests or becomes.total.limits)
    if had_resources != has_resources and any(scope in _EXTENT for scope in as_list(quota.get("scopes"))):
        return "a Pod that requests something is counted by another quota"
    for resource in as_list(quota.get("hard")):  # "limits.memory", "requests.memory", or "memory" for a request
        side = "limits" if str(resource).startswith("limits.") else "requests"
        name = str(resource).removeprefix(f"{side}.")
        old, new = getattr(was.total, side), getattr(becomes.total, side)
        # If a container did not set the resource, the quota rejected the Pod before.
        was_accepted = all(name in getattr(amounts, side) for _, amounts in was.containers)
        if was_accepted and new.get(name, 0) > old.get(name, 0):
            return f"it counts {resource}"
    return None
