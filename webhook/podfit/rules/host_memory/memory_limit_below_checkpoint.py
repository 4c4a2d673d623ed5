from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human, quantity
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule

SMALLEST_SHARE = 0.9
"""A limit that holds this share of the checkpoint is not reported: little is read again (podfit's choice)."""


class MemoryLimitBelowCheckpoint(Rule):
    """The host memory limit is below the checkpoint's size, so loading is slow.

    Memory-mapped safetensors are page cache, which counts against `resources.limits.memory` and is given back under
    pressure. vLLM starts and runs below the checkpoint's size. But each rank reads the files again, and a probe may run
    out before they are loaded. A limit that vLLM itself does not fit is `memory-limit-too-low`.
    """

    plane = "host"
    event = "the weights are read from the disk more than once, and the start is slower"
    threatens = "practice"
    never_denies = "vLLM runs with less, and only its start is slower"
    needs = ("plan.host",)
    mute_for = ("memory-limit",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Possible, and advice: a faster start may be worth less than the memory. None if vLLM itself does not fit, if
        the size of the weights is in doubt, and for an engine over several Pods."""
        limit, host, weights = engine.memory_limit, engine.plan.host, engine.plan.checkpoint
        if limit is None or host is None or weights is None or memory_sizes.elsewhere(engine):
            return
        if not host.need.likely <= limit < SMALLEST_SHARE * weights or engine.weights_doubtful:
            return
        yield Finding(
            path=engine.memory_at,
            message=f"limit {memory_sizes.written(engine, engine.memory_at, limit)} is below the checkpoint's "
            f"{human(weights)}: loading is slow",
            details=(
                "memory-mapped weights are page cache and give way, "
                + ("but every rank reads the files again" if host.ranks > 1 else "under pressure all along"),
            ),
            certainty="possible",
            advice=True,
            suggestions=(f"resources.limits.memory: {quantity(memory_sizes.advised_limit(engine) or 0)}",),
        )
