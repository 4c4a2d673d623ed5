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
    number = release or newest_read()
    if model is None:
        return None
    resolved = settings.resolve(args, model, None, 0, number, env).settings
    checkpoint = weights.checkpoint(model, resolved)
    if checkpoint is None:
        return None
    ranks = max(1, resolved.parallel.tp * resolved.parallel.pp)
    size, spread = checkpoint.total, checkpoint.doubt.spread * checkpoint.total
    low = int(size - spread)
    loaded = Estimate(
        floor=min(low, int(checkpoint.doubt.least * (size - checkpoint.vision))) if certain else 0,
        low=low,
        likely=int(size),
        high=int(size + spread + 0.1 * size),  # kernels repack a part of the weights
        note=f"over {ranks} ranks, in host memory" if ranks > 1 else "in host memory",
        source=SOURCE,
    )
    lines = [(name, line) for name, line in hosted.lines if name in CPU_LINES]
    lines += [("weights", loaded), ("KV cache", kv_cache(args, env, ranks, release))]
    steady = _sum([line for name, line in lines if name != "compilers"], "while serving")
    loading = _sum([line for name, line in lines if name not in ("KV cache", "requests")], "while loading")
    peak = loading if loading.likely > steady.likely else steady
    if release is None:  # the processes depend on the release
        steady, peak = steady._replace(floor=loaded.floor), peak._replace(floor=loaded.floor)
    floor, low, likely, high = map(max, peak[:4], steady[:4])
    need = Estimate(floor, low, likely, high)
    unknown = Estimate(0, 0, 0, 0)  # NCCL's figures for /dev/shm and cores do not apply to ranks on processors
    return hosted._replace(
        lines=tuple((name, line) for name, line in lines if line.high), steady=steady, peak=peak, need=need,
        shm=unknown, in_shm=0, busy=0, offloaded=NOTHING,
    )  # fmt: skip


def kv_cache(args: EngineArgs, env: Mapping[str, str], ranks: int, release: Release | None) -> Estimate:
    """The KV cache of all ranks, full: the given size, else this release's default if it does not depend on the
    node."""
    given = env.get(SPACE, "").strip()
    space = float(given) if given.isdecimal() and int(given) < 1 << 20 else 0.0
    value = args.given.get("kv_cache_memory_bytes")
    if not space and isinstance(value, int) and value > 0 and (release is None or release >= UTILIZATION_SINCE):
        return Estimate(0, 0, value * ranks, value * ranks, "--kv-cache-memory-bytes", SOURCE)
    if not space and (release is None or release >= SHARE_SINCE):
        share = "half" if release and release < UTILIZATION_SINCE else "--gpu-memory-utilization"
        text = "a NUMA node's memory, whatever the container's limit"
        if release is None or release >= LIMITED_SINCE:
            text = "the container's limit or a NUMA node's memory"
        return Estimate(0, 0, 0, 0, f"{SPACE} is not set: {share} of {text}", SOURCE)
    size = int((space or 4) * GI) * ranks
    return Estimate(0, 0, size, size, f"{SPACE}={given}" if space else f"{SPACE} is not set: 4 GiB", SOURCE)


def _sum(lines: list[Estimate], note: str) -> Estimate:
    """The sum of estimates, bound by bound."""
    floor, low, likely, high = (
        sum(getattr(line, part) for line in lines) for part in ("floor", "low", "likely", "high")
    )
    return Estimate(floor, low, likely, high, note, SOURCE)
