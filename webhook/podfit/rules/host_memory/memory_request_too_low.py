from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.patch import Edit
from podfit.kube.quantity import human, quantity, try_parse
from podfit.rules import _shortage, memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, lines

SMALLEST_SHARE = 0.8
"""Share of the likely need. The estimate is not so exact that a request nearer to it is worth a finding."""


class MemoryRequestTooLow(Rule):
    """The memory request is below what vLLM needs, so the node may have less.

    The scheduler places Pods by their requests. If vLLM needs more than its request, the node may have promised the
    rest to other Pods. When several replicas load at once after a scale-up, the node runs out of memory: the kubelet
    evicts the Pods that are furthest above their requests,

        The node was low on resource: memory. Container vllm was using 14Gi, request is 4Gi

    or the kernel kills processes. Request what vLLM needs at its peak; the limit may be higher.
    """

    plane = "host"
    event = "the Pod may be evicted if the node runs out of memory"
    of_vllm = False
    threatens = "practice"
    never_denies = "nothing happens if the node has spare memory"
    needs = ("plan.host",)
    mute_for = ("resources",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely or possible, by the range of the need. Reports nothing without a request: then the limit is the
        request, or another rule reports that it is missing. It also reports nothing if the limit is too low as well."""
        host = engine.plan.host
        request = try_parse(engine.field("resources", "requests", "memory"))
        if host is None or request is None or memory_sizes.elsewhere(engine):
            return
        needed, limit = host.need, engine.memory_limit
        if request >= SMALLEST_SHARE * needed.likely or (limit is not None and limit < needed.likely):
            return
        probability = memory_sizes.probability_above(needed, request)
        advice = memory_sizes.advised_request(engine) or 0
        written = memory_sizes.written(engine, memory_sizes.request_at(engine), request)
        yield Finding(
            path=memory_sizes.request_at(engine),
            message=f"request {written}: vLLM needs about {human(needed.likely)} of host memory",
            details=lines(_shortage.sentence(probability), *memory_sizes.parts(host)),
            certainty="likely" if probability >= _shortage.LIKELY else "possible",
            suggestions=(f"resources.requests.memory: {quantity(advice)}",),
            fix=_fix(engine, advice),
        )


def _fix(engine: Engine, size: int) -> tuple[Edit, ...]:
    """The edit that sets the request to `size` bytes; none if the ledger may not be this container's, or an operator
    makes the container."""
    if not memory_sizes.computable(engine) or not memory_sizes.writable(engine):
        return ()
    return (Edit(memory_sizes.request_at(engine), quantity(size)),)
