"""The Pods that serve one model together, and the GPUs that they have.

LeaderWorkerSet: one leader and `size` - 1 workers; without a leaderTemplate the leader is a worker too. KubeRay: the
head and every worker group's `replicas` × `numOfHosts`. KServe: a predictor and the workers of its `workerSpec`.
StormService, Dynamo: so many equal Pods. Kthena: a role's entry Pod and its workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from podfit.kube.path import FieldPath
from podfit.kube.workload import CachedObject, Container, Workload, replica_count
from podfit.vllm import gpu


class Replica(NamedTuple):
    """One replica."""

    pods: int
    gpus: int
    """Devices that all its Pods together request of `resource`."""
    resource: str
    closed: bool
    """No other Pod can join: the object gives the whole size of the group."""


def group_of(workload: Workload, container: Container, cached_object: CachedObject | None = None) -> Replica | None:
    """The group of the container that leads it; None if its size or its GPUs are unknown, or another Pod leads.

    `cached_object`: the object that the workload is in, for a caller that checks all its containers.
    """
    parts, cached_object = workload.path.parts, cached_object or CachedObject(workload.object)
    if "headGroupSpec" in parts or "workerGroupSpecs" in parts:
        return cached_object.once(_ray)
    names, size = gpu.requested_resource(workload, container), workload.pods_per_replica
    resource, own = names or ("", None)
    if size is None or own is None:
        return None
    sized = "leaderWorkerTemplate" in parts or "workloadTemplate" in parts
    if size == 1:
        return Replica(1, own, resource, closed=sized)
    if parts[-2:] == ("workerTemplate", "spec"):
        return None if cached_object.once(_is_led) else Replica(size, own * size, resource, closed=True)
    if parts[-1] in ("workerSpec", "worker"):
        return None
    worker = cached_object.once(_by_path).get(_of_worker(_path_in_item(workload)))
    each = own if worker is None else worker.once(_requested_by_pod).get(resource, 0)
    return None if each is None else Replica(size, own + (size - 1) * each, resource, closed=sized)


def _is_led(cached_object: CachedObject) -> bool:
    """True if the leader has a template of its own."""
    return any({"leaderTemplate", "entryTemplate"} & {*workload.path.parts} for workload in cached_object.workloads)


def _by_path(cached_object: CachedObject) -> Mapping[FieldPath, Workload]:
    """Path → workload; the first of several with one path."""
    return {workload.path: workload for workload in reversed(cached_object.workloads)}


def _path_in_item(workload: Workload) -> FieldPath:
    """The workload's path in its own object; for an item of a List, the path within the item."""
    parts = workload.path.parts
    for start in range(len(parts)):
        if parts[start] == "spec" and FieldPath(parts[start:]).get(workload.object) is not None:
            return FieldPath(parts[start:])
    return workload.path


def _of_worker(leader: FieldPath) -> FieldPath:
    """The field of the template of a leader's workers."""
    own = leader.parts
    if own[-2:] in (("leaderTemplate", "spec"), ("entryTemplate", "spec")):
        return FieldPath((*own[:-2], "workerTemplate", "spec"))
    if own[-1] == "template":  # LLMInferenceService
        return FieldPath((*own[:-1], "worker"))
    return leader / "workerSpec"


def _requested_by_pod(workload: Workload) -> dict[str, int | None]:
    """Resource → the devices that the Pod's containers request together; None if unknown."""
    items = (gpu.requested_resource(workload, container) for container in workload.containers if not container.init)
    total: dict[str, int | None] = {}
    for resource, count in (pair for pair in items if pair is not None):
        before = total.get(resource, 0)
        total[resource] = None if before is None or count is None else before + count
    return total


def _ray(cached_object: CachedObject) -> Replica | None:
    """A Ray cluster at its largest: Ray places an engine's ranks wherever there are GPUs. None if a number is
    unknown, or without GPUs."""
    pods = gpus = 0
    resource = None
    for workload in cached_object.workloads:
        group = FieldPath(workload.path.parts[:-2]).get(cached_object.object)
        request = next(
            (names for c in workload.containers if (names := gpu.requested_resource(workload, c)) is not None), None
        )
        many = _hosts(group) if isinstance(group, Mapping) and "workerGroupSpecs" in workload.path.parts else 1
        value = FieldPath(("rayStartParams", "num-gpus")).get(group)
        each = int(value) if str(value or "").isdigit() else request[1] if request else 0
        if many is None or each is None:
            return None
        resource = resource or (request[0] if request else None)
        pods, gpus = pods + many, gpus + many * each
    return Replica(pods, gpus, resource, closed=False) if resource and gpus else None


def _hosts(group: Mapping[str, object]) -> int | None:
    """Pods of a worker group; with an autoscaler, the most that it may make, if the group sets that. None if
    unknown."""
    numbers = [replica_count(group.get(name)) for name in ("replicas", "maxReplicas")]
    most = max((count for count in numbers if count is not None), default=None)
    hosts = replica_count(group.get("numOfHosts")) if group.get("numOfHosts") is not None else 1
    return None if most is None or hosts is None else most * hosts
