from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import release


class ImageForOtherGpu(Rule):
    """The image is vLLM's build for other GPUs: another vendor's, or newer ones.

    vLLM builds an image for each: `vllm/vllm-openai` has CUDA's libraries only, `vllm/vllm-openai-rocm` and `rocm/vllm`
    ROCm's, `vllm/vllm-openai-xpu` those for Intel's GPUs. On a GPU of another vendor it finds none, and ends:

        RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` …

    CUDA 13, which the image has from v0.20 on, no longer supports GPUs before compute capability 7.5 (V100, P100):

        RuntimeError: CUDA error: no kernel image is available for execution on the device
    """

    plane = "config"
    event = "vLLM exits: no GPU that the build supports"
    of_vllm = False
    never_denies = "an image's name is only a hint about its build"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: the name of the image shows its build, as the resource shows the GPU. Vendors are compared only for a
        resource of `_VENDORS` and a build of vLLM's."""
        image, resource = engine.field("image"), engine.requested[0] if engine.requested else ""
        if not isinstance(image, str):
            return
        if old := _dropped_gpu(engine, image):
            yield Finding(
                path=engine.at("image"),
                message=f"image {image!r} has CUDA 13, which no longer supports {old}",
                certainty="likely",
                suggestions=(*filter(None, [release.with_cuda_12(image)]), "a GPU of compute capability 7.5 or higher"),
            )
            return
        requested_vendor = _vendor_of_resource(resource)
        if requested_vendor is None or len(image) > release.LONGEST:
            return
        if requested_vendor == _NVIDIA and not _may_be_for_another(image):
            return  # the usual case, decided quickly
        image_vendor = _vendor_of_image(image)
        if image_vendor is None or requested_vendor == image_vendor:
            return
        yield Finding(
            path=engine.at("image"),
            message=f"image {image!r} is built for {_VENDORS[image_vendor]}'s GPUs, and {resource} is "
            f"{_VENDORS[requested_vendor]}'s: vLLM finds no GPU",
            certainty="likely",
            suggestions=(f"an image of {_IMAGES[requested_vendor]}",),
        )


def _dropped_gpu(engine: Engine, image: str) -> str | None:
    """The name of the container's GPU, if the image has CUDA 13 and that no longer supports it; else None. None, too,
    if one of several possible GPUs is supported, or its compute capability is unknown."""
    if engine.gpu is None or not engine.gpu.value.gpus or release.cuda_of_image(image) != LEAST_CUDA:
        return None
    capabilities = [gpu.compute_capability for gpu in engine.gpu.value.gpus]
    if any(capability is None or capability >= LEAST_CAPABILITY for capability in capabilities):
        return None
    return engine.gpu.value.name


LEAST_CUDA, LEAST_CAPABILITY = 13, (7, 5)
"""CUDA 13 and the least compute capability that it supports (CUDA Toolkit 13.0 release notes; the architectures that
vLLM's docker/versions.json names begin with 7.5)."""


def _may_be_for_another(image: str) -> bool:
    """False if `_vendor_of_image` certainly finds no other vendor than NVIDIA: a quick look before the thorough one."""
    return "rocm" in image or "-xpu" in image


def _vendor_of_resource(resource: str) -> str | None:
    """The prefix in `_VENDORS` that the name of a resource has; None if it has none of them."""
    for prefix in _VENDORS:
        if resource.startswith(prefix):
            return prefix
    return None


def _vendor_of_image(image: str) -> str | None:
    """The prefix in `_VENDORS` of the resources that this build of vLLM's is for; None for a third-party image."""
    name = image.partition("@")[0]
    repository = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    if _ROCM_REPOSITORY.search(repository):
        return _AMD
    if not release.is_official(image) or _OTHER_BUILD.search(name):
        return None
    if repository.endswith("-xpu"):
        return _INTEL
    return _NVIDIA if repository.endswith("vllm-openai") else None


_NVIDIA, _AMD, _INTEL = "nvidia.com/", "amd.com/", "gpu.intel.com/"
_VENDORS = {_NVIDIA: "NVIDIA", _AMD: "AMD", _INTEL: "Intel"}
"""Prefix of a GPU resource → its vendor, for people."""
_IMAGES = {
    _NVIDIA: "vllm/vllm-openai",
    _AMD: "vllm/vllm-openai-rocm",
    _INTEL: "vllm/vllm-openai-xpu",
}
"""Prefix of a GPU resource → vLLM's image for it."""
_ROCM_REPOSITORY = regex(r"(^|/)(vllm-openai-rocm|rocm/vllm(-dev)?)$")
_OTHER_BUILD = regex(r"rocm|hip|gaudi|hpu|neuron", re.IGNORECASE)
"""A part of a name or tag by which a mirror may distinguish another build."""
