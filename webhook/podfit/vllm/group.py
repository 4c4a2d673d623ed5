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
    """One replica of the model: all Pods that serve it together."""

    pods: int
    gpus: int
    """Devices that all its Pods together request of `resource`."""
    resource: str
    """The resource's name (nvidia.com/gpu)."""
    closed: bool
    """No other Pod can join: the object gives the whole size of the group."""


def group_of(workload: Workload, container: Container, cached_object: CachedObject | None = None) -> Replica | None:
    """The group of the container that leads it; None if its size or its GPUs are unknown, or another Pod leads.

    `cached_object`: the object that the workload is in, for a caller that checks all its containers.
    """
    parts, cached_object = workload.path.parts, cached_object or CachedObject(workload.object)
    if "headGroupSpec" in parts or "workerGroupSpecs" in parts:
        return cached_object.once(_ray)
    requested, size = gpu.requested_resource(workload, container), workload.pods_per_replica
    resource, own_gpus = requested or ("", None)
    if size is None or own_gpus is None:
        return None
    has_size = "leaderWorkerTemplate" in parts or "workloadTemplate" in parts  # the object has a field for it
    if size == 1:
        return Replica(1, own_gpus, resource, closed=has_size)
    if parts[-2:] == ("workerTemplate", "spec"):  # all Pods have this template, unless the leader has its own
        return None if cached_object.once(_is_led) else Replica(size, own_gpus * size, resource, closed=True)
    if parts[-1] in ("workerSpec", "worker"):
        return None  # the other template leads
    worker = cached_object.once(_by_path).get(_of_worker(_path_in_item(workload)))
    worker_gpus = own_gpus if worker is None else worker.once(_requested_by_pod).get(resource, 0)
    if worker_gpus is None:
        return None
    return Replica(size, own_gpus + (size - 1) * worker_gpus, resource, closed=has_size)


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
    """Resource → the devices that the Pod's containers request together; None if one of their numbers is unknown."""
    total: dict[str, int | None] = {}
    for container in workload.containers:
        requested = gpu.requested_resource(workload, container) if not container.init else None
        if requested is not None:
            resource, count = requested
            before = total.get(resource, 0)
            total[resource] = None if before is None or count is None else before + count
    return total


def _ray(cached_object: CachedObject) -> Replica | None:
    """A Ray cluster at its largest: Ray places an engine's ranks wherever there are GPUs. None if a number is
    unknown, or without GPUs. `num-gpus` of a group overrides what its container requests."""
    pods = gpus = 0
    resource = None
    for workload in cached_object.workloads:
        group = FieldPath(workload.path.parts[:-2]).get(cached_object.object)
        requests = (gpu.requested_resource(workload, container) for container in workload.containers)
        requested = next((request for request in requests if request is not None), None)
        own_resource, own_gpus = requested or (None, 0)
        declared = str(FieldPath(("rayStartParams", "num-gpus")).get(group) or "")
        gpus_per_pod = int(declared) if declared.isdigit() else own_gpus
        is_worker = isinstance(group, Mapping) and "workerGroupSpecs" in workload.path.parts
        group_pods = _most_pods(group) if is_worker else 1  # there is one head
        if group_pods is None or gpus_per_pod is None:
            return None
        resource = resource or own_resource
        pods, gpus = pods + group_pods, gpus + group_pods * gpus_per_pod
    return Replica(pods, gpus, resource, closed=False) if resource and gpus else None


def _most_pods(group: Mapping[str, object]) -> int | None:
    """Pods of a worker group; with an autoscaler, the most that it may make, if the group sets that. None if
    unknown."""
    numbers = [replica_count(group.get(name)) for name in ("replicas", "maxReplicas")]
    replicas = max((number for number in numbers if number is not None), default=None)
    pods_per_replica = replica_count(group.get("numOfHosts")) if group.get("numOfHosts") is not None else 1
    return None if replicas is None or pods_per_replica is None else replicas * pods_per_replica
