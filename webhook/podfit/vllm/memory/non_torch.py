"""Memory outside PyTorch's allocator that vLLM charges to the budget: context, NCCL, attention workspaces.

What is charged depends on when the release takes its first snapshot (vLLM worker/worker.py, v1/worker/gpu_worker.py).
V0 counts growth after the context. V1 up to 0.9.0 counts everything on the GPU, including the context. From 0.9.1 to
0.10 it counts growth with NCCL, from 0.11 growth without it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from podfit.kube.quantity import GI
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.settings import Settings

SOURCE = "vLLM 0.33 utils/mem_utils.py, memory_profiling; printed in start-up logs"


class MeasuredOverhead(NamedTuple):
    """GiB on one rank, for one class of releases and GPUs."""

    floor: float
    """The certain minimum."""
    low: float
    likely: float
    high: float
    """The end of the 95 % interval that begins with `low`."""
    note: str
    """The use of the memory, for people."""


MEASURED = {
    # 3090, V100: 0.35 and 0.39 with TP 2; an 80 GB GPU 1.79, with TP 2 3.58
    "V0": MeasuredOverhead(0.0, 0.1, 0.4, 2.0, "growth since the context"),
    "V0, several ranks": MeasuredOverhead(0.0, 0.3, 0.9, 3.6, "with NCCL"),
    "V1 to 0.9.0": MeasuredOverhead(0.15, 0.3, 0.6, 1.2, "CUDA context included"),
    "V1 to 0.9.0, several ranks": MeasuredOverhead(0.15, 0.5, 1.6, 3.0, "context and NCCL"),
    "0.9.1 to 0.10": MeasuredOverhead(0.0, 0.05, 0.14, 0.6, "growth"),
    # 8 H100: 2.3; 2 A100: 0.1
    "0.9.1 to 0.10, ranks on Hopper": MeasuredOverhead(0.0, 0.05, 2.2, 3.0, "with NCCL"),
    "0.9.1 to 0.10, several ranks": MeasuredOverhead(0.0, 0.05, 0.3, 1.6, "with NCCL"),
    "from 0.11, stages on Hopper": MeasuredOverhead(0.0, 0.05, 0.07, 0.3, "PP alone"),
    # two 3090s, 0.21, 31B: 2 GiB with no other explanation
    "from 0.11, stages elsewhere": MeasuredOverhead(0.0, 0.05, 0.07, 2.2, "PP alone"),
    # H100: 0.13 on 0.11 … 0.17, 0.24 … 0.46 on 0.18 and 0.19
    "0.11 to 0.17": MeasuredOverhead(0.0, 0.05, 0.13, 0.35, "kernels' workspaces"),
    "from 0.18": MeasuredOverhead(0.0, 0.05, 0.25, 0.5, "kernels' workspaces"),
    # H100, 0.19: 2.07 … 2.21 for TP 2 and 4: torch's symmetric memory; 0.54 on 0.11 … 0.16
    "from 0.17, ranks on Hopper": MeasuredOverhead(0.05, 1.95, 2.1, 2.3, "symmetric-memory all-reduce"),
    "0.11 to 0.16, ranks on Hopper": MeasuredOverhead(0.05, 0.4, 0.55, 0.8, "all-reduce buffers"),
    "from 0.11, several ranks": MeasuredOverhead(0.0, 0.1, 0.35, 1.2, "all-reduce buffers"),
    # MI300X, 0.11 … 0.18: 0.85 … 1.15 on one, 1.3 over 4, 2.7 … 3.5 over 8; once 4.6, and 0.6 over 4 with a ROCm build
    "AMD from 0.11": MeasuredOverhead(0.0, 0.25, 1.0, 1.5, "ROCm's libraries"),
    "AMD from 0.11, several ranks": MeasuredOverhead(0.05, 0.5, 1.3, 2.0, "ROCm's libraries, RCCL"),
    "AMD from 0.11, eight ranks": MeasuredOverhead(0.05, 1.2, 3.1, 4.8, "ROCm's libraries, RCCL"),
}
"""Class → GiB, as start-up logs printed them; `benchmarks/accuracy.py` compares them, and can fit them again. "Hopper"
includes Blackwell for data centers."""
ALL_TO_ALL, MOST_ALL_TO_ALL = 1.2, 4.0
"""GiB of all-to-all buffers, likely and at most: with 480B over 8 H20 on 0.10.1, gathered tokens did not explain as
much."""
WORKSPACE, MOST_WORKSPACE = 0.385, 0.4
"""GiB of FlashInfer's workspace, likely and at most: VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE is 394 MiB."""


def line(settings: Settings) -> Estimate:
    """Bytes outside of PyTorch's allocator on one rank."""
    has_all_to_all = settings.parallel.dp > 1 and settings.parallel.expert
    return _line(MEASURED[measured(settings)], has_all_to_all, settings.attention.flashinfer)


@lru_cache(64)
def _line(measured_overhead: MeasuredOverhead, has_all_to_all: bool, has_flashinfer: bool) -> Estimate:
    """The ledger line of a measured overhead, with the additions for all-to-all and FlashInfer."""
    floor, low, likely, high, note = measured_overhead
    if has_all_to_all:
        likely, high = likely + ALL_TO_ALL, high + MOST_ALL_TO_ALL
        note += ", all-to-all buffers"
    if has_flashinfer:
        likely, high = likely + WORKSPACE, high + MOST_WORKSPACE
        note += ", FlashInfer's workspace"
    return Estimate(int(floor * GI), int(low * GI), int(likely * GI), int(high * GI), note, SOURCE)


def measured(settings: Settings) -> str:
    """The class of MEASURED that this engine belongs to: by release, number of ranks, and GPU."""
    release, tp = settings.release, settings.parallel.tp
    many = settings.parallel.world_size > 1
    gpu = settings.gpu
    # 12.x is Blackwell for workstations, which has no NVLink
    hopper = gpu.capability is not None and (9, 0) <= gpu.capability < (12, 0) and gpu.vendor == "nvidia"
    if not settings.v1:
        return "V0, several ranks" if many else "V0"
    if release < (0, 9, 1):
        return "V1 to 0.9.0, several ranks" if many else "V1 to 0.9.0"
    if release < (0, 11):
        if not many:
            return "0.9.1 to 0.10"
        return "0.9.1 to 0.10, ranks on Hopper" if hopper else "0.9.1 to 0.10, several ranks"
    if gpu.instinct:
        if not many:
            return "AMD from 0.11"
        return "AMD from 0.11, eight ranks" if settings.parallel.world_size >= 8 else "AMD from 0.11, several ranks"
    if tp == 1:
        if many:
            return "from 0.11, stages on Hopper" if hopper else "from 0.11, stages elsewhere"
        return "0.11 to 0.17" if release < (0, 18) else "from 0.18"
    if not hopper:
        return "from 0.11, several ranks"
    return "from 0.17, ranks on Hopper" if release >= (0, 17) else "0.11 to 0.16, ranks on Hopper"
