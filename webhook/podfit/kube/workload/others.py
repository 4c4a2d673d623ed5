"""JobSet, Volcano, Grove, Kthena, Dynamo, KAITO and OME: kinds whose Pods work together, or that keep what a container
needs in places of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from podfit.kube.path import FieldPath, is_object, mapping
from podfit.kube.workload.kserve import OF_SERVICE
from podfit.kube.workload.template import JSON, PROBES, Container, Workload, as_list, containers_of, replica_count

DYNAMO = PROBES | {"shm"}
"""The Dynamo operator mounts 8Gi of /dev/shm and gives workers a start-up probe of two hours."""


def job_set(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The Pods of a JobSet work together in ways that only they know; a single one serves alone."""
    pods = 0
    for job in map(mapping, as_list(mapping(obj.get("spec")).get("replicatedJobs"))):
        parallelism = FieldPath(("template", "spec", "parallelism")).get(job)
        counts = [1 if item is None else replica_count(item) or 0 for item in (job.get("replicas"), parallelism)]
        pods += counts[0] * counts[1]
    return [replace(workload, pods_per_replica=1 if pods == 1 else None) for workload in workloads]


def volcano_job(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The Pods of a Volcano Job, which are the replicas of its tasks."""
    tasks = [mapping(task).get("replicas") for task in as_list(mapping(obj.get("spec")).get("tasks"))]
    alone = sum(1 if task is None else replica_count(task) or 0 for task in tasks) == 1
    return [replace(workload, pods_per_replica=1 if alone else None) for workload in workloads]


def pod_clique_set(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The workloads; those of cliques in a scaling group, such as a leader and its workers, serve together, in a number
    that is unknown (None). The Pods of any other clique serve alone."""
    template = FieldPath(("spec", "template")).get(obj)
    groups = map(mapping, as_list(mapping(template).get("podCliqueScalingGroups")))
    together = {name for group in groups for name in as_list(group.get("cliqueNames")) if isinstance(name, str)}
    return [
        replace(workload, pods_per_replica=None)
        if mapping(FieldPath(workload.path.parts[:-2]).get(obj)).get("name") in together
        else workload
        for workload in workloads
    ]


def model_serving(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The workloads; a role's entry Pod and its `workerReplicas` serve together. None if their number is not one."""
    items = []
    for workload in workloads:
        written = FieldPath((*workload.path.parts[:-2], "workerReplicas")).get(obj)
        workers = 0 if written is None else replica_count(written)
        items.append(replace(workload, pods_per_replica=None if workers is None else 1 + workers))
    return items


def dynamo(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """v1beta1 has `components` with a Pod template each, v1alpha1 `services`."""
    return [*(_component(obj, workload) for workload in workloads), *_services(obj)]


def _component(obj: JSON, workload: Workload) -> Workload:
    """A component of nvidia.com/v1beta1 (Dynamo 1.2 and later); its container is called `main`.

    ai-dynamo/dynamo deploy/operator/api/v1beta1/dynamocomponentdeployment_types.go.
    """
    component = mapping(FieldPath(workload.path.parts[:-2]).get(obj))
    everywhere = mapping(obj.get("spec")).get("env")
    containers = tuple(
        replace(container, spec={**container.spec, "env": _first_of_a_name(container.spec.get("env"), everywhere)})
        if everywhere and container.name == "main" and not container.init
        else container
        for container in workload.containers
    )
    bare = str(component.get("sharedMemorySize")) == "0"
    return replace(
        workload,
        containers=containers,
        completes=DYNAMO - ({"shm"} if bare else set()),
        pods_per_replica=replica_count(mapping(component.get("multinode")).get("nodeCount")) or 1,
    )


def _services(obj: JSON) -> list[Workload]:
    """The Pod of each service: its `extraPodSpec`.

    The `mainContainer` gets the service's own resources (`gpu` for `nvidia.com/gpu`), environment and probes. Its name
    here is the service's key (in the Pod it is `main`)."""
    services = FieldPath(("spec", "services"))
    workloads = []
    for name, service in mapping(services.get(obj)).items():
        if not isinstance(service, Mapping):
            continue
        at = services / str(name)
        pod = mapping(service.get("extraPodSpec"))
        main = mapping(pod.get("mainContainer"))
        path = at.join("extraPodSpec", "mainContainer") if main else at
        spec: dict[str, Any] = {"name": str(name), **main}
        places = {}
        for key in ("resources", "livenessProbe", "readinessProbe", "volumeMounts"):
            if isinstance(service.get(key), Mapping | list) and key not in main:
                spec[key] = service[key]
            if key not in main:
                places[key] = at / key
        # The nearest wins; the container's own come first so that they keep their places.
        spec["env"] = _first_of_a_name(main.get("env"), service.get("envs"), mapping(obj.get("spec")).get("envs"))
        spec["resources"] = _dynamo_resources(mapping(spec.get("resources")))
        container = Container(str(name), path, spec, synthetic=not main, places=places)
        nodes = replica_count(mapping(service.get("multinode")).get("nodeCount"))
        metadata = mapping(obj.get("metadata"))
        workloads.append(
            Workload(
                object=obj,
                path=at / "extraPodSpec",
                metadata=mapping(service.get("extraPodMetadata")) or metadata,
                spec=pod,
                containers=(container, *containers_of(pod, at / "extraPodSpec")),
                completes=DYNAMO - ({"shm"} if mapping(service.get("sharedMemory")).get("disabled") else set()),
                pods_per_replica=nodes or 1,
                replicas=replica_count(service.get("replicas")),
            )
        )
    return workloads


def _first_of_a_name(*lists: object) -> list[Any]:
    """The variables of several lists, without those whose name was there before."""
    entries: dict[str, Any] = {}
    for variable_list in lists:
        for variable in as_list(variable_list):
            entries.setdefault(str(mapping(variable).get("name")), variable)
    return list(entries.values())


def _dynamo_resources(resources: JSON) -> JSON:
    """Resources of a Dynamo service as Kubernetes has them: `gpu` becomes `nvidia.com/gpu` (another vendor's by
    `gpuType`), and the resources in `custom` their siblings."""
    out = {}
    for key in ("limits", "requests"):
        side = dict(mapping(resources.get(key)))
        custom = mapping(side.pop("custom", None))
        vendor = str(side.pop("gpuType", None) or "nvidia.com/gpu")
        if (count := side.pop("gpu", None)) is not None:
            side[vendor] = count
        out[key] = {**side, **custom}
    return {**resources, **{key: side for key, side in out.items() if side}}


def kaito(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The workloads with the nodes of a KAITO Workspace: `inference.template` is a Pod template; the GPU is
    `resource.instanceType`, on `resource.count` nodes.

    A Workspace with `inference.preset` has no template here. KAITO writes the command and finds the longest context
    that fits, so podfit can only check the Pod.
    """
    resource = mapping(obj.get("resource"))
    instance = resource.get("instanceType")
    size = 1 if resource.get("count") is None else replica_count(resource.get("count"))
    label = {"node.kubernetes.io/instance-type": instance} if isinstance(instance, str) else {}
    return [
        replace(
            workload,
            spec={**workload.spec, "nodeSelector": {**label, **mapping(workload.spec.get("nodeSelector"))}},
            pods_per_replica=size,
        )
        for workload in workloads
    ]


def ome_runtime(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """A runtime of OME: each of `engineConfig` and `decoderConfig` is a PodSpec with a `runner`, its first container;
    of several nodes, `leader` and `worker` are (ome.io/v1beta1 pkg/apis/ome/v1beta1/servingruntime_types.go)."""
    items = [*workloads]
    for name in ("engineConfig", "decoderConfig"):
        config = mapping(mapping(obj.get("spec")).get(name))
        worker = mapping(config.get("worker"))
        size = 1 if worker.get("size") is None else replica_count(worker.get("size"))
        workers = size if worker else 0
        pods = None if workers is None else 1 + workers  # with the leader
        for part, pod in (((), config), (("leader",), mapping(config.get("leader"))), (("worker",), worker)):
            at = FieldPath(("spec", name, *part))
            if is_object(runner := pod.get("runner")):
                first = Container(str(runner.get("name") or "ome-container"), at / "runner", runner)
                containers = (first, *containers_of(pod, at))
                items.append(Workload(obj, at, mapping(obj.get("metadata")), pod, containers, pods_per_replica=pods))
    return [replace(workload, completes=OF_SERVICE) for workload in items]
