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
    """The workloads; the Pods of a JobSet serve together in a number that only they know (None), a single Pod alone."""
    pods = 0
    for job in map(mapping, as_list(mapping(obj.get("spec")).get("replicatedJobs"))):
        parallelism = FieldPath(("template", "spec", "parallelism")).get(job)
        pods += _count_or_one(job.get("replicas")) * _count_or_one(parallelism)
    return [replace(workload, pods_per_replica=1 if pods == 1 else None) for workload in workloads]


def volcano_job(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The workloads; the Pods of a Volcano Job, the replicas of its tasks, serve together in a number that only they
    know (None), a single Pod alone."""
    tasks = map(mapping, as_list(mapping(obj.get("spec")).get("tasks")))
    pods = sum(_count_or_one(task.get("replicas")) for task in tasks)
    return [replace(workload, pods_per_replica=1 if pods == 1 else None) for workload in workloads]


def _count_or_one(value: object) -> int:
    """A count in a manifest: 1 if it is absent, 0 if it is not a count."""
    return 1 if value is None else replica_count(value) or 0


def pod_clique_set(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The workloads; those of cliques in a scaling group, such as a leader and its workers, serve together, in a number
    that is unknown (None). The Pods of any other clique serve alone."""
    template = FieldPath(("spec", "template")).get(obj)
    groups = map(mapping, as_list(mapping(template).get("podCliqueScalingGroups")))
    in_group = {name for group in groups for name in as_list(group.get("cliqueNames")) if isinstance(name, str)}
    completed: list[Workload] = []
    for workload in workloads:
        clique = mapping(FieldPath(workload.path.parts[:-2]).get(obj))  # above spec.podSpec
        completed.append(replace(workload, pods_per_replica=None) if clique.get("name") in in_group else workload)
    return completed


def model_serving(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The workloads; a role's entry Pod and its `workerReplicas` serve together, in an unknown number (None) if
    `workerReplicas` is not a count."""
    completed: list[Workload] = []
    for workload in workloads:
        written = FieldPath((*workload.path.parts[:-2], "workerReplicas")).get(obj)  # of the role, above TEMPLATE.spec
        workers = 0 if written is None else replica_count(written)
        completed.append(replace(workload, pods_per_replica=None if workers is None else 1 + workers))
    return completed


def dynamo(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The Pods of a DynamoGraphDeployment: v1beta1 has `components` with a Pod template each, v1alpha1 `services`."""
    return [*(_component(obj, workload) for workload in workloads), *_services(obj)]


def _component(obj: JSON, workload: Workload) -> Workload:
    """A component of nvidia.com/v1beta1 (Dynamo 1.2 and later); its container is called `main`.

    ai-dynamo/dynamo deploy/operator/api/v1beta1/dynamocomponentdeployment_types.go.
    """
    component = mapping(FieldPath(workload.path.parts[:-2]).get(obj))  # above podTemplate.spec
    env_of_all = mapping(obj.get("spec")).get("env")
    containers: list[Container] = []
    for container in workload.containers:
        if env_of_all and container.name == "main" and not container.init:
            env = _first_of_a_name(container.spec.get("env"), env_of_all)
            container = replace(container, spec={**container.spec, "env": env})
        containers.append(container)
    has_shared_memory = str(component.get("sharedMemorySize")) != "0"
    return replace(
        workload,
        containers=tuple(containers),
        completes=DYNAMO if has_shared_memory else DYNAMO - {"shm"},
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
    """The variables of several lists (`env`), in order; of those with one name, the first."""
    by_name: dict[str, Any] = {}
    for variables in lists:
        for variable in as_list(variables):
            by_name.setdefault(str(mapping(variable).get("name")), variable)
    return list(by_name.values())


def _dynamo_resources(resources: JSON) -> JSON:
    """Resources of a Dynamo service as Kubernetes has them: `gpu` becomes `nvidia.com/gpu` (another vendor's by
    `gpuType`), and the resources in `custom` their siblings."""
    translated = dict(resources)
    for side in ("limits", "requests"):
        amounts = dict(mapping(resources.get(side)))
        custom = mapping(amounts.pop("custom", None))
        gpu_resource = str(amounts.pop("gpuType", None) or "nvidia.com/gpu")
        count = amounts.pop("gpu", None)
        if count is not None:
            amounts[gpu_resource] = count
        amounts |= custom
        if amounts:
            translated[side] = amounts
    return translated


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
    """The Pods of a runtime of OME, after `workloads`: each of `engineConfig` and `decoderConfig` is a PodSpec with a
    `runner`, its first container. On several nodes, `leader` and `worker` in it are such PodSpecs (ome.io/v1beta1
    pkg/apis/ome/v1beta1/servingruntime_types.go)."""
    pods = [*workloads]
    for name in ("engineConfig", "decoderConfig"):
        config = mapping(mapping(obj.get("spec")).get(name))
        worker = mapping(config.get("worker"))
        size = 1 if worker.get("size") is None else replica_count(worker.get("size"))
        workers = size if worker else 0
        pods_per_replica = None if workers is None else 1 + workers  # with the leader
        place = FieldPath(("spec", name))
        for at, pod in (
            (place, config),
            (place / "leader", mapping(config.get("leader"))),
            (place / "worker", worker),
        ):
            runner = pod.get("runner")
            if not is_object(runner):
                continue
            first = Container(str(runner.get("name") or "ome-container"), at / "runner", runner)
            containers = (first, *containers_of(pod, at))
            metadata = mapping(obj.get("metadata"))
            pods.append(Workload(obj, at, metadata, pod, containers, pods_per_replica=pods_per_replica))
    return [replace(workload, completes=OF_SERVICE) for workload in pods]
