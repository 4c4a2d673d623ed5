"""Memory that vLLM moves from the GPU to pinned host memory: page-locked, and so never reclaimed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.kube.quantity import GI, gib, human
from podfit.vllm.args import EngineArgs
from podfit.vllm.memory.estimate import NOTHING, Estimate
from podfit.vllm.memory.parallel import LARGEST
from podfit.vllm.release import Release

IN_SHM = Release(0, 27)
"""From this release on, native KV offload is one file in /dev/shm (v1/kv_offload, `vllm_offload_<engine>.mmap`)."""
TIERS_IN_SHM = Release(0, 26)
"""From this release on, so is the first tier of a TieringOffloadingSpec, on every GPU (v1/kv_offload/tiering/)."""
ROCM_PINS = Release(0, 31)
"""From this release on, ROCm keeps pinned tensors (vLLM 0.27.1 … 0.33 v1/kv_offload/cpu/spec.py
`_uses_shared_region`)."""
XPU_IN_SHM = Release(0, 32)
"""From this release on, Intel's GPUs use the file, too (the same function)."""

LAZY = 0.2
"""Share of its buffer that LMCache's lazy allocator uses at first."""


def swap_space(args: EngineArgs, ranks: int, *, v1: bool) -> Estimate:
    """V0 pins `--swap-space` (4 GiB) per GPU at start; V1 allocates none."""
    if v1:
        return NOTHING
    size = gib(args.given.get("swap_space"), 4) * ranks
    return Estimate(
        size,
        size,
        size,
        size,
        f"{human(size // ranks)} × {ranks} GPU{'s' if ranks > 1 else ''}, pinned",
        "vLLM 0.7 worker/cache_engine.py",
    )


def weights(args: EngineArgs, ranks: int, per_rank: float | None, in_layers: float) -> Estimate:
    """`--cpu-offload-gb` pins that much of each rank's weights; each tensor is rounded up to a power of two.

    `in_layers`: bytes that are certainly in a rank's layers; embeddings and head are not offloaded.

    PyTorch's pinned allocator rounds (stated in vLLM 0.33 v1/simple_kv_offload/cuda_mem_ops.py), hence up to twice.
    """
    wished = gib(args.given.get("cpu_offload_gb"))
    if not wished:
        return NOTHING
    each = min(wished, int(0.95 * per_rank)) if per_rank else wished
    size = each * ranks
    least = min(wished, int(in_layers)) * ranks
    return Estimate(
        least,
        max(least, size),
        int(1.3 * size),
        2 * size,
        f"{human(each)} × {ranks} rank{'s' if ranks > 1 else ''}, pinned",
        "vLLM 0.33 model_executor/offloader/uva.py",
    )


def kv_cache(
    args: EngineArgs, engines: int, ranks: int, release: Release, env: Mapping[str, str], vendor: str
) -> tuple[Estimate, int]:
    """KV cache blocks in host memory, and how much of them is in /dev/shm (native offload from 0.27).

    `--kv-offloading-size` is the sum over an engine's ranks; so is `cpu_bytes_to_use` of the OffloadingConnector.
    VLLM_USE_SIMPLE_KV_OFFLOAD keeps pinned tensors.
    """
    size = gib(args.given.get("kv_offloading_size")) * engines
    backend = args.given.get("kv_offloading_backend")
    connector, extra = _connector(args)
    if connector == "OffloadingConnector" and isinstance(extra.get("cpu_bytes_to_use"), int):
        size += min(extra["cpu_bytes_to_use"], LARGEST) * engines
    if size and backend != "lmcache":
        simple = env.get("VLLM_USE_SIMPLE_KV_OFFLOAD", "0").lower() not in ("", "0", "false")
        tiers = extra.get("spec_name") == "TieringOffloadingSpec" and release >= TIERS_IN_SHM
        if tiers or (_uses_shared_region(release, vendor) and not simple):
            return Estimate(size, size, size, size, f"{human(size)} in /dev/shm, filled at start"), size
        return Estimate(size, size, int(1.2 * size), 2 * size, f"{human(size)}, pinned"), 0
    if connector.startswith("LMCacheConnector") and env.get("LMCACHE_LOCAL_CPU", "True").lower() not in ("false", "0"):
        given = _float(env.get("LMCACHE_MAX_LOCAL_CPU_SIZE"))
        each = int((given if given is not None else 5.0) * GI)
        floor = int(LAZY * each * ranks) if given is not None else 0
        return Estimate(floor, each * ranks, each * ranks, each * ranks,
                    f"LMCache {human(each)} × {ranks} workers, pinned", "LMCache v1/config.py"), 0  # fmt: skip
    return NOTHING, 0


def _uses_shared_region(release: Release, vendor: str) -> bool:
    """True if the workers of an engine share one file in /dev/shm for offloaded KV cache blocks."""
    if vendor == "amd":
        return IN_SHM <= release < ROCM_PINS
    return release >= (XPU_IN_SHM if vendor == "intel" else IN_SHM) and vendor in ("nvidia", "intel")


def _connector(args: EngineArgs) -> tuple[str, Mapping[str, Any]]:
    """(name, extra config) of the KV connector in `--kv-transfer-config`; ("", {}) without one."""
    config = args.given.get("kv_transfer_config")
    if not isinstance(config, Mapping):
        return "", {}
    inner = config.get("kv_connector_extra_config")
    return str(config.get("kv_connector") or ""), inner if isinstance(inner, Mapping) else {}


def asleep(args: EngineArgs, ranks: int, per_rank: float | None) -> Estimate:
    """Sleep mode, level 1, moves the weights to pinned host memory when a client requests it."""
    if not args.given.get("enable_sleep_mode") or per_rank is None:
        return NOTHING
    return Estimate(0, 0, 0, int(per_rank * ranks), "weights, while asleep")


def _float(text: str | None) -> float | None:
    """The number that LMCache reads from the text; None if it is not one from 0 to a million."""
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < 1e6 else None
