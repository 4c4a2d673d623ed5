from __future__ import annotations

from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.kube.path import mapping
from podfit.rules import _parallel
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import gpu, release
from podfit.vllm.memory import parallel


class GpuMissing(Rule):
    """vLLM's image for GPUs runs in a container that requests no GPU.

    A nodeSelector alone does not give the container a GPU. Without a GPU in `resources.limits` the container sees none,
    unless the node's runtime gives its GPUs to every container. vLLM then exits:

        RuntimeError: Failed to infer device type

    If the resource is misspelled, the API server accepts it, no node has it, and the Pod stays Pending:

        0/3 nodes are available: 3 Insufficient nvidia.com/gpus.

    On nodes whose default runtime gives every container all GPUs, the policy's `assume.gpusWithoutRequest: true`
    silences the rule. So do a runtime class, a claim, a privileged container, and an operator that adds the request.
    """

    plane = "gpu"
    event = "vLLM exits: it finds no GPU; or the Pod stays Pending"
    of_vllm = False
    never_denies = "the node's runtime may give its GPUs to every container"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: nothing in the object brings a GPU. A resource of a misspelled name, or of zero GPUs, is named."""
        if engine.requested is not None:
            return
        misspelled = gpu.misspelled_resource(engine.container.resources)
        if misspelled is not None and not engine.on_processors:
            yield _misspelled(engine, *misspelled)
        elif not _brought_otherwise(engine):
            yield _not_requested(engine)


def _misspelled(engine: Engine, name: str, meant: str) -> Finding:
    """The finding on a request for the resource `name`, which no node has, instead of `meant`."""
    side = "limits" if name in mapping(engine.field("resources", "limits")) else "requests"
    return Finding(
        path=engine.at("resources", side, name),
        message=f"{name!r} is not a resource of any node, so the Pod gets no GPU; did you mean {meant}?",
        certainty="likely",
        suggestions=(f"{meant}: {engine.container.resources[name]} in resources.limits",),
    )


def _not_requested(engine: Engine) -> Finding:
    """The finding on a container that requests no GPU, or zero of them."""
    amounts = engine.container.resources  # of limits and requests
    zero = next((name for name in amounts if gpu.is_one(name)), None)  # any other amount would be `requested`
    requested = f"{zero}: {amounts[zero]}" if zero else "no GPU"
    resource = zero or ("amd.com/gpu" if engine.vendor == "amd" else "nvidia.com/gpu")
    limit = f'{resource}: "{parallel.gpus_needed(engine.args) or 1}" in resources.limits'
    return Finding(
        path=engine.at("resources", "limits"),
        message=f"{requested} is requested: unless the node's runtime gives GPUs to every container, vLLM "
        "finds none and ends with `Failed to infer device type`",
        certainty="likely",
        suggestions=("an image of vllm/vllm-openai-cpu" if _names_processors(engine) else limit,),
    )


def _names_processors(engine: Engine) -> bool:
    """True if `--device cpu` is in the command: the author wants vLLM's CPU backend."""
    words = " ".join([word.text for word in engine.command.words])
    return "--device cpu" in words or "--device=cpu" in words


def _brought_otherwise(engine: Engine) -> bool:
    """True if the container may get a GPU without a request, or needs none.

    The signs are

    - an image that is not vLLM's own for CUDA or ROCm,
    - a runtime class, a claim, a privileged container, an operator, or Pods of a Ray cluster,
    - `--gpu`, a given GPU memory size, or a policy that says so."""
    image = engine.field("image")
    if not isinstance(image, str) or not release.is_official(image) or _OTHER_DEVICES.search(image):
        return True
    facts = engine.facts
    if facts.gpu is not None or facts.gpu_memory is not None or facts.assume.gpus_without_request:
        return True
    if "resources" in engine.workload.completes or engine.on_processors:
        return True
    if engine.pod("runtimeClassName") or engine.pod("resourceClaims") or engine.field("resources", "claims"):
        return True
    if gpu.may_be_one(engine.container.resources) or _parallel.sees_more(engine):
        return True
    if "ray" in (engine.args.get("distributed_executor_backend"), engine.args.get("data_parallel_backend")):
        return True
    if _parallel.makes_ray(engine) or "headGroupSpec" in engine.workload.path.parts:
        return True
    return bool(engine.args.get("data_parallel_size_local") == 0)  # all ranks are in other Pods


_OTHER_DEVICES = regex(r"-(cpu|tpu)\b")
"""vLLM's own images for other devices than GPUs."""
