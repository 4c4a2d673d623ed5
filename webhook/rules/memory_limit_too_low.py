"""Rule memory-limit-too-low."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.quantity import human, quantity
from webhook.rule import Finding, Rule
from webhook.rules._memory import advised_limit


class MemoryLimitTooLow(Rule):
    """The host memory limit is below what vLLM needs.

    A container above `resources.limits.memory` is killed by the kernel: `OOMKilled`, exit code 137, usually while it
    loads. That is host memory: `--gpu-memory-utilization` does not help. Unreclaimable are the processes (one a GPU
    and two more), pinned buffers (`--cpu-offload-gb`, `--kv-offloading-size`, before v0.8 `--swap-space`) and what is
    in /dev/shm. Memory-mapped safetensors are not: they are page cache, so a limit below the checkpoint's size alone
    does not kill, but each rank reads the files again and a probe may run out before they are loaded.
    """

    plane = "host"
    threatens = "uptime"
    mode = "deny"
    needs = ("plan.host",)
    mute_for = ("memory-limit",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain below the floor, likely below the likely need, possible below the checkpoint's size."""
        limit, host = engine.memory_limit, engine.plan.host
        if limit is None or host is None:
            return
        unified = engine.gpu is not None and any(gpu.unified_memory for gpu in engine.gpu.value.gpus)
        need = max(host.peak.likely, host.steady.likely)
        advice = f"resources.limits.memory: {quantity(advised_limit(engine) or 0)}"
        where = engine.at("resources", "limits", "memory")
        given = engine.field("resources", "limits", "memory")
        parts = tuple(
            f"{name}: {human(line.likely)} {f'({line.note})' if line.note else ''}"
            for name, line in host.lines
            if line.likely
        )
        if limit < need:
            yield Finding(
                path=where,
                message=f"limit {given}: vLLM needs about {human(need)} of host memory, "
                f"at least {human(host.peak.floor)}, at most {human(max(host.peak.high, host.steady.high))}",
                details=parts,
                certainty="certain" if limit < host.peak.floor and not unified else "likely",
                suggestions=(advice,),
            )
            return
        weights = engine.plan.checkpoint
        if weights is not None and limit < weights:
            yield Finding(
                path=where,
                message=f"limit {given} is below the checkpoint's {human(weights)}: memory-mapped weights are "
                "page cache and give way, but every rank reads the files again and loading gets slow",
                certainty="possible",
                suggestions=(advice,),
            )
