"""The memory that vLLM may use of a GPU: `--gpu-memory-utilization` × the total that the process sees."""

from __future__ import annotations

from functools import lru_cache

from podfit.kube.quantity import GI, human
from podfit.vllm.gpu import Gpu
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.settings import BudgetSettings, Settings
from podfit.vllm.release import Release

SOURCE = "vLLM 0.33 v1/worker/gpu_worker.py, request_memory"


def total(gpu: Gpu | None, measured: int | None) -> Estimate | None:
    """Memory of one GPU. `high` is the largest total ever measured for the GPU model: a denial must assume it. None if
    the GPU is unknown."""
    if measured:
        return Estimate(measured, measured, measured, measured, "as given")
    if gpu is None or gpu.memory <= 0:
        return None
    return _total(gpu.name, gpu.memory, gpu.memory_likely or gpu.memory, max(gpu.memory, gpu.memory_high))


@lru_cache(256)
def _total(name: str, low: int, likely: int, high: int) -> Estimate:
    """The estimate of the bytes that CUDA reports for a GPU of this name."""
    return Estimate(low, low, likely, high, f"{name}, as CUDA reports it")


def line(estimate: Estimate, settings: BudgetSettings) -> Estimate:
    """The bytes that vLLM may use of the GPU: total × utilization."""
    return _share(estimate, settings.utilization)


@lru_cache(256)
def _share(estimate: Estimate, share: float) -> Estimate:
    """Each bound of the estimate, in bytes, times `share` (0 to 1)."""
    floor, low, likely, high = (
        int(size * share) for size in (estimate.floor, estimate.low, estimate.likely, estimate.high)
    )
    return Estimate(floor, low, likely, high, f"{share:g} × {human(estimate.likely)}", SOURCE)


FREE_MEMORY_CHECK_SINCE = Release(0, 9, 1)
"""From this release on, vLLM compares free memory with the budget at the start (v1/worker/gpu_worker.py)."""


def checked(settings: Settings) -> bool:
    """True if this engine exits at the start if less memory is free than its budget. Unified memory is counted in
    another way."""
    return (
        settings.v1
        and settings.release >= FREE_MEMORY_CHECK_SINCE
        and settings.gpu.vendor == "nvidia"
        and not settings.gpu.unified_memory
    )


ALONE = Estimate(int(0.15 * GI), int(0.3 * GI), GI // 2, GI)
WITH_OTHERS = Estimate(int(0.15 * GI), int(0.3 * GI), GI, 3 * GI)
"""The CUDA context of a single rank, and of one of several."""


def context(settings: Settings) -> Estimate:
    """Memory of the GPU outside the budget that the CUDA context and (from 0.11) NCCL use.

    From 0.9.1 vLLM compares free memory with the budget after both were created, and exits if less is free. Least
    context measured: 0.3 GiB (T4); half of that is the floor. On an H100 it is 0.5 … 0.7 GiB, and NCCL uses
    0.2 … 2 GiB with several ranks.
    """
    return ALONE if settings.parallel.world_size == 1 else WITH_OTHERS
