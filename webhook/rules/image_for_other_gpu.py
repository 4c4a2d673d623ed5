"""Rule image-for-other-gpu."""

from __future__ import annotations

import re
from collections.abc import Iterator

from webhook import release
from webhook.engine import Engine
from webhook.rule import Finding, Rule


class ImageForOtherGpu(Rule):
    """The image is vLLM's build for another vendor's GPUs.

    vLLM builds an image for each: `vllm/vllm-openai` has CUDA's libraries only, `vllm/vllm-openai-rocm` and `rocm/vllm`
    ROCm's, `vllm/vllm-openai-xpu` those for Intel's GPUs. On a GPU of another vendor it finds none, and ends:

        RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` …
    """

    plane = "config"
    mode = "warn"
    never_denies = "an image's name only tells of its build"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: the name of the image tells of its build, as the resource tells of the GPU."""
        image = engine.field("image")
        wanted = _vendor(image) if isinstance(image, str) else None
        if wanted is None or engine.requested is None or not engine.requested[0].startswith(tuple(_VENDORS)):
            return
        resource = engine.requested[0]
        asked = next(vendor for vendor in _VENDORS if resource.startswith(vendor))
        if asked == wanted:
            return
        yield Finding(
            path=engine.at("image"),
            message=f"image {str(image)!r} is built for {_VENDORS[wanted]}'s GPUs, and {resource} is "
            f"{_VENDORS[asked]}'s: vLLM finds no GPU",
            certainty="likely",
            suggestions=(f"an image of {_IMAGES[asked]}",),
        )


def _vendor(image: str) -> str | None:
    """The prefix of the resources that this build of vLLM's is for; None of what is somebody else's image."""
    name = image.partition("@")[0]
    repository = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    if _ROCM.search(repository):
        return "amd.com/"
    if not release.is_official(image) or _OTHERS.search(name):
        return None
    if repository.endswith("-xpu"):
        return "gpu.intel.com/"
    return "nvidia.com/" if repository.endswith("vllm-openai") else None


_VENDORS = {"nvidia.com/": "NVIDIA", "amd.com/": "AMD", "gpu.intel.com/": "Intel"}
_IMAGES = {
    "nvidia.com/": "vllm/vllm-openai",
    "amd.com/": "vllm/vllm-openai-rocm",
    "gpu.intel.com/": "vllm/vllm-openai-xpu",
}
_ROCM = re.compile(r"(^|/)(vllm-openai-rocm|rocm/vllm(-dev)?)$")
_OTHERS = re.compile(r"rocm|hip|gaudi|hpu|neuron", re.IGNORECASE)
"""In a tag: a mirror may tell builds apart by it."""
