"""/dev/shm: the bytes that must be free, and the bytes in use."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.kube.quantity import GI, MI, gib
from podfit.vllm.args import EngineArgs
from podfit.vllm.memory.estimate import NOTHING, Estimate
from podfit.vllm.memory.host.processes import Processes
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.release import Release

SHM_CHECK_SINCE = Release(0, 27)
"""From this release on, vLLM exits if /dev/shm is too small for a ring (check_shm_free_space; observed in 0.27.1, not
in 0.26)."""
BESIDES_KV = 64 * MI
"""Bytes of other data that must fit next to offloaded KV cache in one process: the size that a container has without a
volume. KServe reserves a fifth of the region (kserve#5949)."""
ARENA = 2 * GI
"""`--enable-shm-tensor-arena` (0.32): 8 × 256 MiB per queue."""
USUAL_CACHE_GIB = 4
"""The default of `--mm-processor-cache-gb`."""
RING_CHUNKS, USUAL_CHUNK_MIB = 10, 16
"""Chunks of the ring from an engine to its workers, and the default of VLLM_MQ_MAX_CHUNK_BYTES_MB."""
RING_BACK = 240 * MI
"""Bytes of the ring back from each worker."""
MOST_CHUNK_DIGITS = 5
"""Digits of VLLM_MQ_MAX_CHUNK_BYTES_MB that are read; a longer value counts as not set."""
DEFAULT_SHM = 64 * MI
"""The size of /dev/shm in a container without a volume for it."""
ENOUGH_TO_START = 256 * MI
"""Measured: with 200 MiB 0.33 fails at its second ring, with this much it starts."""
LEAST_SUGGESTED, LEAST_OF_MOST = 2 * GI, 8 * GI
"""Bytes that an engine with rings likely needs, at least, and the least high end of the range (assumed)."""
BASE, PER_GPU = GI, GI // 2
"""Bytes that several GPUs likely need together, and each of them in addition (assumed)."""
WITH_EXPERT_PARALLELISM, MANY_GPUS = 8 * GI, 8
"""Bytes that data-parallel engines with expert parallelism likely need, from so many GPUs on (assumed)."""


def needed_bytes(
    args: EngineArgs, cut: Parallel, running: Processes, release: Release, env: Mapping[str, str], kv_in_shm: int
) -> Estimate:
    """Bytes of /dev/shm that must be free. With less than `floor`, this release does not start; the floor is 0 if the
    release is unknown. `kv_in_shm`: bytes of offloaded KV cache there.

    Rings between an engine and its workers: RING_CHUNKS chunks to them, RING_BACK bytes back from each, both sparse.
    0.33 checks for free space when it creates each ring: with 64 MiB it fails at the first (measured). KV offload fills
    its part at start, after the rings.
    """
    other = _cache(args) + (ARENA * running.engines if args.given.get("enable_shm_tensor_arena") else 0)
    is_release_known = args.release is not None
    certain_kv = kv_in_shm if is_release_known else 0
    if not _has_rings(cut, running):
        need = kv_in_shm + other + (BESIDES_KV if kv_in_shm else 0)
        return Estimate(certain_kv, need, need, max(need, DEFAULT_SHM), "one process a GPU: no rings")
    rings = checked_bytes(args, cut, running, release, env) if is_release_known else 0
    gpus = cut.world_size * cut.dp_local
    expert_parallel = WITH_EXPERT_PARALLELISM if cut.dp > 1 and cut.expert and gpus >= MANY_GPUS else 0
    likely = max(LEAST_SUGGESTED, BASE + gpus * PER_GPU, expert_parallel) + kv_in_shm + other
    return Estimate(
        floor=max(rings, certain_kv),
        low=ENOUGH_TO_START + kv_in_shm + other,
        likely=likely,
        high=max(2 * likely, LEAST_OF_MOST),
        note=f"rings of {gpus} GPUs and NCCL",
        source="vLLM 0.33 distributed/device_communicators/shm_broadcast.py",
    )


def checked_bytes(args: EngineArgs, cut: Parallel, running: Processes, release: Release, env: Mapping[str, str]) -> int:
    """Free bytes that the release checks for before it creates the larger of its rings. 0 if it checks nothing, because
    it is an earlier release, its executor has no rings, or the engine is one process."""
    backend = args.given.get("distributed_executor_backend")
    if release < SHM_CHECK_SINCE or backend in ("ray", "external_launcher", "uni") or not _has_rings(cut, running):
        return 0
    chunk = env.get("VLLM_MQ_MAX_CHUNK_BYTES_MB", "")
    is_readable = chunk.isascii() and chunk.isdigit() and len(chunk) <= MOST_CHUNK_DIGITS
    ring = RING_CHUNKS * (int(chunk) if is_readable else USUAL_CHUNK_MIB) * MI
    return max(ring, RING_BACK)


def _has_rings(cut: Parallel, running: Processes) -> bool:
    """True if processes pass messages through ring buffers in /dev/shm: an engine of several GPUs, or data-parallel
    engines that have workers or share a container."""
    return cut.world_size > 1 or (cut.dp > 1 and (running.workers > 0 or cut.dp_local > 1))


def _cache(args: EngineArgs) -> int:
    """Bytes of the one segment of `--mm-processor-cache-type shm`; 0 for another type."""
    if args.given.get("mm_processor_cache_type") != "shm":
        return 0
    return gib(args.given.get("mm_processor_cache_gb"), USUAL_CACHE_GIB)


USED_BY_WORKER = Estimate(0, 10 * MI, 100 * MI, 600 * MI)
"""Bytes of /dev/shm in use per worker: rings are sparse, NCCL uses some (assumed)."""


def used(running: Processes) -> Estimate:
    """Bytes of /dev/shm that are in use while vLLM serves, without offloaded KV cache; zeros without workers."""
    if not running.workers:
        return NOTHING
    workers, each = running.workers, USED_BY_WORKER
    return Estimate(0, each.low * workers, each.likely * workers, each.high * workers, "pages of rings and NCCL")
