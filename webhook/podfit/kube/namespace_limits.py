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


def refusal(
    old_object: JSON,
    after: JSON,
    namespace: str | None,
    snapshot: Snapshot,
    kinds: Mapping[str, Sequence[str]] | None = None,
) -> str | None:
    """The reason why the namespace may reject the Pods of `after` but not those of `old_object`; None without one.
    Limits that the snapshot cannot hold are a reason."""
    limits = [
        (name, mapping(item))
        for (place, name), kept in snapshot.objects.get("limitranges", {}).items()
        if place == namespace
        for item in as_list(kept.get("limits"))
    ]
    quotas = [
        (name, kept) for (place, name), kept in snapshot.objects.get("resourcequotas", {}).items() if place == namespace
    ]
    for kind, title in (("limitranges", "LimitRanges"), ("resourcequotas", "ResourceQuotas")):
        if snapshot.has_unknown(kind, namespace):
            return f"the {title} of the namespace are too large or too many to be known"
    if not limits and not quotas:
        return None
    for old, new in zip(workload.find(old_object, kinds), workload.find(after, kinds), strict=True):
        was, becomes = _Pod.of(old.spec, limits), _Pod.of(new.spec, limits)
        had = {key for key, _ in _violations(was, limits)}
        for key, why in _violations(becomes, limits):
            if key not in had:
                return why
        for name, kept in quotas:
            reason = _added_to_quota(was, becomes, kept)
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
    total: _Amounts

    @classmethod
    def of(cls, spec: JSON, limits: Sequence[tuple[str, JSON]]) -> _Pod:
        """The resources of a PodSpec, with the defaults of the namespace's LimitRanges. The sum is that of the
        containers and sidecars, or of an init container that needs more."""
        mains = [item for item in as_list(spec.get("containers")) if isinstance(item, Mapping)]
        inits = [item for item in as_list(spec.get("initContainers")) if isinstance(item, Mapping)]
        named = [(str(main.get("name")), _with_defaults(main, limits)) for main in mains]
        before = [(str(init.get("name")), _with_defaults(init, limits)) for init in inits]
        aside = [amounts for item, (_, amounts) in zip(inits, before, strict=True) if item.get("restartPolicy")]
        running = [*aside, *(amounts for _, amounts in named)]
        once = [amounts for _, amounts in before]
        total = _Amounts(
            _effective_sum([amounts.requests for amounts in running], [amounts.requests for amounts in once]),
            _effective_sum([amounts.limits for amounts in running], [amounts.limits for amounts in once]),
        )
        own = mapping(spec.get("resources"))  # of the Pod itself: they win over the containers' sum
        total = _Amounts(
            {**total.requests, **_amounts(own.get("requests"))}, {**total.limits, **_amounts(own.get("limits"))}
        )
        return cls((*named, *before), total)


def _effective_sum(running: Sequence[Mapping[str, int]], once: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sum of those that run together, or the most that one of those before them takes."""
    names = {name for amounts in (*running, *once) for name in amounts}
    return {
        name: max([sum(amounts.get(name, 0) for amounts in running), *(amounts.get(name, 0) for amounts in once)])
        for name in names
    }


def _with_defaults(container: JSON, limits: Sequence[tuple[str, JSON]]) -> _Amounts:
    """The requests and limits of a container as its namespace completes them: a request that is not set is the limit;
    what then is not set is a LimitRange's default."""
    given = mapping(container.get("resources"))
    most = _amounts(given.get("limits"))
    least = {**most, **_amounts(given.get("requests"))}
    for _, item in limits:
        if item.get("type") == "Container":
            most = {**_amounts(item.get("default")), **most}
            least = {**_amounts(item.get("defaultRequest")), **least}
    return _Amounts(least, most)


def _amounts(given: object) -> dict[str, int]:
    """Resource → bytes or count; values that are not quantities are left out."""
    return {str(name): size for name, value in mapping(given).items() if (size := try_parse(value)) is not None}


def _violations(pod: _Pod, limits: Sequence[tuple[str, JSON]]) -> Iterator[tuple[tuple[str, ...], str]]:
    """(key, reason) for each violation of a LimitRange; the key is equal for the same violation of another Pod."""
    subjects_by_type = {"Pod": (("", pod.total),), "Container": pod.containers}
    for name, item in limits:
        extent = item.get("type")
        for whose, amounts in subjects_by_type.get(str(extent), ()):
            for word, resource, value in _broken_bounds(item, amounts):
                what = f"{word} {resource} {value} for a {str(extent).lower()}"
                yield (name, str(extent), whose, word, resource), f"LimitRange {name}: {what}"


def _broken_bounds(item: JSON, amounts: _Amounts) -> Iterator[tuple[str, str, Any]]:
    """(bound, resource, its value) for each `min`, `max` and `maxLimitRequestRatio` of a LimitRange item that the
    amounts break."""
    for resource, value in mapping(item.get("min")).items():
        bound, least = try_parse(value), amounts.requests.get(resource)
        if bound is not None and (least is None or min(least, amounts.limits.get(resource, least)) < bound):
            yield "min", resource, value
    for resource, value in mapping(item.get("max")).items():
        bound, most = try_parse(value), amounts.limits.get(resource)
        if bound is not None and (most is None or max(most, amounts.requests.get(resource, most)) > bound):
            yield "max", resource, value
    for resource, value in mapping(item.get("maxLimitRequestRatio")).items():
        bound, least, most = try_parse(value), amounts.requests.get(resource), amounts.limits.get(resource)
        if bound is not None and (not least or most is None or most > bound * least):
            yield "maxLimitRequestRatio", resource, value


def _added_to_quota(was: _Pod, becomes: _Pod, quota: JSON) -> str | None:
    """The reason why the change needs more of a quota; None if it does not. The free part is not read, since another
    Pod may take it meanwhile."""
    had_resources = bool(was.total.requests or was.total.limits)
    has_resources = bool(becomes.total.requests or becomes.total.limits)
    if had_resources != has_resources and any(scope in _EXTENT for scope in as_list(quota.get("scopes"))):
        return "a Pod that requests something is counted by another quota"
    for resource in as_list(quota.get("hard")):
        part = "limits" if str(resource).startswith("limits.") else "requests"
        name = str(resource).removeprefix(f"{part}.")
        old, new = getattr(was.total, part), getattr(becomes.total, part)
        complete = all(name in getattr(amounts, part) for _, amounts in was.containers)  # else it was rejected before
        if complete and new.get(name, 0) > old.get(name, 0):
            return f"it counts {resource}"
    return None
