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


def needed_bytes(
    args: EngineArgs, cut: Parallel, running: Processes, release: Release, env: Mapping[str, str], kv_in_shm: int
) -> Estimate:
    """Bytes that must be free. With less than `floor`, this release does not start.

    Rings between an engine and its workers: 10 chunks of VLLM_MQ_MAX_CHUNK_BYTES_MB (16) to them, 240 MiB back from
    each, both sparse. 0.33 checks for free space when it creates each ring. With 64 MiB it fails at the first, with 200
    MiB at the second, with 256 MiB it starts (measured). KV offload fills its part at start, after the rings.
    """
    ranks = cut.world_size
    other = _cache(args) + (ARENA * running.engines if args.given.get("enable_shm_tensor_arena") else 0)
    known = args.release is not None
    if not _has_rings(cut, running):
        need = kv_in_shm + other + (BESIDES_KV if kv_in_shm else 0)
        return Estimate(kv_in_shm if known else 0, need, need, max(need, 64 * MI), "one process a GPU: no rings")
    rings = checked_bytes(args, cut, running, release, env) if known else 0
    gpus = ranks * cut.dp_local
    expert_parallel = 8 * GI if cut.dp > 1 and cut.expert and gpus >= 8 else 0
    likely = max(2 * GI, GI + gpus * GI // 2, expert_parallel) + kv_in_shm + other
    low = 256 * MI + kv_in_shm + other
    return Estimate(
        max(rings, kv_in_shm if known else 0),
        low,
        likely,
        max(2 * likely, 8 * GI),
        f"rings of {gpus} GPUs and NCCL",
        "vLLM 0.33 distributed/device_communicators/shm_broadcast.py",
    )


def checked_bytes(args: EngineArgs, cut: Parallel, running: Processes, release: Release, env: Mapping[str, str]) -> int:
    """Bytes of the rings, for which the release checks that they are free; 0 if it checks nothing."""
    backend = args.given.get("distributed_executor_backend")
    if release < SHM_CHECK_SINCE or backend in ("ray", "external_launcher", "uni") or not _has_rings(cut, running):
        return 0
    chunk = env.get("VLLM_MQ_MAX_CHUNK_BYTES_MB", "")
    ring = 10 * (int(chunk) if chunk.isascii() and chunk.isdigit() and len(chunk) < 6 else 16) * MI
    return max(ring, 240 * MI)


def _has_rings(cut: Parallel, running: Processes) -> bool:
    """True if the engine's processes pass messages through ring buffers in /dev/shm."""
    return cut.world_size > 1 or (cut.dp > 1 and (running.workers > 0 or cut.dp_local > 1))


def _cache(args: EngineArgs) -> int:
    """`--mm-processor-cache-type shm`: one segment of mm-processor-cache-gb (4 GiB)."""
    if args.given.get("mm_processor_cache_type") != "shm":
        return 0
    return gib(args.given.get("mm_processor_cache_gb"), 4)


def used(running: Processes) -> Estimate:
    """Bytes that are really in use there, without offloaded KV: rings are sparse, NCCL uses some."""
    if not running.workers:
        return NOTHING
    each = running.workers
    return Estimate(0, 10 * MI * each, 100 * MI * each, 600 * MI * each, "pages of rings and NCCL")
