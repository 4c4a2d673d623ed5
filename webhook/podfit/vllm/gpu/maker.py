"""The maker of the devices that a container is for: by the resource that it requests, else by its build of vLLM.

This module names no GPU model: it only excludes the models that a container can't get.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from podfit.base.lazy import regex
from podfit.vllm.gpu.product import Gpu

GAUDI = "gaudi"
"""Intel's Gaudi, which is not a GPU: it has its own build of vLLM and its own device plugin."""
OTHER_MAKER = "other"
"""A maker whose devices are not in the table."""
RESOURCES = {
    "nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/xe", GAUDI: "habana.ai/gaudi",
    "google": "google.com/tpu", "aws": "aws.amazon.com/neuron", "huawei": "huawei.com/Ascend910",
}  # fmt: skip
"""Maker → the resource of its device plugin."""
_OF_RESOURCE = {
    "nvidia.com/": "nvidia",
    "amd.com/": "amd",
    "gpu.intel.com/": "intel",
    "habana.ai/": GAUDI,
    "google.com/": "google",
    "cloud-tpus.google.com/": "google",
    "aws.amazon.com/": "aws",
    "huawei.com/": "huawei",
}
_OF_OTHERS = regex(
    r"(cambricon|hygon|metax-tech|mthreads|iluvatar|kunlunxin|birentech|enflame|qualcomm|furiosa|rebellions)\.\w+/"
    r"|\S*/(\S*[-_.])?[nxt]pu"
)
"""Makers that the table lacks (`podfit.vllm.gpu.resource.WHOLE`), and resources with another kind of processor in
their name ("example.com/npu")."""
_OF_IMAGE = {
    "amd": regex(r"(?:^|[/_:-])rocm"),
    "intel": regex(r"(?:^|[/_:.-])xpu(?![a-z])"),
    GAUDI: regex(r"gaudi|(?:^|[/_:.-])hpu(?![a-z])"),
    "google": regex(r"(?:^|[/_:.-])tpu(?![a-z])"),
    "aws": regex(r"(?:^|[/_:.-])neuron(?![a-z]|-?[0-9]+b)"),
    "huawei": regex(r"ascend|(?:^|[/_:.-])npu(?![a-z])"),
}
"""vLLM's builds for makers other than NVIDIA, and its plugins' (vllm-gaudi, vllm-ascend, vllm-neuron), by the image's
name. The usual build names no maker: many repack it under its name."""
_OF_TARGET = {"rocm": "amd", "xpu": "intel", "hpu": GAUDI, "tpu": "google", "neuron": "aws", "npu": "huawei"}
"""Values of VLLM_TARGET_DEVICE and, until vLLM 0.10, of --device (vLLM 0.8.5 config.py DeviceConfig)."""
JAX = ("JAX_PLATFORMS", "TPU_BACKEND_TYPE", "PJRT_DEVICE")
"""Variables of vLLM's TPU backend, whose devices may be elsewhere (Pathways)."""


def of_gpus(gpus: Iterable[Gpu]) -> frozenset[str]:
    """The makers of these GPUs."""
    return frozenset(GAUDI if "Gaudi" in gpu.name else gpu.vendor for gpu in gpus)


def of_resources(resource: str | None, limits: Mapping[str, object]) -> str | None:
    """The maker of the requested devices; None if the resources don't identify one.

    `resource` is as in `DeviceRequest.resource_and_count`, `limits` are the container's resources, some of which the
    table may not know.
    """
    requested = resource.split(" + ") if resource else [name for name, count in limits.items() if str(count) != "0"]
    makers_of_names = [of_resource(name) for name in requested if "/" in name]
    makers = {maker for maker in makers_of_names if maker is not None}
    if not makers:
        return None
    return makers.pop() if len(makers) == 1 else OTHER_MAKER


def of_resource(name: str) -> str | None:
    """The maker of the devices behind a resource: one of RESOURCES, or OTHER_MAKER. None for a resource that is no
    accelerator."""
    maker = _OF_RESOURCE.get(name.partition("/")[0] + "/")
    return maker or (OTHER_MAKER if _OF_OTHERS.match(name) else None)


def of_build(image: object, env: Mapping[str, str], device: object = None) -> str | None:
    """The maker of the devices for this build of vLLM; None if image, environment and --device identify none."""
    if any(variable in env for variable in JAX):
        return "google"
    value = env.get("VLLM_TARGET_DEVICE") or device
    if isinstance(value, str) and value in _OF_TARGET:
        return _OF_TARGET[value]
    return of_image(image)


def of_image(image: object) -> str | None:
    """The maker of the devices that an image's vLLM runs on, by its name alone; None if unknown."""
    return _of_image(image) if isinstance(image, str) and len(image) <= _LONGEST else None


_LONGEST = 512
"""Characters of an image's name that are read."""


@lru_cache(256)
def _of_image(image: str) -> str | None:
    """The maker whose pattern the name of an image, without its digest, matches first; None if none does."""
    name = image.partition("@")[0].lower()
    for maker, pattern in _OF_IMAGE.items():
        if pattern.search(name):
            return maker
    return None
