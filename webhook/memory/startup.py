"""Seconds from the container's start to the first answer on /health.

vLLM listens only when it has loaded, compiled and captured everything. Ranges read from public logs: imports 8 … 20 s
a process, loading 0.2 … 10 GB/s, torch.compile 5 s (warm) … 70 s (cold, 8B) and minutes for large MoE models, a CUDA
graph 0.1 … 0.5 s.
"""

from __future__ import annotations

from webhook.memory import cuda_graphs
from webhook.memory.ledger import Startup
from webhook.memory.settings import Settings
from webhook.memory.weights import Checkpoint
from webhook.model import Model
from webhook.release import Release

GB = 10**9
IMPORTS = (8.0, 10.0, 20.0, 45.0)
READ = (10.0, 4.0, 1.0, 0.2)
"""GB/s for a whole checkpoint: page cache, local NVMe, a good network disk, a poor one."""
FETCH = (2.0, 0.5, 0.1)
"""GB/s from a hub: low, likely, high time."""


def estimate(
    model: Model,
    settings: Settings,
    checkpoint: Checkpoint | None,
    *,
    load_format: str = "auto",
    download: bool | None = None,
) -> Startup | None:
    """The start-up time; None where not even the checkpoint's size is known.

    `download`: the weights are fetched first (True), are there (False), or that is not known (None): then only `high`
    includes it.
    """
    size = model.weights_bytes or (checkpoint.total if checkpoint else None)
    if size is None:
        return None
    amount = size / GB
    fetch = (0.0, 0.0, 0.0)
    if download is not False:
        quick, usual, slow = (amount / rate for rate in FETCH)
        fetch = (quick, usual, slow) if download else (0.0, 0.0, usual)
    read = [amount / rate for rate in READ]
    depth = (model.num_hidden_layers or 32) / 32
    large = 2.0 if model.num_experts else 1.0
    compiled = (0.0, 0.0, 0.0)
    if settings.v1 and not settings.eager:
        compiled = (4.0, 30.0 * depth**0.5 * large, 90.0 * depth * large + 60)
    graphs = (0.0, 0.0, 0.0)
    if not settings.eager:
        sets = 2 if settings.v1 and settings.release >= Release(0, 11) else 1
        count = cuda_graphs.captured(settings) * sets
        graphs = (0.03 * count, 0.15 * count * depth**0.5, 0.6 * count * depth)
    profile = (2.0, 8.0 * large, 40.0 * large)
    parts = {
        "imports": IMPORTS[1:], "download": fetch, "load": (read[1], read[2], read[3]), "compile": compiled,
        "CUDA graphs": graphs, "profile and warm-up": profile,
    }  # fmt: skip
    low, likely, high = (sum(part[i] for part in parts.values()) for i in range(3))
    return Startup(
        floor=min(low, IMPORTS[0] + _read_at_least(read[0], settings, load_format)),
        low=low,
        likely=likely,
        high=high,
        parts=tuple((name, round(part[1], 1)) for name, part in parts.items() if part[1]),
    )


def _read_at_least(seconds: float, settings: Settings, load_format: str) -> float:
    """Ranks read side by side, and other formats than files of weights need not be read at all."""
    if load_format not in ("auto", "safetensors", "pt"):
        return 0.0
    return seconds / max(1, settings.parallel.world_size)
