"""CUDA graphs: inside the budget as an estimate from 0.20, outside of it before.

vLLM captures a set of batch sizes after it has sized the KV cache. From 0.20 on, profile_cudagraph_memory estimates
their memory in advance and subtracts it (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS, on by default).
"""

from __future__ import annotations

from functools import lru_cache

from podfit.kube.quantity import GI, MI
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.settings import Settings
from podfit.vllm.model import Model

SOURCE = "vLLM 0.33 v1/worker/gpu_model_runner.py, profile_cudagraph_memory"
NO_GRAPHS = Estimate(0, 0, 0, 0, "none: --enforce-eager", SOURCE)


def line(model: Model, settings: Settings) -> Estimate:
    """GPU memory of the CUDA graphs, whether it is charged to the budget or not (see `charged`)."""
    if settings.eager:
        return NO_GRAPHS
    twice = settings.lora is not None and settings.release >= (0, 11, 1)
    return _line(model, captured(settings), settings.parallel.pp, twice, charged(settings))


@lru_cache(256)
def _line(model: Model, sizes: int, stages: int, twice: bool, inside: bool) -> Estimate:
    layers = (model.num_hidden_layers or 32) / stages
    likely = (0.1 * GI + sizes * layers * 0.4 * MI) * (1.5 if model.num_experts else 1.0)
    if "linear_attention" in model.layer_types:
        likely *= 1.8  # 0.25 printed 0.49 … 0.74 GiB for Qwen 3.5 27B and 35B-A3B, 11 sizes
    if twice:
        likely *= 1.85  # a second set without adapters: 2.19 → 4.07 GiB for a 31B over 4 L4 on 0.19.1
    where = "charged to the budget" if inside else "outside the budget"
    # of 45 printed estimates the least was 0.15 of this one, the largest 5 times (including a drafter's graphs)
    floor, low, high = int(0.1 * likely), int(0.45 * likely), int(1.8 * likely)
    return Estimate(floor, low, int(likely), high, f"{sizes} batch sizes, {where}", SOURCE)


def charged(settings: Settings) -> bool:
    """Whether the budget includes them."""
    estimate = settings.variable("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    if settings.release >= (0, 20):
        return estimate != "0"
    return settings.release >= (0, 18) and estimate == "1"


def captured(settings: Settings) -> int:
    """Number of captured batch sizes: 1, 2, 4, then every 8 up to 256, every 16 up to the largest.

    The largest is min(2 × max_num_seqs, 512) from 0.10, 512 before (V0: 256, limited by max_num_seqs).
    """
    if not settings.v1:
        most = min(256, settings.max_num_seqs)
    elif settings.release < (0, 10):
        most = 512
    else:
        most = min(512, 2 * settings.max_num_seqs)
    return _sizes(most)


@lru_cache(512)
def _sizes(most: int) -> int:
    sizes = (most >= 1) + (most >= 2) + (most >= 4) + min(most, 248) // 8
    return sizes + max(0, (most - 256) // 16 + 1)
