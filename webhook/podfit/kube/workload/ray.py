"""KubeRay: clusters of Ray, and vLLM engines that a Serve configuration names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from podfit.kube import manifest
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload.template import JSON, PROBES, Refine, Workload, as_list, replica_count

KUBERAY = PROBES | {"shm"}
"""KubeRay mounts a memory-backed /dev/shm and probes the raylet, not vLLM: no probe waits for the engine
(kuberay ray-operator/controllers/ray/common/pod.go)."""

CONTAINER_FIELDS = (
    "name", "image", "imagePullPolicy", "workingDir", "ports", "env", "envFrom", "resources", "volumeMounts",
    "volumeDevices", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext",
    "terminationMessagePath", "terminationMessagePolicy", "restartPolicy",
)  # fmt: skip
"""Fields of a container besides its command."""


def refine_cluster(at: FieldPath) -> Refine:
    """A Ray cluster's Pods serve together: the head, and each worker group's `replicas` × `numOfHosts`."""

    def refine(obj: JSON, workloads: list[Workload]) -> list[Workload]:
        """The cluster's Pod templates with the number of Pods that serve together; None if the autoscaler decides
        it."""
        size = _cluster_size(mapping(at.get(obj)))
        return [replace(workload, pods_per_replica=size) for workload in workloads]

    return refine


def _cluster_size(ray: JSON) -> int | None:
    """The number of Pods of a RayClusterSpec, the head included. None if the autoscaler decides it, or a number in it
    is not a count."""
    if ray.get("enableInTreeAutoscaling") is True:
        return None
    size = 1
    for group in map(mapping, as_list(ray.get("workerGroupSpecs"))):
        replicas = replica_count(group.get("replicas"))
        hosts = 1 if group.get("numOfHosts") is None else replica_count(group.get("numOfHosts"))
        if replicas is None or hosts is None:
            return None
        size += replicas * hosts
    return size


MAX_GROUPS = 512
"""The most groups in which an engine of a Serve configuration may run; real clusters have fewer."""
_SERVE_CONFIG = FieldPath(("spec", "serveConfigV2"))


def refine_service(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """`serveConfigV2` (a YAML text) names the model and vLLM's engine arguments; Ray starts the engine in the workers
    that have accelerators (`ray.serve.llm`, Ray 2.44 and later). How many of them one engine spans is not known."""
    text = _SERVE_CONFIG.get(obj)
    long = isinstance(text, str) and len(text) > manifest.MAX_INNER_LENGTH
    unevaluated = (
        f"serveConfigV2 has more than {manifest.MAX_INNER_LENGTH:,} characters, and is not evaluated" if long else None
    )
    workloads = [replace(workload, pods_per_replica=None, unevaluated=unevaluated) for workload in workloads]
    engines = list(_serve_engines(text))
    hosts = _hosts(workloads)
    if not engines or (len(engines) > 1 and len(hosts) > 1):
        return workloads  # which engine runs in which group is up to Ray's scheduler
    if len(hosts) > MAX_GROUPS:
        unevaluated = f"{len(hosts) - MAX_GROUPS} of {len(hosts)} worker groups are not evaluated"
        workloads = [replace(workload, unevaluated=unevaluated) for workload in workloads]
    paths = {workload.path for workload in hosts[:MAX_GROUPS]}
    return [
        _with_engines(workload, engines) if workload.path in paths and workload.containers else workload
        for workload in workloads
    ]


def _hosts(workloads: list[Workload]) -> list[Workload]:
    """The Pods in which engines may run: the worker groups with an accelerator, or all if none has one; without worker
    groups the head, which is the first."""
    workers = [workload for workload in workloads if "workerGroupSpecs" in workload.path.parts and workload.containers]
    with_accelerator = [worker for worker in workers if _has_accelerator(worker.containers[0].spec)]
    return with_accelerator or workers or workloads[:1]


class _ServeEngine(NamedTuple):
    """An LLM engine of a Serve config (ray.serve.llm LLMConfig)."""

    argv: list[str]
    """The command line that it stands for: `vllm serve MODEL`, and flags."""
    env: list[JSON]
    """Variables, as in a container."""
    accelerator: str | None
    """`accelerator_type`, on which Ray places it; None: any."""


def _serve_engines(text: object) -> Iterator[_ServeEngine]:
    """The LLM engines of a Serve config that name a model; none if `text` is not a text in YAML."""
    config = manifest.load(text) if isinstance(text, str) else None
    for app in as_list(mapping(config).get("applications")):
        for engine in as_list(mapping(mapping(app).get("args")).get("llm_configs")):
            loading = mapping(mapping(engine).get("model_loading_config"))
            source = loading.get("model_source")
            source = mapping(source).get("bucket_uri") if isinstance(source, Mapping) else source
            model = source or loading.get("model_id")
            if isinstance(model, str):
                env = mapping(mapping(mapping(engine).get("runtime_env")).get("env_vars"))
                accelerator = mapping(engine).get("accelerator_type")
                yield _ServeEngine(
                    argv=["vllm", "serve", model, *flags(mapping(mapping(engine).get("engine_kwargs")))],
                    env=[{"name": str(name), "value": str(value)} for name, value in env.items()],
                    accelerator=accelerator if isinstance(accelerator, str) else None,
                )


def _with_engines(workload: Workload, engines: list[_ServeEngine]) -> Workload:
    """The workload with its Ray container (the first one, as KubeRay has it) once for each engine that it runs."""
    ray, *others = workload.containers
    places = {key: ray.path / key for key in CONTAINER_FIELDS} | {"command": _SERVE_CONFIG, "args": _SERVE_CONFIG}
    containers = [
        replace(
            ray,
            spec={
                **ray.spec,
                "command": engine.argv[:3],
                "args": engine.argv[3:],
                "env": [*as_list(ray.spec.get("env")), *engine.env],
            },
            synthetic=True,
            places=places,
            accelerator=engine.accelerator,
        )
        for engine in engines
    ]
    return replace(workload, containers=(*containers, *others))


def flags(arguments: JSON) -> Iterator[str]:
    """vLLM's engine arguments, given by their Python names, as command-line flags; one that is None is left out."""
    for name, value in arguments.items():
        flag = str(name).replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        elif value is not None:
            yield f"--{flag}"
            yield json.dumps(value) if isinstance(value, Mapping | list) else str(value)


def _has_accelerator(container: JSON) -> bool:
    """True if the container asks for a device: a resource with a domain (`nvidia.com/gpu`), or a claim."""
    resources = mapping(container.get("resources"))
    names = [*mapping(resources.get("limits")), *mapping(resources.get("requests"))]
    return bool(resources.get("claims")) or any("/" in str(name) for name in names)
