"""CUDA graphs: inside the budget as an estimate from 0.20, outside of it before, and with the second model runner up to
0.28.

vLLM captures a set of batch sizes after it has sized the KV cache. From 0.20 on, profile_cudagraph_memory estimates
their memory in advance and subtracts it (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS, on by default). The second runner's
estimate is 0 until 0.29.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from podfit.kube.quantity import GI, MI
from podfit.vllm.memory import model_runner
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.settings import Settings
from podfit.vllm.model import Model
from podfit.vllm.release import Release

SOURCE = "vLLM 0.33 v1/worker/gpu_model_runner.py, profile_cudagraph_memory"
NO_GRAPHS = Estimate(0, 0, 0, 0, "none: --enforce-eager", SOURCE)


CAPTURED_TWICE_SINCE = Release(0, 11, 1)
"""Since then an engine with LoRA captures each graph twice: with and without adapters."""


def line(model: Model, settings: Settings) -> Estimate:
    """Bytes of the CUDA graphs on one rank, whether they are charged to the budget or not (see `charged`)."""
    if settings.eager:
        return NO_GRAPHS
    twice = settings.lora is not None and settings.release >= CAPTURED_TWICE_SINCE
    smaller = settings.release >= SMALLER_SINCE
    return _line(model, captured(settings), settings.parallel.pp, twice, smaller, charged(settings))


class Size(NamedTuple):
    """The memory of the graphs of one class of models."""

    base: float
    """GiB, however many graphs there are."""
    each: float
    """MiB for each batch size and layer."""


PRINTED_BEFORE = {
    (False, False): Size(0.1, 0.4),
    (False, True): Size(0.15, 0.6),
    (True, False): Size(0.18, 0.72),
    (True, True): Size(0.27, 1.08),
}
"""(linear attention, experts) → sizes that releases before 0.20 printed."""
PRINTED = {
    # 0.56 GiB for Qwen3-8B and 51 sizes, 0.38 for Qwen2.5-0.5B, 0.11 for Qwen2.5-7B and 11 sizes; 0.65 for half of
    # Gemma 4 31B on 0.21
    (False, False): Size(0.1, 0.22),
    # 0.85 for Qwen3-VL-30B-A3B and 51 sizes
    (False, True): Size(0.15, 0.33),
    # 1.11 for Qwen 3.6 27B and 51 sizes on 0.26, 0.49 … 0.74 for 11 sizes on 0.25; 0.30 on 0.29
    (True, False): Size(0.25, 0.28),
    # 0.73 for Qwen 3.6 35B-A3B and 11 sizes on 0.25; 0.9 more with 51 than with 35, over 4 A100s on 0.27
    (True, True): Size(0.3, 0.9),
}
"""(linear attention, experts) → sizes that releases since 0.20 printed, captured or estimated."""
SMALLER_SINCE = Release(0, 20)
"""The first release whose printed sizes were smaller."""
WITH_ADAPTERS = 1.85
"""Memory of both sets of graphs of an engine with LoRA, relative to one set: 2.19 → 4.07 GiB for a 31B over 4 L4 on
0.19.1."""
FLOOR, FLOOR_BEFORE = 0.15, 0.1
"""The certain share of the likely bytes, with the sizes PRINTED and PRINTED_BEFORE. The least of 45 printed estimates
was 0.15 of PRINTED_BEFORE's, the largest 5 times (including a drafter's graphs)."""
LOW, HIGH = 0.3, 2.2
"""The 95 % interval, relative to the likely bytes (assumed)."""
USUAL_LAYERS = 32
"""Layers of a model whose number of layers is unknown (assumed; those of Llama 3.1 8B)."""


@lru_cache(256)
def _line(model: Model, sizes: int, stages: int, twice: bool, smaller: bool, inside: bool) -> Estimate:
    """The ledger line of the graphs of `sizes` batch sizes on a rank of one of `stages` pipeline stages.

    `twice`: captured with and without LoRA; `smaller`: since SMALLER_SINCE; `inside`: charged to the budget."""
    layers = (model.num_hidden_layers or USUAL_LAYERS) / stages
    has_linear_attention, has_experts = "linear_attention" in model.layer_types, bool(model.num_experts)
    size = (PRINTED if smaller else PRINTED_BEFORE)[has_linear_attention, has_experts]
    likely = size.base * GI + sizes * layers * size.each * MI
    if twice:
        likely *= WITH_ADAPTERS
    return Estimate(
        floor=int((FLOOR if smaller else FLOOR_BEFORE) * likely),
        low=int(LOW * likely),
        likely=int(likely),
        high=int(HIGH * likely),
        note=f"{sizes} batch sizes, {'charged to the budget' if inside else 'outside the budget'}",
        source=SOURCE,
    )


def charged(settings: Settings) -> bool:
    """True if the budget includes the CUDA graphs.

    The second model runner estimates 0 bytes before it serves every model. By default releases from 0.20 on charge
    them; 0.18 and 0.19 do only if the variable is 1."""
    if settings.second_runner and settings.release < model_runner.EVERY:
        return False
    estimate = settings.kernels.variable("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    if settings.release >= (0, 20):
        return estimate != "0"
    return settings.release >= (0, 18) and estimate == "1"


def captured(settings: Settings) -> int:
    """Number of captured batch sizes: 1, 2, 4, then every 8 up to 256, every 16 up to the largest.

    The largest is min(2 × max_num_seqs, 512) from 0.10, 512 before (V0: 256, limited by max_num_seqs).
    """
    if not settings.v1:
        most = min(256, settings.batch.max_num_seqs)
    elif settings.release < (0, 10):
        most = 512
    else:
        most = min(512, 2 * settings.batch.max_num_seqs)
    return _size_count(most)


def _size_count(most: int) -> int:
    """Number of capture sizes up to `most`: 1, 2, 4, then 8 … 248 in steps of 8, and from 256 on in steps of 16."""
    small = (most >= 1) + (most >= 2) + (most >= 4)
    in_steps_of_8 = min(most, 248) // 8
    in_steps_of_16 = max(0, (most - 256) // 16 + 1)
    return small + in_steps_of_8 + in_steps_of_16
