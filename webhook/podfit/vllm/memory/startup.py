"""Seconds from the container's start to the first successful response on /health.

vLLM listens only after it has loaded, compiled and captured everything. Ranges read from public logs:

- imports 8 … 20 s per process
- loading 0.2 … 10 GB/s
- torch.compile 5 s (warm) … 70 s (cold, 8B), and minutes for large MoE models
- a CUDA graph 0.02 … 0.6 s

`likely` compared with public start-up logs (observed / estimated, median and 95th percentile):

- loading 0.9 and 10 (64 logs of 0.10 … 0.27, some of which download)
- profiling with compilation 0.8 and 1.3 (32 of 0.19 on H100)
- capturing graphs 0.9 and 4 (48 of 0.10 … 0.29)

`floor` is imports of 8 s, and files read at 10 GB/s by every rank in parallel. The fastest of those 64 logs read 5.6
GB/s per rank, and a startup window below the floor can't be enough. The image is pulled before the container starts.
"""

from __future__ import annotations

from functools import lru_cache

from podfit.kube.quantity import GI
from podfit.vllm.memory import cuda_graphs
from podfit.vllm.memory.ledger import Startup
from podfit.vllm.memory.settings import Settings
from podfit.vllm.memory.weights import Checkpoint
from podfit.vllm.model import Model
from podfit.vllm.volumes import CheckpointSource

GB = 10**9
IMPORTS = (8.0, 10.0, 20.0, 45.0)
DISK_SPEEDS = (10.0, 4.0, 1.0, 0.2)
"""GB/s for a whole checkpoint: page cache, local NVMe, a fast network disk, a slow one."""
FETCH = (2.0, 0.5, 0.1)
"""GB/s from a hub, if no policy sets it: hf_xet reaches 0.2 … 2."""
PREFAULT = 10 * GI
"""Bytes per second at which offloaded KV cache is filled at start (vLLM 0.27 and later, MADV_POPULATE_WRITE)."""


def estimate(
    model: Model,
    settings: Settings,
    checkpoint: Checkpoint | None,
    *,
    load_format: str = "auto",
    checkpoint_source: CheckpointSource | None = None,
    kv_in_memory: int = 0,
) -> Startup | None:
    """The start-up time; None if the checkpoint's size is unknown.

    `kv_in_memory`: bytes of offloaded KV cache that are filled at start.
    """
    size = model.weights_bytes or (checkpoint.total if checkpoint else None)
    if size is None:
        return None
    graphs = 0
    if not settings.eager:
        graphs = cuda_graphs.captured(settings) * (2 if settings.v1 and settings.release >= (0, 11) else 1)
    # load formats that are not weight files may need no reading at all; ranks read in parallel
    readers = settings.parallel.world_size if load_format in ("auto", "safetensors", "pt") else None
    compiled = settings.v1 and not settings.eager
    return _estimate(model, size, graphs, readers, compiled, checkpoint_source or CheckpointSource(), kv_in_memory)


@lru_cache(256)
def _estimate(
    model: Model,
    size: float,
    graphs: int,
    readers: int | None,
    compiled: bool,
    checkpoint_source: CheckpointSource,
    kv_in_memory: int,
) -> Startup:
    """Seconds of each part of a start-up, and their sums."""
    amount = size / GB
    rates: tuple[float, ...] = DISK_SPEEDS
    if checkpoint_source.disk_rate:  # the policy gives the disk's rate; the floor stays that of the fastest disk
        rates = (DISK_SPEEDS[0], *(checkpoint_source.disk_rate / GB * factor for factor in (1.5, 1.0, 0.5)))
    read = [amount / rate for rate in rates]
    depth = (model.num_hidden_layers or 32) / 32
    large = 2.0 if model.num_experts else 1.0
    filled = kv_in_memory / PREFAULT
    parts = {
        "imports": IMPORTS[1:],
        "download": _fetch(size, checkpoint_source),
        "load": (read[1], read[2], read[3]),
        "compile": (4.0, 18.0 * depth**0.5 * large, 90.0 * depth * large + 60) if compiled else (0.0, 0.0, 0.0),
        "CUDA graphs": (0.02 * graphs, 0.07 * graphs * depth**0.5, 0.6 * graphs * depth),
        "KV offload": (filled, filled, 4 * filled),
        "profile and warm-up": (2.0, 5.0 * large, 40.0 * large),
    }
    low, likely, high = map(sum, zip(*parts.values(), strict=True))
    return Startup(
        floor=min(low, IMPORTS[0] + (read[0] / max(1, readers) if readers is not None else 0.0)),
        low=low,
        likely=likely,
        high=high,
        parts=tuple([(name, round(part[1], 1)) for name, part in parts.items() if part[1]]),
    )


def first_download(size: float) -> float:
    """Likely seconds of a checkpoint's download from the hub, at the rate of `FETCH`. `size`: bytes."""
    return size / (FETCH[1] * GB)


def _fetch(size: float, checkpoint_source: CheckpointSource) -> tuple[float, float, float]:
    """(low, likely, high) seconds of a download of `size` bytes; if it may not happen, only `high` counts it."""
    if checkpoint_source.download is False:
        return 0.0, 0.0, 0.0
    rates = (
        (checkpoint_source.rate * 1.5, checkpoint_source.rate, checkpoint_source.rate / 2)
        if checkpoint_source.rate
        else tuple(rate * GB for rate in FETCH)
    )
    quick, usual, slow = (size / rate for rate in rates)
    return (quick, usual, slow) if checkpoint_source.download else (0.0, 0.0, usual)
