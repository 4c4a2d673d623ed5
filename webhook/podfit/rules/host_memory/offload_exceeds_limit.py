from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human, quantity
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, lines
from podfit.vllm.memory.host import OFFLOAD
from podfit.vllm.memory.ledger import HostLedger


class OffloadExceedsLimit(Rule):
    """The memory offloaded to the host does not fit the memory limit.

    `--cpu-offload-gb`, `--kv-offloading-size`, an OffloadingConnector, LMCache and (before v0.8) `--swap-space` move
    memory from the GPU to the host, once per GPU. This host memory is pinned, so the kernel can't take it back, and the
    container is `OOMKilled` while it starts. For example, `--cpu-offload-gb 8` can't work with a memory limit of 8Gi:
    the offloaded weights alone fill the limit. Pinned buffers may take up to twice their size, since each allocation is
    rounded up to a power of two.
    """

    plane = "host"
    event = "the kernel kills a process (OOMKilled), or vLLM exits"
    mode = "deny"
    needs = ("plan.host",)
    mute_for = ("memory-limit",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if the certain minimum of the offloaded memory and the processes exceeds the limit; else by the range
        of the need. None if the limit would not be enough without offloading either."""
        limit, host = engine.memory_limit, engine.plan.host
        if limit is None or host is None or not memory_sizes.offload_is_to_blame(engine):
            return
        needed, moved = host.need, host.offloaded
        advice = memory_sizes.advised_limit(engine) or 0
        spare = limit - (needed.high - moved.high)  # bytes for what is offloaded, if the rest takes the most
        yield Finding(
            path=engine.memory_at,
            message=f"limit {memory_sizes.written(engine, engine.memory_at, limit)}: {human(moved.low)} are offloaded "
            f"to the host, and vLLM needs {human(needed.likely - moved.likely)} besides",
            details=(*_offloaded_lines(host), _sum(engine, host, advice)),
            certainty=memory_sizes.certainty(engine, needed),
            rests_on=memory_sizes.rests_on(limit, host),
            suggestions=lines(
                f"resources.limits.memory: {quantity(advice)}",
                f"offload no more than {human(spare / PINNED_FACTOR)}" if spare > 0 else None,
            ),
            fix=memory_sizes.raise_limit(engine, advice),
        )


PINNED_FACTOR = 2
"""A pinned buffer may take so many times its size: each allocation is rounded up to a power of two."""


def _offloaded_lines(host: HostLedger) -> list[str]:
    """The ledger's lines of offloaded memory, for people, without the rounding of pinned buffers."""
    return [
        f"{name}: {human(line.low)}{f' ({line.note})' if line.note else ''}"
        for name, line in host.lines
        if name in OFFLOAD
    ]


def _sum(engine: Engine, host: HostLedger, advice: int) -> str:
    """The sum in words that `memory_sizes.advised_limit` rounds up to `advice` bytes: of the high estimates, or of the
    likely ones and the page cache, whichever is larger."""
    needed, moved, cached = host.need, host.offloaded, memory_sizes.in_cache(engine)
    by_cache = cached + needed.likely >= needed.high
    if by_cache:
        offloaded, total, most = moved.likely, needed.likely, ""
    else:
        offloaded, total, most = moved.high, needed.high, "up to "
    pinned = " (a pinned allocation takes a power of two)" if offloaded > moved.low else ""
    parts = lines(
        f"{most}{human(offloaded)} for what is offloaded{pinned}",
        f"{most}{human(total - offloaded)} besides",
        f"{human(cached)} of page cache for the checkpoint" if by_cache and cached else None,
    )
    return f"{quantity(advice)}: {', '.join(parts)}, rounded up"
