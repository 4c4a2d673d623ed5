"""The memory of weights on an AMD GPU beyond their own bytes.

On ROCm "Model loading took N GiB" is the growth of the used GPU memory (vLLM 0.11 … 0.18 utils/mem_utils.py,
DeviceMemoryProfiler), so it contains what PyTorch's allocator keeps. vLLM pads the rows of weights there, and the
copies leave blocks that cannot be given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from podfit.vllm.memory import shape
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.model import Model

PAD, PADDED_ROW = 256, 512
"""Bytes added to a row, and the bytes of which a row must be a multiple for that
(fused_moe/unquantized_fused_moe_method.py _maybe_pad_weight, quantization/utils/fp8_utils.py _maybe_pad_fp8_weight)."""
FP8_LINEAR = 0.23
"""Share by which linear layers of the `fp8` method grow with their padded copies. Measured: Ministral-3-14B on MI300X,
2.9 GiB more than on an H200, on 0.13, 0.14 and 0.18."""
DENSE, WITH_EXPERTS = 0.3, 1.0
"""GiB that the allocator keeps. Measured on MI300X, 0.11 … 0.18: 0.07 … 0.65, and 0.4 … 1.8 with experts."""


class Padded(NamedTuple):
    """The padding of weights in vLLM, by the environment."""

    experts: bool
    """VLLM_ROCM_MOE_PADDING is not 0."""
    linear: bool
    """VLLM_ROCM_FP8_PADDING is not 0."""
    shuffled: bool
    """AITER's kernel for experts: its copies replace the padded ones."""


def padded(variables: Mapping[str, str]) -> Padded:
    """The environment's settings, or their defaults (vLLM 0.33 envs.py): padding is on, AITER is off."""
    has_aiter_experts = variables.get("VLLM_ROCM_USE_AITER") == "1" and variables.get("VLLM_ROCM_USE_AITER_MOE") != "0"
    return Padded(
        experts=variables.get("VLLM_ROCM_MOE_PADDING") != "0",
        linear=variables.get("VLLM_ROCM_FP8_PADDING") != "0",
        shuffled=has_aiter_experts,
    )


class Growth(NamedTuple):
    """Bytes by which weights grow on a rank."""

    likely: float
    most: float


def experts_of_layer(model: Model, cut: Parallel, width: int, *, shuffled: bool) -> Growth:
    """The growth of the routed experts of one layer on a rank. `width`: bytes of an element; `shuffled`: AITER's kernel
    runs them.

    Both matrices are padded one after the other: gate with up, then down. The padded second one lies in the block that
    the first one left, so this block stays: the larger part of what was seen. Qwen3-VL-30B-A3B: 20.5 GiB predicted,
    21.1 printed; Llama 4 Maverick over 8 GPUs: 31.5 and 33.0; Qwen3-235B over 4, whose second matrix is not padded: 2.2
    and 3.0. AITER's kernel has contiguous copies instead. With expert parallelism, published configurations would not
    start if the weights grew as much, so only the high end includes it.
    """
    hidden, count = shape.routed_width(model), model.num_experts or 0
    inner = model.moe_intermediate_size or model.intermediate_size or 0
    if cut.expert:
        count //= cut.experts
    else:
        inner //= cut.experts
    rows_of_first, rows_of_second = count * inner * (1 if shape.is_ungated(model) else 2), count * hidden
    first, second = rows_of_first * hidden * width, rows_of_second * inner * width
    pads_of_first = rows_of_first * PAD if hidden * width % PADDED_ROW == 0 else 0
    pads_of_second = rows_of_second * PAD if inner * width % PADDED_ROW == 0 else 0
    growth = float(pads_of_first + pads_of_second)
    if pads_of_first and pads_of_second and second + pads_of_second <= first:
        growth = float(pads_of_first + first - second)  # the block of the first is kept for the smaller second
    return Growth(likely=0.0 if cut.expert or shuffled else growth, most=growth)
