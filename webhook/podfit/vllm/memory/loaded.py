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
        """True if the weights alone use up the budget, or all of the GPU while they load. Then `fits` is False for
        every context length, batch size and dtype of the KV cache.

        `share`: of the GPU's memory, 0 to 1, instead of the budget. A size that is given for the KV cache replaces the
        budget, so the weights never use it up."""
        if self.ranks.loading > self.total_memory.high:
            return True
        allowed = self.budget.likely if share is None else int(self.total_memory.likely * share)
        return not self.resolved.budget.kv_cache_memory and self.ranks.heaviest >= allowed

    def has_same_weights_elsewhere(self, width: int) -> bool:
        """True if the weights are as large on every other GPU model, and cut over more ranks each has at least its
        proportional part. `width`: bytes of an unquantized weight by the arguments.

        A GPU without bfloat16 may widen them, and kernels pad MXFP4. Offloaded bytes and LoRA slots are not
        proportional; a given size of the KV cache replaces the budget that they are compared with."""
        settings, types = self.resolved.settings, self.resolved.settings.types
        if types.dtype != width or (types.scheme is not None and types.scheme.name == "MXFP4"):
            return False
        return not settings.cpu_offload and settings.lora is None and not self.resolved.budget.kv_cache_memory


def load(
    memory_arguments: MemoryArguments, gpu: Gpu | None, measured: int | None, release: Release
) -> LoadedEngine | None:
    """The engine with its weights. None if the GPU's memory or the checkpoint's size is unknown, or for one of
    OTHER_RUNTIMES.

    `gpu` None: only its memory is known. `measured`: bytes that the process sees, instead of the tables' memory."""
    estimate = budget.total(gpu, measured)
    if estimate is None or (gpu is not None and gpu.vendor.lower() in OTHER_RUNTIMES):
        return None
    resolved = settings.of(memory_arguments, gpu, estimate.likely, release)
    items = ranks.of(memory_arguments.model, resolved.settings)
    if items is None:
        return None
    return LoadedEngine(memory_arguments.model, estimate, budget.line(estimate, resolved.budget), resolved, items)


def ledger(
    loaded_engine: LoadedEngine, rank: Rank, measured_start: MeasuredStart | None = None, reported: int | None = None
) -> GpuLedger:
    """The lines of one rank, the memory that they leave, and its capacity.

    `measured_start`: a start of exactly this engine, whose lines replace those of the rank. `reported`: bytes of KV
    cache memory that vLLM reported. With `--max-model-len auto`, the ledger has the longest request that fits."""
    model, estimate, allowed, resolved, _ = loaded_engine
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
    """Bytes that the budget (`allowed`) leaves to the KV cache of a rank, negative if the lines exceed it; the given
    size if there is one.

    Here `floor` is the certain maximum: the largest budget, less the minimum of all lines. The low end has the smallest
    budget and the high end of the lines."""
    if fixed := resolved.budget.kv_cache_memory:
        return Estimate(fixed, fixed, fixed, fixed, "--kv-cache-memory-bytes", "vLLM 0.33 v1/worker/gpu_worker.py")
    likely = allowed.likely - rank.taken
    most = max(likely, allowed.high - rank.least)
    return Estimate(
        floor=most,
        low=likely - (allowed.likely - allowed.low) - rank.more,
        likely=likely,
        high=min(most, likely + rank.less),
        source=kv_cache.SOURCE,
    )
