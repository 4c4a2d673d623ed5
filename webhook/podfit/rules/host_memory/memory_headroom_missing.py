from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human, quantity, try_parse
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class MemoryHeadroomMissing(Rule):
    """The memory limit equals the request and leaves no room for spikes.

    Equal requests and limits are the habit of CPU services, and they have a use: the Pod is of QoS class Guaranteed,
    the last to be evicted. But then the one number has to hold the highest peak, not the usual need: loading, long
    prompts, images and videos in flight, and the multimodal cache come on top. A spike above the limit is `OOMKilled`.
    Raise both to the high estimate, or leave the request at the likely need and raise the limit above it.
    """

    plane = "host"
    event = "a spike may be OOMKilled"
    threatens = "practice"
    never_denies = "the limit is between the likely and the high estimate"
    needs = ("plan.host", "model")
    mute_for = ("memory-limit", "resources")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Possible: the limit is between the likely and the high estimate, and the request says that it is all. None if
        limit and request differ, or if the engine is not only in this container."""
        limit, host = engine.memory_limit, engine.plan.host
        given = try_parse(engine.field("resources", "requests", "memory"))
        if limit is None or host is None or given != limit or memory_sizes.elsewhere(engine):
            return
        needed = host.need
        if not max(needed.likely, engine.plan.checkpoint or 0) <= limit < needed.high:
            return  # a lower limit is that of memory-limit-too-low or memory-limit-below-checkpoint
        advice = memory_sizes.advised_limit(engine) or 0
        yield Finding(
            path=engine.memory_at,
            message=f"limit = request = {memory_sizes.written(engine, engine.memory_at, limit)}: vLLM needs about "
            f"{human(needed.likely)}, in spikes up to {human(needed.high)}",
            details=memory_sizes.parts(host),
            certainty="possible",
            suggestions=(f"resources.limits.memory: {quantity(advice)}, with or without the request",),
            fix=memory_sizes.raise_limit(engine, advice),
        )
