"""Devices that a container runs vLLM on: GPUs of a vendor, other accelerators, or processors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podfit.base.lazy import regex
from podfit.vllm import gpu, release
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Gpu
from podfit.vllm.memory import cpu

Requested = tuple[str, int | None] | None
"""The accelerator resource that a container requests, and how many (None: unknown)."""
_GPUS = ("nvidia.com/", "amd.com/", "gpu.intel.com/")
_CPU_IMAGE = regex(r"(^|[/_-])cpu([/_:.-]|$)")
"""vLLM's builds for processors: vllm-cpu, vllm-openai-cpu, vllm-cpu-release-repo, llm-d-cpu."""


def vendor_of(requested: Requested, image: object) -> str:
    """Return the GPUs' vendor, "nvidia", "amd" or "intel": that of the resource, else "amd" for an image of vLLM's ROCm
    build, else "nvidia"."""
    resource = requested[0] if requested else ""
    if resource.startswith(_GPUS):
        return resource.removeprefix("gpu.").partition(".")[0]  # gpu.intel.com/i915, nvidia.com/gpu
    return "amd" if gpu.maker.of_image(image) == "amd" else "nvidia"


def is_on_processors(image: object, requested: Requested, args: EngineArgs, env: Mapping[str, str]) -> bool:
    """True if the container runs vLLM's CPU backend, whose weights and KV cache are in host memory.

    No device is requested, and an argument, a variable or the image's name says so. False with a variable of JAX
    (TPUs)."""
    if requested is not None or any(variable in env for variable in gpu.maker.JAX):
        return False
    if "cpu" in (args.given.get("device"), args.written.get("device"), env.get("VLLM_TARGET_DEVICE")):
        return True
    if cpu.SPACE in env:
        return True
    name = image[: release.LONGEST] if isinstance(image, str) else ""
    without_tag = name.rpartition(":")[0] or name
    return _CPU_IMAGE.search(without_tag) is not None


def is_gpu(resource: str) -> bool:
    """True if a resource counts GPUs, not TPUs, Gaudis or Neuron cores: by its vendor, or by "gpu" in its name."""
    return resource.startswith(_GPUS) or "gpu" in resource


def with_capability(gpus: Iterable[Gpu]) -> str:
    """The GPUs with their compute capabilities, for people: "Tesla T4 (7.5) or NVIDIA L4 (8.9)"."""
    return " or ".join(f"{product.name} ({'.'.join(map(str, product.compute_capability or ()))})" for product in gpus)
