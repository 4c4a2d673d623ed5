"""vLLM's CPU backend: the weights and the KV cache are host memory, and there is no GPU to plan.

vLLM 0.33 platforms/cpu.py, v1/worker/cpu_worker.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from podfit.kube.quantity import GI
from podfit.vllm.args import EngineArgs
from podfit.vllm.memory import settings, weights
from podfit.vllm.memory.estimate import NOTHING, Estimate
from podfit.vllm.memory.ledger import HostLedger
from podfit.vllm.model import Model
from podfit.vllm.release import Release, newest_read

SOURCE = "vLLM 0.33 platforms/cpu.py, v1/worker/cpu_worker.py"
SPACE = "VLLM_CPU_KVCACHE_SPACE"
"""Variable with the GiB of KV cache per rank."""
SHARE_SINCE = Release(0, 11, 1)
"""If the variable is not set, releases from this one on take a share of a NUMA node's memory. In 0.13.0 that is half of
the node. Up to 0.11.0, the size is 4 GiB (platforms/cpu.py)."""
UTILIZATION_SINCE = Release(0, 20)
"""From this release on, the share is `--gpu-memory-utilization` of the node's memory, less the process's own memory at
that time. `--kv-cache-memory-bytes` sets the size, too (v1/worker/cpu_worker.py)."""
LIMITED_SINCE = Release(0, 24)
"""From this release on, at the latest, the container's limit replaces the node's memory if it is less
(utils/cpu_resource_utils.py; not yet in 0.20.2)."""
CPU_LINES = ("processes", "requests", "compilers", "weights in a memory volume", "caches")
"""Lines of the host ledger that also apply to processors."""


def exceeds_limits(args: EngineArgs, env: Mapping[str, str], release: Release) -> bool:
    """True if the KV cache is sized by the node's memory, so that it may grow beyond any limit of the container."""
    return SHARE_SINCE <= release < LIMITED_SINCE and not kv_cache(args, env, 1, release).likely


def ledger(
    hosted: HostLedger,
    args: EngineArgs,
    model: Model | None,
    release: Release | None,
    env: Mapping[str, str],
    *,
    certain: bool,
) -> HostLedger | None:
    """The host ledger of an engine on processors; None if the model's size is unknown.

    Only the weights are certain, and only if the model is (`certain`). The KV cache is zeroed memory, which the kernel
    provides only as it is written.
    """
    if model is None:
        return None
    resolved = settings.resolve(args, model, None, 0, release or newest_read(), env).settings
    checkpoint = weights.checkpoint(model, resolved)
    if checkpoint is None:
        return None
    ranks = max(1, resolved.parallel.tp * resolved.parallel.pp)
    loaded = _weights(checkpoint, ranks, certain=certain)
    lines = [(name, line) for name, line in hosted.lines if name in CPU_LINES]
    lines += [("weights", loaded), ("KV cache", kv_cache(args, env, ranks, release))]
    steady = _sum([line for name, line in lines if name != "compilers"], "while serving")
    loading = _sum([line for name, line in lines if name not in ("KV cache", "requests")], "while loading")
    peak = loading if loading.likely > steady.likely else steady
    if release is None:  # the processes depend on the release
        steady, peak = steady._replace(floor=loaded.floor), peak._replace(floor=loaded.floor)
    need = Estimate(
        floor=max(peak.floor, steady.floor),
        low=max(peak.low, steady.low),
        likely=max(peak.likely, steady.likely),
        high=max(peak.high, steady.high),
    )
    unknown = Estimate(0, 0, 0, 0)  # NCCL's figures for /dev/shm and cores do not apply to ranks on processors
    return hosted._replace(
        lines=tuple((name, line) for name, line in lines if line.high), steady=steady, peak=peak, need=need,
        shm=unknown, in_shm=0, busy=0, offloaded=NOTHING,
    )  # fmt: skip


REPACKED = 0.1
"""Share of the weights that kernels for processors repack, at most (assumed)."""


def _weights(checkpoint: weights.Checkpoint, ranks: int, *, certain: bool) -> Estimate:
    """Bytes of the weights of all ranks in host memory. The floor is 0 unless the model is `certain`; a vision tower is
    not in it."""
    size, spread = checkpoint.total, checkpoint.doubt.spread * checkpoint.total
    low = int(size - spread)
    return Estimate(
        floor=min(low, int(checkpoint.doubt.least * (size - checkpoint.vision))) if certain else 0,
        low=low,
        likely=int(size),
        high=int(size + spread + REPACKED * size),
        note=f"over {ranks} ranks, in host memory" if ranks > 1 else "in host memory",
        source=SOURCE,
    )


USUAL_SPACE = 4
"""The size of the KV cache per rank, in GiB, up to 0.11.0 if no size is set."""
MOST_SPACE = 1 << 20
"""GiB from which on a size is taken for a mistake, and counts as not set."""


def kv_cache(args: EngineArgs, env: Mapping[str, str], ranks: int, release: Release | None) -> Estimate:
    """Bytes of the KV cache of all ranks, full: the size that the variable or the argument sets, else this release's
    default. Zeros if the default depends on the node. `release` None: unknown, which is taken for a new one."""
    text = env.get(SPACE, "").strip()
    space = int(text) if text.isdecimal() and int(text) < MOST_SPACE else 0
    if space:
        size = space * GI * ranks
        return Estimate(0, 0, size, size, f"{SPACE}={text}", SOURCE)
    value = args.given.get("kv_cache_memory_bytes")
    if isinstance(value, int) and value > 0 and (release is None or release >= UTILIZATION_SINCE):
        return Estimate(0, 0, value * ranks, value * ranks, "--kv-cache-memory-bytes", SOURCE)
    if release is not None and release < SHARE_SINCE:
        size = USUAL_SPACE * GI * ranks
        return Estimate(0, 0, size, size, f"{SPACE} is not set: {USUAL_SPACE} GiB", SOURCE)
    share = "half" if release and release < UTILIZATION_SINCE else "--gpu-memory-utilization"
    memory = "a NUMA node's memory, whatever the container's limit"
    if release is None or release >= LIMITED_SINCE:
        memory = "the container's limit or a NUMA node's memory"
    return Estimate(0, 0, 0, 0, f"{SPACE} is not set: {share} of {memory}", SOURCE)


def _sum(lines: list[Estimate], note: str) -> Estimate:
    """The sum of estimates, bound by bound; zeros for none. `note`: that of the sum."""
    return Estimate(
        floor=sum([line.floor for line in lines]),
        low=sum([line.low for line in lines]),
        likely=sum([line.likely for line in lines]),
        high=sum([line.high for line in lines]),
        note=note,
        source=SOURCE,
    )
