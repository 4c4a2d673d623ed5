"""Rule image-for-other-gpu."""

from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import release


class ImageForOtherGpu(Rule):
    """The image is vLLM's build for another vendor's GPUs.

    vLLM builds an image for each: `vllm/vllm-openai` has CUDA's libraries only, `vllm/vllm-openai-rocm` and `rocm/vllm`
    ROCm's, `vllm/vllm-openai-xpu` those for Intel's GPUs. On a GPU of another vendor it finds none, and ends:

        RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` …
    """

    plane = "config"
    event = "vLLM exits: no GPU that the build supports"
    of_vllm = False
    mode = "warn"
    never_denies = "an image's name is only a hint about its build"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: the name of the image shows its build, as the resource shows the GPU."""
        image, resource = engine.field("image"), engine.requested[0] if engine.requested else ""
        usual = resource.startswith(_USUAL)
        asked = _USUAL if usual else next((vendor for vendor in _VENDORS if resource.startswith(vendor)), None)
        if asked is None or not isinstance(image, str) or len(image) > release.LONGEST:
            return
        if usual and not _may_be_for_another(image):
            return
        wanted = _vendor(image)
        if wanted is None or asked == wanted:
            return
        yield Finding(
            path=engine.at("image"),
            message=f"image {str(image)!r} is built for {_VENDORS[wanted]}'s GPUs, and {resource} is "
            f"{_VENDORS[asked]}'s: vLLM finds no GPU",
            certainty="likely",
            suggestions=(f"an image of {_IMAGES[asked]}",),
        )


def _may_be_for_another(image: str) -> bool:
    """A quick look before the thorough one: `_vendor` calls no image another vendor's than NVIDIA's without it."""
    return "rocm" in image or "-xpu" in image


def _vendor(image: str) -> str | None:
    """The prefix of the resources that this build of vLLM's is for; None for a third-party image."""
    name = image.partition("@")[0]
    repository = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    if _ROCM.search(repository):
        return "amd.com/"
    if not release.is_official(image) or _OTHERS.search(name):
        return None
    if repository.endswith("-xpu"):
        return "gpu.intel.com/"
    return "nvidia.com/" if repository.endswith("vllm-openai") else None


_USUAL = "nvidia.com/"
_VENDORS = {_USUAL: "NVIDIA", "amd.com/": "AMD", "gpu.intel.com/": "Intel"}
_IMAGES = {
    "nvidia.com/": "vllm/vllm-openai",
    "amd.com/": "vllm/vllm-openai-rocm",
    "gpu.intel.com/": "vllm/vllm-openai-xpu",
}
_ROCM = re.compile(r"(^|/)(vllm-openai-rocm|rocm/vllm(-dev)?)$")
_OTHERS = re.compile(r"rocm|hip|gaudi|hpu|neuron", re.IGNORECASE)
"""In a tag: a mirror may distinguish builds by it."""
