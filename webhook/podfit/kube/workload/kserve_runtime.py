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
    parallel = {**mapping(spec.get("workerSpec")), **mapping(_WORKER.get(workload.object))}
    if workload.path == _PREDICTOR:
        return _merged(workload, spec, parallel, _MODEL, "kserve-container") if spec else workload
    if workload.path == _WORKER and (worker := mapping(spec.get("workerSpec"))):
        return _merged(workload, worker, parallel, _WORKER, "worker-container")
    return workload


_PREDICTOR = FieldPath(("spec", "predictor"))
_WORKER = _PREDICTOR / "workerSpec"


def _merged(workload: Workload, runtime: JSON, parallel: JSON, at: FieldPath, main: str) -> Workload:
    """The workload with the PodSpec of a runtime, whose container `main` (else its first) is completed by the service's
    at `at`; unchanged if the runtime has no container. `parallel`: the sizes of a multi-node runtime; empty without."""
    items = [item for item in as_list(runtime.get("containers")) if is_object(item)]
    theirs = next((item for item in items if item.get("name") == main), items[0] if items else None)
    if theirs is None:
        return workload
    own = next(
        (candidate for candidate in workload.containers if candidate.name == main and not candidate.init),
        None,
    )
    container = _merged_container(workload, theirs, own, at, {**_sizes(parallel)})
    sidecars = [
        Container(str(item.get("name") or ""), _RUNTIME_NAME, item, synthetic=True)
        for item in items
        if item is not theirs
    ]
    pod = {key: value for key, value in runtime.items() if key not in _NOT_OF_POD}
    spec: dict[str, Any] = {**pod, **workload.spec}
    for key in ("nodeSelector", "securityContext"):
        if mapping(pod.get(key)) and mapping(workload.spec.get(key)):
            spec[key] = {**mapping(pod[key]), **mapping(workload.spec[key])}
    spec["volumes"] = _by_key("name", workload.spec.get("volumes"), runtime.get("volumes"))
    size = replica_count(parallel.get("pipelineParallelSize"))
    pods = size if size is not None and size > 1 else None  # without a number, the runtime's default is unknown
    others = [other_container for other_container in workload.containers if other_container is not own]
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
    """The runtime's container with the fields of the service's. Own items of lists come first, so that they keep their
    places."""
    given = {key: value for key, value in (own.spec if own else {}).items() if not own or key not in own.places}
    merged = {**_named(theirs, workload.name), **given}
    inherited = as_list(_named(theirs.get("args"), workload.name))
    merged["args"] = [*inherited, *as_list(given.get("args"))]
    set_by_kserve = [{"name": name, "value": value} for name, value in variables.items()]
    merged["env"] = _by_key("name", given.get("env"), set_by_kserve, _named(theirs.get("env"), workload.name))
    merged["volumeMounts"] = _by_key("mountPath", given.get("volumeMounts"), theirs.get("volumeMounts"))
    ours, other = mapping(given.get("resources")), mapping(theirs.get("resources"))
    merged["resources"] = {
        side: {**mapping(other.get(side)), **mapping(ours.get(side))} for side in ("limits", "requests")
    }
    places = {key: at / key for key in (*CONTAINER_FIELDS, "args", "command")}
    places |= {key: _RUNTIME_NAME for key in ("args", "command", "image") if not given.get(key)}
    name = str(merged.get("name") or "kserve-container")
    return Container(name, at, merged, synthetic=True, places=places, inherited_args=len(inherited))


def _sizes(parallel: JSON) -> Mapping[str, str]:
    """The variables that KServe sets in the containers of a multi-node service."""
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
    """The items of several lists; of those with one key, the first."""
    entries: dict[str, Any] = {}
    for entry in (item for entry_list in lists for item in as_list(entry_list)):
        entries.setdefault(str(mapping(entry).get(key)), entry)
    return list(entries.values())
