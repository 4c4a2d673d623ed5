from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.memory import cpu


class CpuKvCacheUnbounded(Rule):
    """vLLM's CPU backend sizes its KV cache by the node's memory, not by the container's limit.

    Without VLLM_CPU_KVCACHE_SPACE (GiB for each rank) releases after 0.11.0 take half of a NUMA node's memory, from
    0.20 `--gpu-memory-utilization` (0.92) of it. These releases read the node's memory from /sys, which ignores
    cgroups, so the cache may be larger than the container's limit. As requests fill it, the kernel kills vLLM
    (`OOMKilled`). From 0.24 on vLLM reads the container's limit.
    """

    plane = "host"
    event = "the kernel kills a process (OOMKilled)"
    threatens = "uptime"
    never_denies = "a node with no more memory than the container's limit works"
    needs = ("release", "vllm_args")
    mute_for = ("memory-limit",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: a node with no more memory than the container's limit works. None on GPUs, without a known limit and
        release, and if VLLM_CPU_KVCACHE_SPACE or the release bounds the cache."""
        if not engine.on_processors or cpu.SPACE in engine.args.unresolved:
            return
        limit, release = engine.memory_limit, engine.release
        if limit is None or release is None:
            return
        if cpu.exceeds_limits(engine.args, engine.command.env, release):
            text = cpu.kv_cache(engine.args, engine.command.env, 1, release).note
            yield Finding(
                path=engine.at("env"),
                certainty="likely",
                message=f"{text}. On a node with more memory than the limit of {human(limit)}, requests fill it until "
                "the kernel kills vLLM",
                suggestions=(f"{cpu.SPACE}, in GiB: what the limit leaves after the weights", "vLLM 0.24 or newer"),
            )
