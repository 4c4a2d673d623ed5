"""The container's host memory: processes, staged weights, pinned buffers, caches, /dev/shm.

Only memory that the kernel can't reclaim counts against a limit: anonymous memory, pinned buffers, tmpfs. Memory-mapped
safetensors are page cache and are not in any floor. Figures without a source are engineering estimates from measured
processes; they are in `low … high` and never in a floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from podfit.kube.quantity import gib, human
from podfit.vllm.args import EngineArgs
from podfit.vllm.memory import parallel, weights
from podfit.vllm.memory.estimate import NOTHING, Estimate
from podfit.vllm.memory.host import offload, shm, staging
from podfit.vllm.memory.host.processes import (
    IMPORTED,
    IMPORTED_CUDA,
    Processes,
    compilers,
    memory,
    processes,
    requests,
)
from podfit.vllm.memory.host.staging import SHARD
from podfit.vllm.memory.ledger import HostLedger
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.memory.settings import Settings
from podfit.vllm.memory.weights import Checkpoint
from podfit.vllm.model import Model
from podfit.vllm.release import Release
from podfit.vllm.volumes import CheckpointSource

__all__ = [
    "IMPORTED",
    "IMPORTED_CUDA",
    "MODEL_FREE",
    "OFFLOAD",
    "SHARD",
    "TMPFS_WEIGHTS",
    "Processes",
    "ledger",
    "processes",
]

TMPFS_WEIGHTS = "weights in a memory volume"
MODEL_FREE = ("processes", "KV offload", "in /dev/shm")
"""Lines whose floor does not depend on the model or the GPU."""
OFFLOAD = ("swap space", "CPU offload", "KV offload")
"""Lines that exist only because of an argument."""


RARE_ARGUMENTS = frozenset({
    "cpu_offload_gb", "data_parallel_multi_port_external_lb", "data_parallel_rank", "data_parallel_start_rank",
    "disable_frontend_multiprocessing", "distributed_executor_backend", "enable_shm_tensor_arena", "enable_sleep_mode",
    "headless", "kv_offloading_backend", "kv_offloading_size", "kv_transfer_config", "load_format",
    "mm_processor_cache_gb", "mm_processor_cache_type", "model_loader_extra_config", "quantization",
    "safetensors_load_strategy", "swap_space",
})  # fmt: skip
"""Arguments besides those of `HostSettings` that a line of the ledger reads: most command lines have none of them."""
VARIABLES = frozenset({
    "LMCACHE_LOCAL_CPU", "LMCACHE_MAX_LOCAL_CPU_SIZE", "RUNAI_STREAMER_MEMORY_LIMIT", "VLLM_MQ_MAX_CHUNK_BYTES_MB",
    "VLLM_USE_SIMPLE_KV_OFFLOAD",
})  # fmt: skip
"""Environment variables that change the ledger, as `RARE_ARGUMENTS` do."""


class HostSettings(NamedTuple):
    """The settings that decide the ledger if none of `RARE_ARGUMENTS` and `VARIABLES` is set."""

    release: Release
    known: bool
    """True if the release is known; otherwise it represents all releases."""
    cut: Parallel
    v1: bool
    eager: bool
    vision: bool
    vendor: str
    model: Model | None
    checkpoint: Checkpoint | None
    files: CheckpointSource | None
    cuda: bool


def ledger(
    args: EngineArgs,
    model: Model | None,
    settings: Settings | None,
    release: Release,
    env: Mapping[str, str],
    checkpoint: Checkpoint | None = None,
    checkpoint_source: CheckpointSource | None = None,
    *,
    amd: bool = False,
    cuda: bool = False,
) -> HostLedger:
    """The host memory of the container in bytes: both totals and their lines.

    Without a model, only the lines that the arguments alone decide. `settings` None: the model is unknown, so the
    arguments and the release decide instead. `checkpoint` None: its size is unknown. `checkpoint_source`: where the
    checkpoint comes from, None if unknown; in a memory-backed volume, it stays in memory. `amd`: it is vLLM's ROCm
    build; `cuda`: it is its CUDA build.
    """
    host_settings = HostSettings(
        release=release,
        known=args.release is not None,
        cut=settings.parallel if settings else parallel.read(args, env),
        v1=settings.v1 if settings else release >= (0, 8),
        eager=settings.eager if settings else bool(args.given.get("enforce_eager")),
        vision=bool(model and model.vision_config and not args.given.get("language_model_only")),
        vendor="amd" if amd else settings.gpu.vendor if settings else "nvidia",
        model=model,
        checkpoint=checkpoint,
        files=checkpoint_source,
        cuda=cuda,
    )
    if RARE_ARGUMENTS.isdisjoint(args.given) and env.keys().isdisjoint(VARIABLES):
        return _usual_ledger(host_settings)
    return _ledger(host_settings, args, env, settings)


@lru_cache(256)
def _usual_ledger(host_settings: HostSettings) -> HostLedger:
    """The host ledger of an engine without arguments or variables that change it, cached by its settings."""
    known_release = host_settings.release if host_settings.known else None
    return _ledger(host_settings, EngineArgs(known_release), {}, None)


def checked_shm(args: EngineArgs, release: Release, env: Mapping[str, str]) -> int:
    """Free bytes in /dev/shm that this release checks for when it starts, and exits without; 0 if it does not check."""
    cut = parallel.read(args, env)
    return shm.checked_bytes(args, cut, processes(args, cut, release, v1=release >= (0, 8)), release, env)


def _ledger(
    host_settings: HostSettings, args: EngineArgs, env: Mapping[str, str], settings: Settings | None
) -> HostLedger:
    """The host memory ledger of a container that starts vLLM, in bytes.

    `settings`: those of the GPU's ledger. None: unknown, or of no effect, because no argument moves weights."""
    release, cut, v1 = host_settings.release, host_settings.cut, host_settings.v1
    model, checkpoint = host_settings.model, host_settings.checkpoint
    running = processes(args, cut, release, v1=v1)
    ranks = running.ranks
    weights_per_rank, certainly_in_layers = None, 0.0
    moves_weights = args.given.get("cpu_offload_gb") or args.given.get("enable_sleep_mode")
    if moves_weights and checkpoint and model and settings:
        how = weights.placed(settings)
        weights_per_rank = weights.of_stage(checkpoint, model, how, 0)
        certainly_in_layers = weights.least_in_layers(checkpoint, model, how) if settings.cpu_offload else 0.0
    kv_offload = offload.kv_cache(args, running.engines, ranks, release, env, host_settings.vendor)
    working = memory(running, release, cuda=host_settings.cuda)
    lines = {
        "processes": working,
        "requests": requests(running, vision=host_settings.vision),
        "staged weights": staging.line(args, model, checkpoint, ranks, env),
        "compilers": compilers(release, eager=host_settings.eager),
        TMPFS_WEIGHTS: _on_tmpfs(model, checkpoint, host_settings.files),
        "swap space": offload.swap_space(args, ranks, v1=v1),
        "CPU offload": offload.weights(args, ranks, weights_per_rank, certainly_in_layers),
        "KV offload": kv_offload.memory,
        "caches": _caches(args, running, release) if host_settings.vision else NOTHING,
        "sleep mode": offload.asleep(args, ranks, weights_per_rank),
        "in /dev/shm": shm.used(running),
    }
    steady = _sum([line for name, line in lines.items() if name not in ONLY_WHILE_LOADING])
    loading = _sum([lines[name] for name in WHILE_LOADING])
    peak = Estimate(
        max(loading.floor, steady.floor),
        max(loading.low, steady.low),
        max(loading.likely, steady.likely),
        max(loading.high, steady.high),
        "while loading" if loading.likely > steady.likely else "while serving",
    )
    if not host_settings.known:  # the lines depend on the release: only the processes of every release are certain
        least = min(working.floor, V1_PROCESSES * IMPORTED) if v1 else working.floor
        steady = Estimate(least, steady.low, steady.likely, steady.high, steady.note)
        peak = Estimate(least, peak.low, peak.likely, peak.high, peak.note)
    return HostLedger(
        lines=tuple([(name, line) for name, line in lines.items() if line.high]),
        steady=steady,
        peak=peak,
        need=peak,
        shm=shm.needed_bytes(args, cut, running, release, env, kv_offload.in_shm),
        processes=running.count,
        busy=running.busy,
        in_shm=lines["in /dev/shm"].likely + kv_offload.in_shm,
        ranks=running.ranks,
        offloaded=_sum([lines[name] for name in OFFLOAD]),
    )


V1_PROCESSES = 2
"""Processes of a V1 engine in every release, at least: an API server and an engine."""
ONLY_WHILE_LOADING = ("staged weights", "compilers")
"""Lines that are gone when vLLM serves."""
WHILE_LOADING = (
    "processes", "staged weights", "compilers", TMPFS_WEIGHTS, "CPU offload", "in /dev/shm",
)  # fmt: skip
"""Lines that exist before the KV cache does: its offload, swap space and requests come later."""
LEAST_ON_TMPFS, MOST_ON_TMPFS = 0.94, 1.1
"""Bytes of a downloaded checkpoint on tmpfs, at least and at most, relative to its known or computed size (assumed)."""


def _on_tmpfs(
    model: Model | None, checkpoint: Checkpoint | None, checkpoint_source: CheckpointSource | None
) -> Estimate:
    """Bytes of a checkpoint in a memory-backed volume: those of its files. Zeros for another volume, or if the size is
    unknown.

    They are certain only if vLLM itself writes them. An init container's files belong to the Pod, and count against the
    limits of all its containers together."""
    size = (model.weights_bytes if model else None) or (int(checkpoint.total) if checkpoint else None)
    if size is None or checkpoint_source is None or not checkpoint_source.in_memory:
        return NOTHING
    floor = int(LEAST_ON_TMPFS * size) if checkpoint_source.download else 0
    return Estimate(floor, size, size, int(MOST_ON_TMPFS * size), f"{human(size)} on tmpfs")


CACHE_SINCE = Release(0, 8)
"""The first release whose multimodal processor cache is planned."""
USUAL_CACHE_GIB = 4
"""The default of `--mm-processor-cache-gb`."""


def _caches(args: EngineArgs, running: Processes, release: Release) -> Estimate:
    """Bytes of the multimodal processor cache; zeros if it is switched off. It fills over time, which looks like a
    leak: likely half of it is full (assumed).

    With one engine (`lru`), the data is there once. With several, each API server and each engine keeps up to
    mm-processor-cache-gb itself (vLLM 0.33 multimodal/cache/factories.py).
    """
    if release < CACHE_SINCE:
        return NOTHING
    each = gib(args.given.get("mm_processor_cache_gb"), USUAL_CACHE_GIB)
    if each <= 0:
        return NOTHING
    caches = running.servers + running.engines if running.engines > 1 else 1
    most = each * caches
    return Estimate(
        0, 0, most // 2, most, "multimodal processor cache, fills while serving", "vLLM 0.33 multimodal/cache"
    )


def _sum(lines: Sequence[Estimate]) -> Estimate:
    """The sum of at least one line, bound by bound, without their notes."""
    return Estimate(
        floor=sum([line.floor for line in lines]),
        low=sum([line.low for line in lines]),
        likely=sum([line.likely for line in lines]),
        high=sum([line.high for line in lines]),
    )
