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
"""Objects in a predictor that are not the spec of a framework."""


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
    framework = _framework(predictor.spec)
    uri = None
    completes = EVERYTHING if framework else _DEFAULTS
    if framework is not None and isinstance(framework_spec := predictor.spec[framework], Mapping):
        uri = framework_spec.get("storageUri") if isinstance(framework_spec.get("storageUri"), str) else None
        containers.insert(0, _model_container(framework, framework_spec, uri))
        completes = EVERYTHING - {"model"} if uri else EVERYTHING
    completed = replace(predictor, containers=tuple(containers), model_uri=uri, completes=completes)
    return serving_runtime(obj, [completed if workload is predictor else workload for workload in workloads])


def _framework(predictor: JSON) -> str | None:
    """The field of a predictor that has the model: `model`, or the name of a framework; None for a custom predictor."""
    for key, value in predictor.items():
        if key == "model":
            return key
        if isinstance(value, Mapping) and key not in _NO_FRAMEWORK and "storageUri" in value:
            return key
    return None


def _model_container(framework: str, value: JSON, uri: str | None) -> Container:
    """The container that KServe makes of a predictor's field `framework`, with the command of its runtime if that is
    known. `value`, `uri`: the field, and its storageUri, None without one."""
    place = _PREDICTOR / framework
    spec = {"name": "kserve-container", **value}
    command = [] if value.get("command") else _runtime_command(framework, value, uri)
    if not command:
        return Container("kserve-container", place, spec)
    spec["command"] = command
    by_name = "runtime" if value.get("runtime") else "modelFormat"
    deciding_field = "storageUri" if uri else by_name  # decides most of the command, so that is its place
    return Container("kserve-container", place, spec, places={"command": place / deciding_field})


def serving_runtime(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """The workloads; with a `workerSpec`, one replica is as many Pods as pipeline stages (KServe multi-node: one head,
    the rest workers). Their number is unknown (None) if it is not set."""
    workers = [workload for workload in workloads if workload.path.parts[-1] == "workerSpec"]
    if not workers:
        return workloads
    size = replica_count(workers[0].spec.get("pipelineParallelSize"))
    pods = size if size is not None and size > 1 else None
    return [replace(workload, pods_per_replica=pods) for workload in workloads]


def _runtime_command(framework: str, value: JSON, uri: str | None) -> list[str]:
    """The command of KServe's own runtime, recognized by the names of framework, runtime and format; empty if it is
    unknown. `value`, `uri`: the predictor's field, and its storageUri, None without one."""
    format_name = mapping(value.get("modelFormat")).get("name")
    names = f"{framework} {value.get('runtime') or ''} {format_name or ''}".lower()
    model = hub_name(uri)
    if "vllm" in names:
        return ["vllm", "serve", model or "/mnt/models"]
    if "huggingface" not in names:
        return []
    command = ["python3", "-m", "huggingfaceserver"]
    args = [str(argument) for argument in as_list(value.get("args"))]
    if model and not any(argument.startswith(("--model_id", "--model-id")) for argument in args):
        command.append(f"--model_id={model}")
    return command


def hub_name(uri: object) -> str | None:
    """`hf://org/name` → `org/name`, without a revision (`:main`); None for another source, or without a name."""
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
    completed: list[Workload] = []
    for workload in workloads:
        part = mapping(spec.get("prefill")) if "prefill" in workload.path.parts else spec
        parallelism = mapping(part.get("parallelism"))
        command = _preset_command(model, uri, parallelism, across=isinstance(part.get("worker"), Mapping))
        place = FieldPath(("spec", "model", "uri" if uri else "name")) if model else workload.path
        containers = tuple(_with_command(container, command, place) for container in workload.containers)
        size = _preset_size(part, parallelism)
        completed.append(replace(workload, containers=containers, pods_per_replica=size, model_uri=uri))
    if obj.get("kind") != "LLMInferenceService" or not model:
        return completed
    return _with_preset_main(obj, completed, model, uri)


def _with_command(container: Container, command: list[str], place: FieldPath) -> Container:
    """The container with the preset's command, whose place is `place`; unchanged if it is not `main`, or has a command
    of its own."""
    if container.name != "main" or container.init or container.spec.get("command"):
        return container
    return replace(container, spec={**container.spec, "command": command}, places={"command": place})


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
"""Field of `parallelism` → vLLM's flag."""


def _preset_command(model: JSON, uri: str | None, parallelism: JSON, *, across: bool) -> list[str]:
    """`vllm serve` as the preset writes it. `model`: `spec.model`, empty without one; `uri`: its source. `across`: True
    if there are workers, without which the preset writes no sizes that span Pods."""
    command = ["vllm", "serve"]
    if model:
        command.append(hub_name(uri) or "/mnt/models")
        if isinstance(name := model.get("name"), str):
            command += ["--served-model-name", name]
    for key, flag in _PARALLELISM.items():
        size = replica_count(parallelism.get(key)) if across or key == "tensor" else None
        if size is not None:
            command += [flag, str(size)]
    if parallelism.get("expert") is True:
        command.append("--enable-expert-parallel")
    return command


def _preset_size(spec: JSON, parallelism: JSON) -> int | None:
    """The number of Pods that serve together; None if it can't be known. A service with a `worker` is a
    LeaderWorkerSet: of data / dataLocal Pods, or without `data` one per pipeline stage."""
    if not isinstance(spec.get("worker"), Mapping):
        return 1
    data, local = replica_count(parallelism.get("data")), replica_count(parallelism.get("dataLocal"))
    if not data:
        return replica_count(parallelism.get("pipeline"))
    return data // local if local and data % local == 0 else None
