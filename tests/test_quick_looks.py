"""The quick looks that spare most Pods a thorough one: where they say that nothing is there, nothing is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webhook.rules import image_for_other_gpu

PARTS = ("vllm/", "rocm/", "ghcr.io/", "mirror/", "vllm", "vllm-openai", "-dev", "-rocm", "-xpu", "-cpu", ":v0.11.0",
         ":latest", "-nightly", "@sha256:0", "ROCM", "XPU")  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join))
def test_an_image_for_another_vendors_gpus_says_so(image: str) -> None:
    vendor = image_for_other_gpu._vendor(image)

    assert image_for_other_gpu._may_be_for_another(image) or vendor in (None, image_for_other_gpu._USUAL)


def test_images_for_other_gpus_are_among_those() -> None:
    vendors = [image_for_other_gpu._vendor(f"vllm/vllm-openai{build}:v0.11.0") for build in ("", "-rocm", "-xpu")]

    assert vendors == ["nvidia.com/", "amd.com/", "gpu.intel.com/"]
