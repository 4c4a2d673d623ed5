from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import MI, human, quantity
from podfit.rules import _shortage, memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, lines


class MemoryLimitTooLow(Rule):
    """The host memory limit is below what vLLM needs.

    A container above `resources.limits.memory` is killed by the kernel: `OOMKilled`, exit code 137, usually while it
    loads. That is host memory: `--gpu-memory-utilization` does not help. The kernel can't reclaim these parts:

    - the processes (one per GPU and two more)
    - pinned buffers (`--cpu-offload-gb`, `--kv-offloading-size`, before v0.8 `--swap-space`)
    - whole files in eager and multi-threaded loading
    - the contents of /dev/shm

    Memory-mapped safetensors are page cache, which it can reclaim, so a limit below the checkpoint's size does not kill
    the container (`memory-limit-below-checkpoint`).

    The effective limit is the smaller one of the container's and of the Pod's (`spec.resources`, which sidecars and
    memory volumes share). On nodes with swap (the kubelet's LimitedSwap) a container that requests less than its limit
    may be swapped out instead; no manifest shows it. If the container would fit without offloading, see
    `offload-exceeds-limit`.
    """

    plane = "host"
    event = "the kernel kills a process (OOMKilled)"
    threatens = "uptime"
    mode = "deny"
    needs = ("plan.host",)
    mute_for = ("memory-limit",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain below the floor, likely or possible below the likely need. None without a limit, for an engine that
        is not only in this container, and if offload-exceeds-limit or quantity-suspicious has the cause."""
        limit, host = engine.memory_limit, engine.plan.host
        if limit is None or host is None or memory_sizes.elsewhere(engine) or memory_sizes.offload_is_to_blame(engine):
            return
        if limit < memory_sizes.SMALLEST_SIZE:
            return  # a mistaken unit, which quantity-suspicious reports
        needed = host.need
        if limit < needed.likely:
            advice = memory_sizes.advised_limit(engine) or 0
            floor_text = human(needed.floor)
            if floor_text == human(limit):  # such as 1 GiB for both, though the floor is 1.02 GiB
                floor_text = f"{needed.floor / MI:,.0f} MiB"
            at_least = f"at least {floor_text}, " if needed.floor > 0 else ""
            yield Finding(
                path=engine.memory_at,
                message=f"limit {memory_sizes.written(engine, engine.memory_at, limit)}: vLLM needs about "
                f"{human(needed.likely)} of host memory, {at_least}at most {human(needed.high)}",
                details=lines(
                    _shortage.sentence(memory_sizes.probability_above(needed, limit)), *memory_sizes.parts(host)
                ),
                certainty=memory_sizes.certainty(engine, needed),
                rests_on=memory_sizes.rests_on(limit, host),
                suggestions=(f"resources.limits.memory: {quantity(advice)}",),
                fix=memory_sizes.raise_limit(engine, advice),
            )
