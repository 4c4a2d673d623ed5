"""One engine on one GPU model with one release: its ranks, and the ledger of each."""

from __future__ import annotations

from typing import NamedTuple

from podfit.vllm.gpu import Gpu
from podfit.vllm.measured import MeasuredStart
from podfit.vllm.memory import budget, kv_cache, log_lines, ranks, settings
from podfit.vllm.memory.arguments import MemoryArguments
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.ledger import GpuLedger
from podfit.vllm.memory.ranks import Rank, Ranks
from podfit.vllm.memory.settings import ResolvedArguments
from podfit.vllm.model import Model
from podfit.vllm.release import Release

OTHER_RUNTIMES = ("aws", "google", "huawei", "intel")
"""Vendors whose vLLM plugin counts memory in its own way."""


class LoadedEngine(NamedTuple):
    """One engine on one GPU model with one release, whose weights are known."""

    model: Model
    total_memory: Estimate
    """The GPU's memory."""
    budget: Estimate
    resolved: ResolvedArguments
    ranks: Ranks

    def is_full(self, share: float | None = None) -> bool:
        """True if the weights alone use up the budget, or this share of the GPU, or all of it while they load. Then
        `fits` is False for every context length, batch size and dtype of the KV cache."""
        if self.ranks.loading > self.total_memory.high:
            return True
        allowed = self.budget.likely if share is None else int(self.total_memory.likely * share)
        return not self.resolved.budget.kv_cache_memory and self.ranks.heaviest >= allowed

    def are_alike_elsewhere(self, width: int) -> bool:
        """True if the weights are equally large on every other GPU model, with `width` bytes per element. Cut over more
        ranks, each rank has at least its proportional part."""
        settings, types = self.resolved.settings, self.resolved.settings.types
        if types.dtype != width or (types.scheme is not None and types.scheme.name == "MXFP4"):
            return False
        return not settings.cpu_offload and settings.lora is None and not self.resolved.budget.kv_cache_memory


def load(
    memory_arguments: MemoryArguments, gpu: Gpu | None, measured: int | None, release: Release
) -> LoadedEngine | None:
    """The engine with its weights; None if the memory, the runtime or the checkpoint's size is unknown."""
    estimate = budget.total(gpu, measured)
    if estimate is None or (gpu is not None and gpu.vendor.lower() in OTHER_RUNTIMES):
        return None
    resolved = settings.of(memory_arguments, gpu, estimate.likely, release)
    items = ranks.of(memory_arguments.model, resolved.settings)
    if items is None:
        return None
    return LoadedEngine(memory_arguments.model, estimate, budget.line(estimate, resolved.budget), resolved, items)


def ledger(
    begun: LoadedEngine, rank: Rank, measured_start: MeasuredStart | None = None, reported: int | None = None
) -> GpuLedger:
    """The lines of one rank, the memory that they leave, and its capacity.

    `reported`: bytes of KV cache memory that vLLM reported."""
    model, estimate, allowed, resolved, _ = begun
    if measured_start is not None:
        rank = log_lines.rank(measured_start, rank)  # without the peak while loading: that start has loaded the weights
    rest = left(allowed, resolved, rank)
    if measured_start is not None:
        rest = log_lines.kv_cache(measured_start, rest, estimate)
    if reported is not None:
        rest = Estimate(reported, reported, reported, reported, "given", "kv_cache_memory_bytes of the input")
    length = resolved.budget.max_model_len
    if resolved.budget.auto_len and rank.layout and length:
        length = kv_cache.longest(rest.likely, rank.layout, length, resolved.settings)
    return GpuLedger(
        total=estimate, budget=allowed, charges=rank.charges, kv_cache=rest, loading=rank.loading, model=model,
        resolved=resolved, layout=rank.layout, max_model_len=length,
    )  # fmt: skip


def left(allowed: Estimate, resolved: ResolvedArguments, rank: Rank) -> Estimate:
    """Bytes that the budget leaves to the KV cache of a rank, or the given size."""
    if fixed := resolved.budget.kv_cache_memory:
        return Estimate(fixed, fixed, fixed, fixed, "--kv-cache-memory-bytes", "vLLM 0.33 v1/worker/gpu_worker.py")
    likely = allowed.likely - rank.taken
    most = max(likely, allowed.high - rank.least)
    low = likely - (allowed.likely - allowed.low) - rank.more
    return Estimate(most, low, likely, min(most, likely + rank.less), "", kv_cache.SOURCE)
