"""An InferenceService with the ServingRuntime that it names → the Pod that KServe makes of both.

KServe pkg/controller/v1beta1/inferenceservice/utils/utils.go: `MergeRuntimeContainers` and `MergePodSpec` merge by
name, the service's fields win, and its arguments follow the runtime's; `{{.Name}}` is the service's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath, is_object, mapping
from podfit.kube.workload.kserve import OF_SERVICE
from podfit.kube.workload.ray import CONTAINER_FIELDS
from podfit.kube.workload.template import JSON, Container, Workload, as_list, replica_count

RuntimeLookup = Callable[[Workload, str], JSON | None]
"""A service's workload and the name of a runtime → the runtime, if it is known."""
RUNTIMES = frozenset({"ServingRuntime", "ClusterServingRuntime"})
_MODEL = FieldPath(("spec", "predictor", "model"))
_RUNTIME_NAME = _MODEL / "runtime"
_NAME = regex(r"\{\{\s*\.(?:ObjectMeta\.)?Name\s*\}\}")
_NOT_OF_POD = frozenset({
    "annotations", "builtInAdapter", "containers", "disabled", "grpcDataEndpoint", "grpcEndpoint", "httpDataEndpoint",
    "labels", "multiModel", "protocolVersions", "replicas", "storageHelper", "supportedModelFormats", "volumes",
    "workerSpec",
})  # fmt: skip
"""Fields of a runtime that are none of a PodSpec, and those that are merged item by item."""


def runtime_name(obj: JSON) -> str | None:
    """The name of the runtime that an InferenceService names; None if it names none."""
    if obj.get("kind") != "InferenceService":
        return None
    name = _RUNTIME_NAME.get(obj)
    return name if isinstance(name, str) and name else None


def with_runtimes(workloads: list[Workload], lookup: RuntimeLookup) -> list[Workload]:
    """The Pod templates of an object, those of an InferenceService with the runtime that it names."""
    if not any(workload.kind == "InferenceService" for workload in workloads):
        return workloads
    return [_with_runtime(workload, lookup) for workload in workloads]


def _with_runtime(workload: Workload, lookup: RuntimeLookup) -> Workload:
    """The predictor or worker with the containers of its serving runtime; unchanged if no runtime is known."""
    name = runtime_name(workload.object)
    runtime = lookup(workload, name) if name else None
    spec = mapping(mapping(runtime).get("spec"))
    worker = mapping(spec.get("workerSpec"))
    parallel = {**worker, **mapping(_WORKER.get(workload.object))}  # the service's own sizes win
    if workload.path == _PREDICTOR and spec:
        return _merged(workload, spec, parallel, _MODEL, "kserve-container")
    if workload.path == _WORKER and worker:
        return _merged(workload, worker, parallel, _WORKER, "worker-container")
    return workload


_PREDICTOR = FieldPath(("spec", "predictor"))
_WORKER = _PREDICTOR / "workerSpec"


def _merged(workload: Workload, runtime: JSON, parallel: JSON, at: FieldPath, main: str) -> Workload:
    """The workload with the PodSpec of a runtime, whose container `main` (else its first) is completed by the service's
    at `at`; unchanged if the runtime has no container. `parallel`: the sizes of a multi-node runtime; empty without."""
    runtime_containers = [item for item in as_list(runtime.get("containers")) if is_object(item)]
    if not runtime_containers:
        return workload
    runtime_main = next((item for item in runtime_containers if item.get("name") == main), runtime_containers[0])
    own_mains = [container for container in workload.containers if container.name == main and not container.init]
    own = own_mains[0] if own_mains else None
    container = _merged_container(workload, runtime_main, own, at, _sizes(parallel))
    sidecars = [
        Container(str(item.get("name") or ""), _RUNTIME_NAME, item, synthetic=True)
        for item in runtime_containers
        if item is not runtime_main
    ]
    runtime_pod = {key: value for key, value in runtime.items() if key not in _NOT_OF_POD}
    spec: dict[str, Any] = {**runtime_pod, **workload.spec}
    for key in ("nodeSelector", "securityContext"):  # merged field by field
        if mapping(runtime_pod.get(key)) and mapping(workload.spec.get(key)):
            spec[key] = {**mapping(runtime_pod[key]), **mapping(workload.spec[key])}
    spec["volumes"] = _by_key("name", workload.spec.get("volumes"), runtime.get("volumes"))
    size = replica_count(parallel.get("pipelineParallelSize"))
    pods = size if size is not None and size > 1 else None  # without a number, the runtime's default is unknown
    others = [other for other in workload.containers if other is not own]
    return replace(
        workload,
        spec=spec,
        containers=(container, *others, *sidecars),
        completes=OF_SERVICE - {"args"} - ({"model"} if workload.model_uri else set()),
        pods_per_replica=pods if parallel else workload.pods_per_replica,
    )


def _merged_container(
    workload: Workload, theirs: JSON, own: Container | None, at: FieldPath, variables: Mapping[str, str]
) -> Container:
    """The runtime's container `theirs` with the fields of the service's, `own` (None: it has none), at `at`. Own items
    of lists come first, so that they keep their places; but arguments follow the runtime's.

    `variables`: those that KServe sets, name → value."""
    # Fields of `own` with another place are podfit's guess at what the runtime brings, which is known here.
    own_fields = {key: value for key, value in own.spec.items() if key not in own.places} if own else {}
    merged = {**_named(theirs, workload.name), **own_fields}
    inherited_args = as_list(_named(theirs.get("args"), workload.name))
    merged["args"] = [*inherited_args, *as_list(own_fields.get("args"))]
    set_by_kserve = [{"name": name, "value": value} for name, value in variables.items()]
    merged["env"] = _by_key("name", own_fields.get("env"), set_by_kserve, _named(theirs.get("env"), workload.name))
    merged["volumeMounts"] = _by_key("mountPath", own_fields.get("volumeMounts"), theirs.get("volumeMounts"))
    own_resources, their_resources = mapping(own_fields.get("resources")), mapping(theirs.get("resources"))
    merged["resources"] = {
        side: {**mapping(their_resources.get(side)), **mapping(own_resources.get(side))}
        for side in ("limits", "requests")
    }
    places = {key: at / key for key in (*CONTAINER_FIELDS, "args", "command")}
    places |= {key: _RUNTIME_NAME for key in ("args", "command", "image") if not own_fields.get(key)}
    name = str(merged.get("name") or "kserve-container")
    return Container(name, at, merged, synthetic=True, places=places, inherited_args=len(inherited_args))


def _sizes(parallel: JSON) -> Mapping[str, str]:
    """Name → value of the variables that KServe sets in the containers of a multi-node service; empty if it has no
    sizes."""
    names = {"pipelineParallelSize": "PIPELINE_PARALLEL_SIZE", "tensorParallelSize": "TENSOR_PARALLEL_SIZE"}
    return {name: str(parallel[key]) for key, name in names.items() if replica_count(parallel.get(key))}


def _named(value: Any, name: str) -> Any:
    """A part of a runtime with the service's name where its template has `{{.Name}}`."""
    if isinstance(value, str):
        return _NAME.sub(lambda _: name, value)
    if isinstance(value, list):
        return [_named(item, name) for item in value]
    if isinstance(value, Mapping):
        return {key: _named(item, name) for key, item in value.items()}
    return value


def _by_key(key: str, *lists: object) -> list[Any]:
    """The items of several lists, in order; of those with the same value in the field `key`, the first. A value that is
    not a list counts as empty."""
    first_items: dict[str, Any] = {}
    for items in lists:
        for item in as_list(items):
            first_items.setdefault(str(mapping(item).get(key)), item)
    return list(first_items.values())
