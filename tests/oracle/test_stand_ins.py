"""The modules that stand in for NVML and for compiled code. Torch's part runs with `make oracle` alone."""

from __future__ import annotations

import importlib.util

import pytest

from oracle.stand_ins import COMPILED, Absent, Finder, Gpu, cuda, nvml

GPU = Gpu("NVIDIA L4", 23_576_576_000, (8, 9), count=2)


@pytest.mark.parametrize(
    ("name", "stands_in"),
    [
        ("vllm._C", True),
        ("vllm._moe_C", True),
        ("vllm._C_stable_libtorch", True),
        ("vllm.cumem_allocator", True),
        ("vllm.vllm_flash_attn.layers.rotary", True),
        ("vllm.third_party.flashmla.flash_mla_interface", True),
        ("vllm.third_party.pynvml", True),
        ("vllm._custom_ops", False),
        ("vllm.config", False),
        ("triton", False),
    ],
)
def test_what_is_replaced(name: str, stands_in: bool) -> None:
    spec = Finder(nvml(GPU)).find_spec(name, [])
    assert (spec is not None) is stands_in


def test_nvml_answers_for_the_gpu() -> None:
    found = nvml(GPU)
    assert found.nvmlDeviceGetCount() == 2
    assert found.nvmlDeviceGetName(0) == "NVIDIA L4"
    assert found.nvmlDeviceGetCudaComputeCapability(0) == (8, 9)
    assert found.nvmlDeviceGetMemoryInfo(0).total == 23_576_576_000


def test_a_call_of_a_stand_in_fails() -> None:
    module = Absent("vllm._C")
    with pytest.raises(RuntimeError, match=r"vllm\._C\.paged_attention"):
        module.paged_attention()
    assert isinstance(module.FlashMLASchedMeta, type)
    assert not COMPILED.fullmatch("vllm.v1")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is in the oracle's environment only")
def test_cuda_answers_for_the_gpu() -> None:
    import torch

    cuda(torch, GPU)
    assert torch.cuda.get_device_capability() == (8, 9)
    assert torch.ops._C.cutlass_scaled_mm_supports_fp8(89)
