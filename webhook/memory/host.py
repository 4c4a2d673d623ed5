"""The container's host memory: processes, staged weights, pinned buffers, caches, /dev/shm.

What counts against a limit is what the kernel can't take back: anonymous memory, pinned buffers, tmpfs. Memory-mapped
safetensors are page cache and are not in any floor. Figures without a source are engineering estimates from measured
processes: one that has imported all of `vllm serve` has 0.39 GiB of anonymous memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.args import EngineArgs
from webhook.memory import parallel, weights
from webhook.memory.ledger import HostLedger, Line
from webhook.memory.parallel import Parallel
from webhook.memory.settings import Settings
from webhook.memory.weights import Checkpoint
from webhook.model import Model
from webhook.quantity import GI, MI, human
from webhook.release import Release

ZERO = Line(0, 0, 0, 0)
IMPORTED = int(0.39 * GI)
"""Anonymous memory of a Python process that imported vLLM 0.33's server, measured: no process has less."""
SHARD = 5 * GI
"""The usual largest safetensors shard."""
RING_FLOOR = Release(0, 27)
"""From here vLLM refuses to make a ring that /dev/shm can't hold (check_shm_free_space)."""


@dataclass(frozen=True)
class Processes:
    """Processes of one container."""

    servers: int
    engines: int
    workers: int
    """GPU workers in processes of their own."""
    ranks: int
    """GPUs they work on together."""

    @property
    def count(self) -> int:
        """All of them."""
        return self.servers + self.engines + self.workers


def processes(args: EngineArgs, cut: Parallel, release: Release, *, v1: bool) -> Processes:
    """Who runs (vLLM 0.33 v1/engine/utils.py, v1/executor; 0.7 executor/multiproc_gpu_executor.py)."""
    ranks = max(1, cut.world_size // cut.nnodes)
    if not v1:
        merged = bool(args.given.get("disable_frontend_multiprocessing"))
        return Processes(0 if merged else 1, 1, ranks - 1, ranks)
    engines = 1 if args.given.get("data_parallel_rank") is not None else cut.dp_local
    if args.given.get("headless"):
        servers = 0
    else:
        usual = engines if release >= Release(0, 15) else 1
        servers = cut.api_servers if cut.api_servers else usual
    own = ranks > 1 or (cut.dp > 1 and release >= Release(0, 11))
    coordinator = 1 if cut.dp > 1 else 0
    launcher = 1 if servers > 1 else 0
    return Processes(servers + launcher + coordinator, engines, engines * ranks if own else 0, engines * ranks)


def ledger(
    args: EngineArgs,
    model: Model | None,
    resolved: Settings | None,
    release: Release,
    env: Mapping[str, str],
    checkpoint: Checkpoint | None = None,
) -> HostLedger:
    """Both totals and what they are made of. Without a model only what the arguments alone tell."""
    cut = parallel.read(args, env)
    v1 = resolved.v1 if resolved else release >= Release(0, 8)
    running = processes(args, cut, release, v1=v1)
    ranks = running.ranks
    per_rank = weights.of_stage(checkpoint, model, resolved, 0) if checkpoint and model and resolved else None
    swap = _swap_space(args, ranks, v1=v1)
    offload = _cpu_offload(args, ranks, per_rank)
    staged = _staged(args, model, checkpoint, ranks, env)
    kv_offload, kv_in_shm = _kv_offload(args, running.engines, ranks, release, env)
    caches = _caches(args, model, running, release)
    shm = _shm(args, cut, running, release, env, kv_in_shm)
    rings = _in_shm(running)
    working = _processes(running)
    asleep = _asleep(args, ranks, per_rank)
    steady = _sum(working, swap, offload, kv_offload, caches, rings, asleep)
    loading = _sum(working, offload, staged, rings)
    peak = Line(
        max(loading.floor, steady.floor),
        max(loading.low, steady.low),
        max(loading.likely, steady.likely),
        max(loading.high, steady.high),
        "while loading" if loading.likely > steady.likely else "while serving",
    )
    named = (
        ("processes", working),
        ("staged weights", staged),
        ("swap space", swap),
        ("CPU offload", offload),
        ("KV offload", kv_offload),
        ("caches", caches),
        ("sleep mode", asleep),
        ("in /dev/shm", rings),
    )
    if args.release is None:  # which lines there are hangs on the release
        least = running.count if not v1 else 2
        working_floor = min(working.floor, least * IMPORTED)
        steady = Line(working_floor, steady.low, steady.likely, steady.high, steady.note)
        peak = Line(working_floor, peak.low, peak.likely, peak.high, peak.note)
    return HostLedger(tuple((name, line) for name, line in named if line.high), steady, peak, shm)


def _processes(running: Processes) -> Line:
    """Anonymous memory; shared library pages are file-backed."""
    together = running.engines if not running.workers else 0
    low = 0.6 * running.servers + (1.6 if together else 0.6) * running.engines + 1.6 * running.workers
    likely = 1.2 * running.servers + (3.5 if together else 1.2) * running.engines + 3.0 * running.workers
    high = 2.0 * running.servers + (6.0 if together else 2.5) * running.engines + 4.5 * running.workers
    parts = [
        f"{count} {what}{'s' if count > 1 else ''}"
        for count, what in ((running.servers, "API server"), (running.engines, "engine"), (running.workers, "worker"))
        if count
    ]
    return Line(
        running.count * IMPORTED,
        int(low * GI),
        int(likely * GI),
        int(high * GI),
        ", ".join(parts),
        "measured: 0.39 GiB anonymous after imports; estimates for CUDA, NCCL and compiled code",
    )


def _swap_space(args: EngineArgs, ranks: int, *, v1: bool) -> Line:
    """V0 pins `--swap-space` (4 GiB) a GPU at start; V1 allocates none."""
    if v1:
        return ZERO
    given = args.given.get("swap_space")
    size = int((given if isinstance(given, int | float) and not isinstance(given, bool) else 4) * GI) * ranks
    return Line(
        size, size, size, size, f"{human(size // ranks)} × {ranks} GPUs, pinned", "vLLM 0.7 worker/cache_engine.py"
    )


def _cpu_offload(args: EngineArgs, ranks: int, per_rank: float | None) -> Line:
    """`--cpu-offload-gb` pins that much of each rank's weights; each tensor is rounded up to a power of two."""
    wished = _gib(args.given.get("cpu_offload_gb"))
    if not wished:
        return ZERO
    each = min(wished, int(0.95 * per_rank)) if per_rank else wished
    size = each * ranks
    floor = size if per_rank else 0
    return Line(
        floor,
        size,
        int(1.3 * size),
        2 * size,
        f"{human(each)} × {ranks} ranks, pinned",
        "vLLM 0.33 model_executor/offloader/uva.py",
    )


def _staged(
    args: EngineArgs, model: Model | None, checkpoint: Checkpoint | None, ranks: int, env: Mapping[str, str]
) -> Line:
    """What loading holds in anonymous memory, by load format. Memory-mapped safetensors hold none."""
    size = (model.weights_bytes if model else None) or (int(checkpoint.total) if checkpoint else None)
    if size is None:
        return ZERO
    form = str(args.given.get("load_format") or "auto")
    shard = min(size, SHARD)
    strategy = args.given.get("safetensors_load_strategy")
    extra = args.given.get("model_loader_extra_config")
    extra = extra if isinstance(extra, Mapping) else {}
    if form in ("pt", "npcache"):
        each = min(size, 2 * SHARD)
        return Line(0, each // 2, each * ranks, 2 * each * ranks, f"one .bin file on each of {ranks} ranks")
    if form in ("dummy", "sharded_state", "tensorizer", "fastsafetensors", "instanttensor", "ipc_cache"):
        return Line(0, 0, 0, shard, form)
    if form.startswith("runai_streamer"):
        limit = extra.get("memory_limit", env.get("RUNAI_STREAMER_MEMORY_LIMIT"))
        bound = int(limit) if isinstance(limit, int) or (isinstance(limit, str) and limit.isdigit()) else 40 * 10**9
        each = min(size // ranks if form.endswith("sharded") else size, bound or SHARD)
        return Line(
            0, each // 4, each * (1 if extra.get("distributed") else min(ranks, 4)), each * ranks, f"{form} buffers"
        )
    if strategy == "eager":
        return Line(shard, shard * ranks, 2 * shard * ranks, 2 * shard * ranks, f"2 shards × {ranks} ranks (eager)")
    if extra.get("enable_multithread_load"):
        threads = extra.get("num_threads")
        several = min(size, shard * (threads if isinstance(threads, int) and threads > 0 else 8))
        return Line(0, shard * ranks, several * ranks, several * ranks, f"shards read by threads × {ranks} ranks")
    return Line(0, 0, 0, shard, "memory-mapped: page cache", "vLLM 0.33 model_loader/weight_utils.py")


def _kv_offload(
    args: EngineArgs, engines: int, ranks: int, release: Release, env: Mapping[str, str]
) -> tuple[Line, int]:
    """KV cache blocks in host memory, and how much of it lives in /dev/shm (native offload from 0.27)."""
    size = _gib(args.given.get("kv_offloading_size")) * engines
    backend = args.given.get("kv_offloading_backend")
    connector, extra = "", {}
    config = args.given.get("kv_transfer_config")
    if isinstance(config, Mapping):
        connector = str(config.get("kv_connector") or "")
        inner = config.get("kv_connector_extra_config")
        extra = dict(inner) if isinstance(inner, Mapping) else {}
    if connector == "OffloadingConnector" and isinstance(extra.get("cpu_bytes_to_use"), int):
        size += extra["cpu_bytes_to_use"] * engines
    if size and backend != "lmcache":
        if release >= RING_FLOOR:
            return Line(size, size, size, size, f"{human(size)} in /dev/shm, filled at start"), size
        return Line(size, size, int(1.2 * size), 2 * size, f"{human(size)}, pinned"), 0
    if connector.startswith("LMCacheConnector") and env.get("LMCACHE_LOCAL_CPU", "True").lower() not in ("false", "0"):
        given = _float(env.get("LMCACHE_MAX_LOCAL_CPU_SIZE"))
        each = int((given if given is not None else 5.0) * GI)
        floor = int(0.9 * each * ranks) if given is not None else 0
        return Line(floor, int(0.9 * each * ranks), each * ranks, each * ranks,
                    f"LMCache {human(each)} × {ranks} workers, pinned", "LMCache v1/config.py"), 0  # fmt: skip
    return ZERO, 0


def _caches(args: EngineArgs, model: Model | None, running: Processes, release: Release) -> Line:
    """The multimodal processor cache fills over time: it looks like a leak."""
    if model is None or not model.vision_config or args.given.get("language_model_only") or release < Release(0, 8):
        return ZERO
    given = args.given.get("mm_processor_cache_gb")
    each = int((given if isinstance(given, int | float) and not isinstance(given, bool) else 4) * GI)
    if each <= 0:
        return ZERO
    most = each * (running.servers + running.engines if running.engines > 1 else 1)
    return Line(0, 0, most // 2, most, "multimodal processor cache, fills while serving", "vLLM 0.33 multimodal/cache")


def _asleep(args: EngineArgs, ranks: int, per_rank: float | None) -> Line:
    """Sleep mode, level 1, moves the weights to pinned host memory."""
    if not args.given.get("enable_sleep_mode") or per_rank is None:
        return ZERO
    return Line(0, 0, 0, int(per_rank * ranks), "weights, while asleep")


def _shm(
    args: EngineArgs, cut: Parallel, running: Processes, release: Release, env: Mapping[str, str], kv_in_shm: int
) -> Line:
    """What must be free in /dev/shm. `floor` is what this release refuses to start without.

    Rings between an engine and its workers: 10 chunks of VLLM_MQ_MAX_CHUNK_BYTES_MB (16) to them, 240 MiB back from
    each, both sparse. 0.33 checks each for free space when it makes it: with 64 MiB it refuses the first, with 200 MiB
    the second, with 256 MiB it starts (measured).
    """
    ranks = cut.world_size
    several = ranks > 1 or (cut.dp > 1 and (running.workers > 0 or cut.dp_local > 1))
    backend = args.given.get("distributed_executor_backend")
    cache = 0
    if args.given.get("mm_processor_cache_type") == "shm":
        given = args.given.get("mm_processor_cache_gb")
        cache = int((given if isinstance(given, int | float) and not isinstance(given, bool) else 4) * GI)
    known = args.release is not None
    if not several:
        need = kv_in_shm + cache
        return Line(kv_in_shm if known else 0, need, need, max(need, 64 * MI), "one process a GPU: no rings")
    chunk = env.get("VLLM_MQ_MAX_CHUNK_BYTES_MB", "")
    ring = 10 * (int(chunk) if chunk.isascii() and chunk.isdigit() else 16) * MI
    rings = (
        max(ring, 240 * MI)
        if release >= RING_FLOOR and backend not in ("ray", "external_launcher", "uni") and known
        else 0
    )
    gpus = ranks * cut.dp_local
    wide = 8 * GI if cut.dp > 1 and cut.expert and gpus >= 8 else 0
    likely = max(2 * GI, GI + gpus * GI // 2, wide) + kv_in_shm + cache
    low = 256 * MI + kv_in_shm + cache
    return Line(
        rings + (kv_in_shm if known else 0),
        low,
        likely,
        max(2 * likely, 8 * GI),
        f"rings of {gpus} GPUs and NCCL",
        "vLLM 0.33 distributed/device_communicators/shm_broadcast.py",
    )


def _in_shm(running: Processes) -> Line:
    """What is really in use there, offloaded KV aside: rings are sparse, NCCL takes some."""
    if not running.workers:
        return ZERO
    each = running.workers
    return Line(0, 10 * MI * each, 100 * MI * each, 600 * MI * each, "pages of rings and NCCL")


def _sum(*lines: Line) -> Line:
    return Line(
        sum(one.floor for one in lines),
        sum(one.low for one in lines),
        sum(one.likely for one in lines),
        sum(one.high for one in lines),
    )


def _gib(value: Any) -> int:
    return int(value * GI) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e6 else 0


def _float(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < 1e6 else None
