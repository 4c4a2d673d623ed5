"""KServe: predictors without a container, and the presets that complete an LLMInferenceService."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload.template import JSON, PROBES, Container, Workload, as_list, replica_count

PRESET = PROBES | {"shm", "image", "args", "home", "volumes"}
"""KServe's LLMInferenceServiceConfig presets; resources are the user's. They set HOME=/home and HF_HUB_CACHE=/models,
both volumes, and mount one at /tmp since KServe 0.18 (kserve config/llmisvcconfig/config-llm-template.yaml)."""
EVERYTHING = PROBES | {"shm", "image", "args", "model", "resources", "memory-limit", "volumes"}
"""A ServingRuntime brings everything; resources default to the inferenceservice-config ConfigMap's."""
_DEFAULTS = frozenset({"resources", "memory-limit", "readiness-probe"})
"""The fields that the inferenceservice-config ConfigMap adds to a custom predictor, and the TCP readiness probe that
Knative or KServe itself (raw deployment) gives its port."""
OF_SERVICE = frozenset({"args", "model", "resources", "memory-limit", "readiness-probe"})
"""The fields that an InferenceService adds to the ServingRuntime that it uses."""

_PREDICTOR = FieldPath(("spec", "predictor"))
_NO_FRAMEWORK = {"affinity", "securityContext", "dnsConfig", "workerSpec", "nodeSelector", "annotations", "labels"}


def inference_service(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The workloads, the predictor's with the container that KServe makes. `predictor.model` (or
    `predictor.<framework>`, the old spelling) is a container without name, image and command, which the ServingRuntime
    brings; it becomes `kserve-container`. So does a container of a custom predictor that has no name (KServe
    pkg/apis/serving/v1beta1/predictor.go, predictor_custom.go)."""
    predictor = next((workload for workload in workloads if workload.path == _PREDICTOR), None)
    if predictor is None:
        return workloads
    containers = [
        replace(container, name="kserve-container") if not container.name and not container.init else container
        for container in predictor.containers
    ]
    framework = next(
        (
            key
            for key, value in predictor.spec.items()
            if key == "model" or (isinstance(value, Mapping) and key not in _NO_FRAMEWORK and "storageUri" in value)
        ),
        None,
    )
    uri = None
    if framework is not None and isinstance(framework_spec := predictor.spec[framework], Mapping):
        uri = framework_spec.get("storageUri") if isinstance(framework_spec.get("storageUri"), str) else None
        spec = {"name": "kserve-container", **framework_spec}
        place = _PREDICTOR / framework
        places = {}
        command = [] if framework_spec.get("command") else _runtime_command(framework, framework_spec, uri)
        if command:  # its place: the field that decides most of it
            by_name = "runtime" if framework_spec.get("runtime") else "modelFormat"
            spec["command"] = command
            places["command"] = place / ("storageUri" if uri else by_name)
        containers.insert(0, Container("kserve-container", place, spec, places=places))
    completes = EVERYTHING - ({"model"} if uri else set()) if framework else _DEFAULTS
    mine = replace(predictor, containers=tuple(containers), model_uri=uri, completes=completes)
    return serving_runtime(obj, [mine if workload is predictor else workload for workload in workloads])


def serving_runtime(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """With a `workerSpec`, one replica is as many Pods as pipeline stages (KServe multi-node: one head, the rest
    workers)."""
    worker = next((workload for workload in workloads if workload.path.parts[-1] == "workerSpec"), None)
    if worker is None:
        return workloads
    size = replica_count(worker.spec.get("pipelineParallelSize"))
    return [replace(workload, pods_per_replica=size if size and size > 1 else None) for workload in workloads]


def _runtime_command(framework: str, value: JSON, uri: str | None) -> list[str]:
    """The command of KServe's own runtime, recognized by the names of runtime and format; empty if it is unknown."""
    form = mapping(value.get("modelFormat")).get("name")
    name = f"{framework} {value.get('runtime') or ''} {form or ''}".lower()
    hub = hub_name(uri)
    if "vllm" in name:
        return ["vllm", "serve", hub or "/mnt/models"]
    if "huggingface" in name:
        given = any(str(word).startswith(("--model_id", "--model-id")) for word in as_list(value.get("args")))
        return ["python3", "-m", "huggingfaceserver", *([f"--model_id={hub}"] if hub and not given else [])]
    return []


def hub_name(uri: object) -> str | None:
    """`hf://org/name` → `org/name`, without a revision (`:main`)."""
    if not isinstance(uri, str) or not uri.startswith("hf://"):
        return None
    return uri.removeprefix("hf://").strip("/").partition(":")[0] or None


def llm_inference_service(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The workloads as the presets (LLMInferenceServiceConfig) complete them, unless they are SGLang's. The container
    `main` of `template`, `worker` and `prefill` gets its image, probes, /dev/shm and the command
    `vllm serve /mnt/models`, to which its `args` and `VLLM_ADDITIONAL_ARGS` are appended (KServe
    config/llmisvcconfig)."""
    spec = mapping(obj.get("spec"))
    model = mapping(spec.get("model"))
    uri = model.get("uri") if isinstance(model.get("uri"), str) else None
    if any("sglang" in str(mapping(ref).get("name")) for ref in as_list(spec.get("baseRefs"))):
        return workloads
    items = []
    for workload in workloads:
        prefill = "prefill" in workload.path.parts
        part = mapping(spec.get("prefill")) if prefill else spec
        parallelism = mapping(part.get("parallelism"))
        command = _preset_command(model, uri, parallelism, across=isinstance(part.get("worker"), Mapping))
        place = FieldPath(("spec", "model", "uri" if uri else "name")) if model else workload.path
        containers = tuple(
            replace(
                container,
                spec={**container.spec, "command": command},
                places={"command": place},
            )
            if container.name == "main" and not container.init and not container.spec.get("command")
            else container
            for container in workload.containers
        )
        size = _preset_size(part, parallelism)
        items.append(replace(workload, containers=containers, pods_per_replica=size, model_uri=uri))
    if obj.get("kind") != "LLMInferenceService" or not model:
        return items
    return _with_preset_main(obj, items, model, uri)


def _with_preset_main(obj: JSON, workloads: list[Workload], model: JSON, uri: str | None) -> list[Workload]:
    """The workloads, with the container `main` of the preset in `template` if that does not mention it; its place is
    `spec.model`. A service without `template` gets one."""
    at = FieldPath(("spec", "template"))
    template = next((candidate for candidate in workloads if candidate.path == at), None)
    if template is not None and any(container.name == "main" for container in template.containers):
        return workloads
    spec = mapping(obj.get("spec"))
    parallelism = mapping(spec.get("parallelism"))
    place = FieldPath(("spec", "model"))
    words = _preset_command(model, uri, parallelism, across=isinstance(spec.get("worker"), Mapping))
    main = Container("main", place, {"name": "main", "command": words}, synthetic=True, places={"command": place})
    if template is None:
        template = Workload(
            object=obj,
            path=at,
            metadata=mapping(obj.get("metadata")),
            spec={},
            containers=(main,),
            completes=PRESET,
            pods_per_replica=_preset_size(spec, parallelism),
            replicas=replica_count(spec.get("replicas")),
            model_uri=uri,
        )
        return [template, *workloads]
    workload = replace(template, containers=(*template.containers, main))
    return [workload if candidate is template else candidate for candidate in workloads]


_PARALLELISM = {
    "tensor": "--tensor-parallel-size",
    "data": "--data-parallel-size",
    "dataLocal": "--data-parallel-size-local",
    "pipeline": "--pipeline-parallel-size",
}


def _preset_command(model: JSON, uri: str | None, parallelism: JSON, *, across: bool) -> list[str]:
    """`vllm serve` as the preset writes it; the sizes that span Pods (`across`) only if there are workers."""
    command = ["vllm", "serve"]
    if model:
        command.append(hub_name(uri) or "/mnt/models")
        if isinstance(name := model.get("name"), str):
            command += ["--served-model-name", name]
    for key, flag in _PARALLELISM.items():
        if (key == "tensor" or across) and (size := replica_count(parallelism.get(key))) is not None:
            command += [flag, str(size)]
    if parallelism.get("expert") is True:
        command.append("--enable-expert-parallel")
    return command


def _preset_size(spec: JSON, parallelism: JSON) -> int | None:
    """A service with a `worker` is a LeaderWorkerSet: of data / dataLocal Pods, or one a pipeline stage."""
    if not isinstance(spec.get("worker"), Mapping):
        return 1
    data, local = replica_count(parallelism.get("data")), replica_count(parallelism.get("dataLocal"))
    if data and local and data % local == 0:
        return data // local
    return replica_count(parallelism.get("pipeline")) if not data else None
