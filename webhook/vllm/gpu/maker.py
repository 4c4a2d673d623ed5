"""Who makes the devices that a container is for: by the resource that it asks for, else by its build of vLLM.

Nothing here tells a product: it only says which products a container can't get.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from webhook.vllm.gpu.product import Gpu

GAUDI = "gaudi"
"""Intel's, and no GPU: another build of vLLM, another device plugin."""
OTHER_MAKER = "other"
"""Somebody of whom the table has no product."""
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
_OF_OTHERS = re.compile(
    r"(cambricon|hygon|metax-tech|mthreads|iluvatar|kunlunxin|birentech|enflame|qualcomm|furiosa|rebellions)\.\w+/"
    r"|\S*/(\S*[-_.])?[nxt]pu"
)
"""Makers that the table lacks (`webhook.vllm.gpu.resource.WHOLE`), and what calls itself no GPU ("example.com/npu")."""
_OF_IMAGE = {
    "amd": re.compile(r"(?:^|[/_:-])rocm"),
    "intel": re.compile(r"(?:^|[/_:.-])xpu(?![a-z])"),
    GAUDI: re.compile(r"gaudi|(?:^|[/_:.-])hpu(?![a-z])"),
    "google": re.compile(r"(?:^|[/_:.-])tpu(?![a-z])"),
    "aws": re.compile(r"(?:^|[/_:.-])neuron(?![a-z]|-?[0-9]+b)"),
    "huawei": re.compile(r"ascend|(?:^|[/_:.-])npu(?![a-z])"),
}
"""vLLM's builds for others than NVIDIA, and its plugins' (vllm-gaudi, vllm-ascend, vllm-neuron), by an image's name.
The usual build tells nothing: many repack it under its name."""
_OF_TARGET = {"rocm": "amd", "xpu": "intel", "hpu": GAUDI, "tpu": "google", "neuron": "aws", "npu": "huawei"}
"""What VLLM_TARGET_DEVICE and, until vLLM 0.10, --device name (vLLM 0.8.5 config.py DeviceConfig)."""
JAX = ("JAX_PLATFORMS", "TPU_BACKEND_TYPE", "PJRT_DEVICE")
"""Variables of vLLM's TPU backend, whose devices may be elsewhere (Pathways)."""


def of_gpus(gpus: Iterable[Gpu]) -> frozenset[str]:
    """Who makes these products."""
    return frozenset(GAUDI if "Gaudi" in gpu.name else gpu.vendor for gpu in gpus)


def of_resources(asked: str | None, limits: Mapping[str, object]) -> str | None:
    """Who makes what is asked for: `asked` as `Asked.together` says it, `limits` the container's resources, of which
    the table may not know all; None where they do not tell."""
    there = asked.split(" + ") if asked else [name for name, count in limits.items() if str(count) != "0"]
    names = [name for name in there if "/" in name]
    found = {maker for name in names if (maker := of_resource(name)) is not None}
    return found.pop() if len(found) == 1 else OTHER_MAKER if found else None


@lru_cache(256)
def of_resource(name: str) -> str | None:
    """Who makes what a resource stands for."""
    maker = _OF_RESOURCE.get(name.partition("/")[0] + "/")
    return maker or (OTHER_MAKER if _OF_OTHERS.match(name) else None)


def of_build(image: object, env: Mapping[str, str], device: object = None) -> str | None:
    """Who makes what this build of vLLM runs on; None where its image, environment and --device do not tell."""
    if any(variable in env for variable in JAX):
        return "google"
    told = env.get("VLLM_TARGET_DEVICE") or device
    if isinstance(told, str) and told in _OF_TARGET:
        return _OF_TARGET[told]
    return of_image(image)


def of_image(image: object) -> str | None:
    """The same, of an image's name alone."""
    return _of_image(image) if isinstance(image, str) and len(image) <= _LONGEST else None


_LONGEST = 512
"""Characters of an image's name that is read."""


@lru_cache(256)
def _of_image(image: str) -> str | None:
    name = image.partition("@")[0].lower()
    return next((maker for maker, told in _OF_IMAGE.items() if told.search(name)), None)
