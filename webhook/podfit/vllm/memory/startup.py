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
from typing import NamedTuple

from podfit.kube.quantity import GI
from podfit.vllm.memory import cuda_graphs
from podfit.vllm.memory.ledger import Startup
from podfit.vllm.memory.settings import Settings
from podfit.vllm.memory.weights import Checkpoint
from podfit.vllm.model import Model
from podfit.vllm.release import Release
from podfit.vllm.volumes import CheckpointSource

GB = 10**9


class Seconds(NamedTuple):
    """The time of one part of a start-up, and its 95 % interval."""

    low: float
    likely: float
    high: float


class Rates(NamedTuple):
    """GB/s at which a checkpoint is read or downloaded, the fastest first."""

    fast: float
    usual: float
    slow: float

    def seconds(self, size: float) -> Seconds:
        """The time for `size` bytes."""
        amount = size / GB
        return Seconds(amount / self.fast, amount / self.usual, amount / self.slow)


LEAST_IMPORTS, IMPORTS = 8.0, Seconds(10.0, 20.0, 45.0)
"""Seconds until vLLM's modules are imported: certainly, and the range. Public logs have 8 … 20 s per process; the high
end is assumed."""
PAGE_CACHE = 10.0
"""GB/s from the page cache: no disk is faster, so the floor has this rate."""
DISKS = Rates(fast=4.0, usual=1.0, slow=0.2)
"""A local NVMe, a fast network disk, a slow one."""
HUB = Rates(fast=2.0, usual=0.5, slow=0.1)
"""Downloads from a hub, if no policy sets the rate: hf_xet reaches 0.2 … 2."""
PREFAULT = 10 * GI
"""Bytes per second at which offloaded KV cache is filled at start (vLLM 0.27 and later, MADV_POPULATE_WRITE)."""
USUAL_LAYERS = 32
"""Layers of the models whose times the constants below are. Other times grow with the number of layers."""
WITH_EXPERTS = 2.0
"""Compilation, profile and warm-up of a model with experts, relative to one without (assumed)."""
COMPILE, COMPILE_MOST = Seconds(4.0, 18.0, 90.0), 60
"""Seconds of torch.compile for USUAL_LAYERS, and those that the high end adds for any model. Public logs have 5 s with
a warm cache, 70 s without for 8B, and minutes for large MoE models."""
GRAPH = Seconds(0.02, 0.07, 0.6)
"""Seconds per CUDA graph for USUAL_LAYERS; public logs have 0.02 … 0.6."""
WARM_UP = Seconds(2.0, 5.0, 40.0)
"""Seconds of the profile run and of the kernels' warm-up without experts (assumed)."""
BOTH_KINDS_SINCE = Release(0, 11)
"""Since then V1 captures two graphs for each batch size: a whole one for decoding, and one in pieces."""


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

    `load_format`: that of vLLM's argument. `checkpoint_source`: where the checkpoint comes from, None if unknown.
    `kv_in_memory`: bytes of offloaded KV cache that are filled at start.
    """
    size = model.weights_bytes or (checkpoint.total if checkpoint else None)
    if size is None:
        return None
    graphs = 0
    if not settings.eager:
        kinds = 2 if settings.v1 and settings.release >= BOTH_KINDS_SINCE else 1
        graphs = cuda_graphs.captured(settings) * kinds
    # ranks read in parallel; load formats that are not weight files may need no reading at all
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
    """The start-up time of a checkpoint of `size` bytes: the seconds of each part, and their sums.

    `graphs`: CUDA graphs that are captured. `readers`: ranks that read the files, None if there may be no files to
    read. `compiled`: torch.compile runs. `kv_in_memory`: bytes of offloaded KV cache."""
    disks = _around(checkpoint_source.disk_rate) if checkpoint_source.disk_rate else DISKS
    depth = (model.num_hidden_layers or USUAL_LAYERS) / USUAL_LAYERS
    large = WITH_EXPERTS if model.num_experts else 1.0
    filled = kv_in_memory / PREFAULT
    compilation = Seconds(COMPILE.low, COMPILE.likely * depth**0.5 * large, COMPILE.high * depth * large + COMPILE_MOST)
    parts = {
        "imports": IMPORTS,
        "download": _download(size, checkpoint_source),
        "load": disks.seconds(size),
        "compile": compilation if compiled else NO_TIME,
        "CUDA graphs": Seconds(GRAPH.low * graphs, GRAPH.likely * graphs * depth**0.5, GRAPH.high * graphs * depth),
        "KV offload": Seconds(filled, filled, SLOW_PREFAULT * filled),
        "profile and warm-up": Seconds(WARM_UP.low, WARM_UP.likely * large, WARM_UP.high * large),
    }
    low = sum([part.low for part in parts.values()])
    least_load = size / GB / PAGE_CACHE / max(1, readers) if readers is not None else 0.0
    return Startup(
        floor=min(low, LEAST_IMPORTS + least_load),
        low=low,
        likely=sum([part.likely for part in parts.values()]),
        high=sum([part.high for part in parts.values()]),
        parts=tuple([(name, round(part.likely, 1)) for name, part in parts.items() if part.likely]),
    )


NO_TIME = Seconds(0.0, 0.0, 0.0)
SLOW_PREFAULT = 4
"""The high end of the time in which offloaded KV cache is filled, relative to the likely one (assumed)."""


def _around(rate: float) -> Rates:
    """The range of a rate that a policy sets (bytes per second): from half of it to one and a half (assumed)."""
    return Rates(fast=rate / GB * 1.5, usual=rate / GB * 1.0, slow=rate / GB * 0.5)


def first_download(size: float) -> float:
    """Likely seconds of a checkpoint's download from the hub, at the usual rate of `HUB`. `size`: bytes."""
    return size / (HUB.usual * GB)


def _download(size: float, checkpoint_source: CheckpointSource) -> Seconds:
    """The time of a download of `size` bytes; if it may not happen, only the high end has it, with the usual rate."""
    if checkpoint_source.download is False:
        return NO_TIME
    rate = checkpoint_source.rate
    if rate:
        seconds = Seconds(size / (rate * 1.5), size / rate, size / (rate / 2))  # as in `_around`
    else:
        seconds = Seconds(size / (HUB.fast * GB), size / (HUB.usual * GB), size / (HUB.slow * GB))
    return seconds if checkpoint_source.download else Seconds(0.0, 0.0, seconds.likely)
