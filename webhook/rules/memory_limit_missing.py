"""Rule memory-limit-missing."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.patch import Edit
from webhook.quantity import human, quantity, try_parse
from webhook.rule import Finding, Rule
from webhook.rules._memory import advised_limit


class MemoryLimitMissing(Rule):
    """The container has no host memory limit.

    Without `resources.limits.memory` a leak, a burst of multimodal requests or a /dev/shm without size takes memory
    from every Pod on the node, and the kernel kills whichever process it likes, not the one at fault. Host memory is
    not GPU memory: it holds the processes, pinned buffers, offloaded weights and what is in /dev/shm. Memory-mapped
    weights are page cache and give way.
    """

    plane = "host"
    threatens = "uptime"
    mode = "warn"
    mute_for = ("memory-limit", "resources")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for a Pod; likely for a workload, whose Pods a LimitRange may give a default."""
        if engine.memory_limit is not None or not _absent(engine):
            return
        host = engine.plan.host
        advice = advised_limit(engine)
        yield Finding(
            path=engine.at("resources", "limits", "memory"),
            message="no host memory limit"
            + (f"; vLLM needs about {human(host.peak.likely)} (up to {human(host.peak.high)})" if host else ""),
            certainty="certain" if engine.workload.kind == "Pod" else "likely",
            suggestions=(f"resources.limits.memory: {quantity(advice)}",) if advice else (),
            fix=_fix(engine, advice),
        )


def _absent(engine: Engine) -> bool:
    """No limit at all, rather than one that can't be read."""
    return engine.field("resources", "limits", "memory") is None and engine.pod("resources", "limits", "memory") is None


def _fix(engine: Engine, advice: int | None) -> tuple[Edit, ...]:
    """Adds the limit, where the request (if any) is below it: a limit under its request is invalid."""
    if advice is None or (engine.container.synthetic and "resources" not in engine.container.places):
        return ()
    request = try_parse(engine.field("resources", "requests", "memory"))
    return (Edit(engine.at("resources", "limits", "memory"), quantity(max(advice, request or 0))),)
