"""Memory outside PyTorch's allocator that vLLM charges to the budget: context, NCCL, attention workspaces.

What is charged depends on when the release takes its first snapshot (vLLM worker/worker.py, v1/worker/gpu_worker.py):
V0 counts growth after the context; V1 up to 0.9.0 everything on the card, the context included; 0.9.1 … 0.10 growth
with NCCL, from 0.11 growth without it.
"""

from __future__ import annotations

from webhook.memory.ledger import Line
from webhook.memory.settings import Settings
from webhook.quantity import GI
from webhook.release import Release

SOURCE = "vLLM 0.33 utils/mem_utils.py, memory_profiling; printed in start-up logs"


def line(settings: Settings) -> Line:
    """Non-torch growth on one rank."""
    floor, low, likely, high, note = _measured(settings)
    if settings.parallel.dp > 1 and settings.parallel.expert:
        likely, high = likely + 2.0, high + 4.0  # 0.10.1, 8 H20, 480B: 3.7 GiB that nothing else explains
        note += ", all-to-all buffers"
    if settings.flashinfer:
        likely, high = likely + 0.385, high + 0.4  # VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE: 394 MiB
        note += ", FlashInfer's workspace"
    return Line(int(floor * GI), int(low * GI), int(likely * GI), int(high * GI), note, SOURCE)


def _measured(settings: Settings) -> tuple[float, float, float, float, str]:
    release, tp = settings.release, settings.parallel.tp
    many = settings.parallel.world_size > 1
    hopper = settings.capability is not None and (9, 0) <= settings.capability < (12, 0)
    if not settings.v1:
        # 3090, V100: 0.35 and 0.39 with TP 2; an 80 GB card 1.79, with TP 2 3.58
        return (0.0, 0.1, 0.4, 2.0, "growth since the context") if not many else (0.0, 0.3, 0.9, 3.6, "with NCCL")
    if release < Release(0, 9, 1):
        return (0.15, 0.3, 0.6, 1.2, "CUDA context included") if not many else (0.15, 0.5, 1.6, 3.0, "context and NCCL")
    hopper_like = hopper and settings.vendor == "nvidia"
    if release < Release(0, 11):
        if not many:
            return (0.0, 0.05, 0.14, 0.6, "growth")
        # 8 H100: 2.3; 2 A100: 0.1
        return (0.0, 0.05, 2.2 if hopper_like else 0.3, 3.0 if hopper_like else 1.6, "with NCCL")
    if tp == 1:
        if many:
            return (0.0, 0.05, 0.07, 0.3, "PP alone")
        early = release < Release(0, 18)
        # H100: 0.13 on 0.11 … 0.17, 0.24 … 0.46 on 0.18 and 0.19
        return (0.0, 0.05, 0.13 if early else 0.25, 0.35 if early else 0.5, "kernels' workspaces")
    if hopper_like and release >= Release(0, 17):
        # H100, 0.19: 2.07 … 2.21 for TP 2 and 4: torch's symmetric memory
        return (0.05, 1.95, 2.1, 2.3, "symmetric-memory all-reduce")
    if hopper_like:
        return (0.05, 0.4, 0.55, 0.8, "all-reduce buffers")  # H100 0.11 … 0.16: 0.54
    return (0.0, 0.1, 0.35, 1.2, "all-reduce buffers")
