"""Memory that vLLM moves from the GPU to pinned host memory: page-locked, and so never reclaimed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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
USUAL_SWAP_GIB = 4
"""The default of `--swap-space`: GiB per GPU."""
USUAL_LMCACHE_GIB = 5.0
"""The default of LMCACHE_MAX_LOCAL_CPU_SIZE: GiB per worker (LMCache v1/config.py)."""
MOST_OFFLOADED = 0.95
"""Share of a rank's weights that `--cpu-offload-gb` likely moves at most: embeddings and head stay (assumed)."""
ROUNDED_WEIGHTS, ROUNDED_BLOCKS, MOST_ROUNDED = 1.3, 1.2, 2
"""Pinned bytes relative to the bytes that an argument sets: likely for weights, likely for KV cache blocks, and at
most. PyTorch's pinned allocator rounds each tensor up to a power of two, so at most twice; the first two are
assumed."""


def swap_space(args: EngineArgs, ranks: int, *, v1: bool) -> Estimate:
    """Bytes that V0 pins for `--swap-space` on all `ranks` GPUs when it starts; V1 allocates none."""
    if v1:
        return NOTHING
    size = gib(args.given.get("swap_space"), USUAL_SWAP_GIB) * ranks
    return Estimate(
        size,
        size,
        size,
        size,
        f"{human(size // ranks)} × {ranks} GPU{'s' if ranks > 1 else ''}, pinned",
        "vLLM 0.7 worker/cache_engine.py",
    )


def weights(args: EngineArgs, ranks: int, per_rank: float | None, in_layers: float) -> Estimate:
    """Pinned bytes of weights that `--cpu-offload-gb` moves from all `ranks`; zeros if it is not set.

    `per_rank`: bytes of weights on a rank, None if unknown. `in_layers`: bytes that are certainly in a rank's layers;
    embeddings and head are not offloaded. PyTorch's pinned allocator rounds each tensor up to a power of two (stated in
    vLLM 0.33 v1/simple_kv_offload/cuda_mem_ops.py).
    """
    per_rank_limit = gib(args.given.get("cpu_offload_gb"))
    if not per_rank_limit:
        return NOTHING
    each = min(per_rank_limit, int(MOST_OFFLOADED * per_rank)) if per_rank else per_rank_limit
    size = each * ranks
    least = min(per_rank_limit, int(in_layers)) * ranks
    return Estimate(
        least,
        max(least, size),
        int(ROUNDED_WEIGHTS * size),
        MOST_ROUNDED * size,
        f"{human(each)} × {ranks} rank{'s' if ranks > 1 else ''}, pinned",
        "vLLM 0.33 model_executor/offloader/uva.py",
    )


class KvOffload(NamedTuple):
    """KV cache blocks in host memory."""

    memory: Estimate
    """Bytes of all blocks."""
    in_shm: int
    """Bytes of those that are in /dev/shm (native offload from 0.27)."""


def kv_cache(
    args: EngineArgs, engines: int, ranks: int, release: Release, env: Mapping[str, str], vendor: str
) -> KvOffload:
    """The KV cache blocks that all engines of the container offload, zeros if none does. `ranks`: GPUs of all engines.

    `--kv-offloading-size` is the sum over an engine's ranks; so is `cpu_bytes_to_use` of the OffloadingConnector.
    """
    size = gib(args.given.get("kv_offloading_size")) * engines
    connector = _connector(args)
    if connector.name == "OffloadingConnector" and isinstance(connector.extra.get("cpu_bytes_to_use"), int):
        size += min(connector.extra["cpu_bytes_to_use"], LARGEST) * engines
    if size and args.given.get("kv_offloading_backend") != "lmcache":
        return _native_offload(size, connector, release, env, vendor)
    if connector.name.startswith("LMCacheConnector"):
        return KvOffload(_lmcache(ranks, env), in_shm=0)
    return KvOffload(NOTHING, in_shm=0)


class Connector(NamedTuple):
    """The KV connector in `--kv-transfer-config`."""

    name: str
    """Its class; "" without one."""
    extra: Mapping[str, Any]
    """Its `kv_connector_extra_config`; empty if it has none."""


def _native_offload(
    size: int, connector: Connector, release: Release, env: Mapping[str, str], vendor: str
) -> KvOffload:
    """vLLM's own offload of `size` bytes: a file in /dev/shm, or pinned tensors.

    VLLM_USE_SIMPLE_KV_OFFLOAD keeps pinned tensors, except for a TieringOffloadingSpec."""
    is_simple = env.get("VLLM_USE_SIMPLE_KV_OFFLOAD", "0").lower() not in ("", "0", "false")
    has_tiers = connector.extra.get("spec_name") == "TieringOffloadingSpec" and release >= TIERS_IN_SHM
    if has_tiers or (_uses_shared_region(release, vendor) and not is_simple):
        return KvOffload(Estimate(size, size, size, size, f"{human(size)} in /dev/shm, filled at start"), in_shm=size)
    most = MOST_ROUNDED * size
    return KvOffload(Estimate(size, size, int(ROUNDED_BLOCKS * size), most, f"{human(size)}, pinned"), in_shm=0)


def _lmcache(ranks: int, env: Mapping[str, str]) -> Estimate:
    """Pinned bytes of LMCache in all `ranks` workers; zeros if LMCACHE_LOCAL_CPU switches them off. Certain is only the
    part that a size set by the author reserves at first."""
    if env.get("LMCACHE_LOCAL_CPU", "True").lower() in ("false", "0"):
        return NOTHING
    given_gib = _float(env.get("LMCACHE_MAX_LOCAL_CPU_SIZE"))
    each = int((given_gib if given_gib is not None else USUAL_LMCACHE_GIB) * GI)
    floor = int(LAZY * each * ranks) if given_gib is not None else 0
    size, note = each * ranks, f"LMCache {human(each)} × {ranks} workers, pinned"
    return Estimate(floor, size, size, size, note, "LMCache v1/config.py")


def _uses_shared_region(release: Release, vendor: str) -> bool:
    """True if the workers of an engine share one file in /dev/shm for offloaded KV cache blocks."""
    if vendor == "amd":
        return IN_SHM <= release < ROCM_PINS
    return release >= (XPU_IN_SHM if vendor == "intel" else IN_SHM) and vendor in ("nvidia", "intel")


def _connector(args: EngineArgs) -> Connector:
    """The KV connector of the arguments; one without a name if they have none."""
    config = args.given.get("kv_transfer_config")
    if not isinstance(config, Mapping):
        return Connector("", {})
    inner = config.get("kv_connector_extra_config")
    return Connector(str(config.get("kv_connector") or ""), inner if isinstance(inner, Mapping) else {})


def asleep(args: EngineArgs, ranks: int, per_rank: float | None) -> Estimate:
    """Bytes of weights that sleep mode, level 1, moves to pinned host memory when a client requests it. It counts only
    in the high end. Zeros if it is not enabled, or if the weights of a rank (`per_rank`) are unknown."""
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
