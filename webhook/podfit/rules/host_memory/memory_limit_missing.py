from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.patch import Edit
from podfit.kube.quantity import human, quantity, try_parse
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, lines
from podfit.vllm.memory.estimate import Estimate

EVICTED = "the scheduler reserves none of it, and the kubelet evicts the Pod first if the node runs short"
"""The effects of a missing memory request."""


class MemoryLimitMissing(Rule):
    """The container has no host memory limit.

    Without `resources.limits.memory` a leak, a burst of multimodal requests or an unbounded /dev/shm takes memory from
    every Pod on the node. The kernel may then kill a process that is not at fault. Without a request, the scheduler
    reserves no memory, and the kubelet evicts the Pod before others when the node's memory runs short.

    Host memory is not GPU memory: it holds the processes, pinned buffers, offloaded weights and the contents of
    /dev/shm. Memory-mapped weights are page cache, which the kernel can take back.

    If the memory request covers the likely need, the scheduler keeps that memory free on the node, and the finding is
    only audited.
    """

    plane = "host"
    event = "the container may take memory from other Pods"
    of_vllm = False
    threatens = "practice"
    partly_denies = "for a workload, since a LimitRange of the namespace may set a limit for its Pods"
    mute_for = ("memory-limit", "resources")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for a Pod; likely for a workload, to whose Pods a LimitRange may give a limit. Advice if the need is
        unknown, or a request covers it."""
        if engine.memory_limit is not None or not _is_absent(engine) or engine.command.entry == "worker":
            return
        host = None if engine.spans_pods else engine.plan.host
        advice = memory_sizes.advised_limit(engine) if host else None
        needed = host.need if host else None
        yield Finding(
            path=engine.at("resources", "limits", "memory"),
            message=f"no host memory {'limit' if _has_request(engine) else 'request or limit'}"
            + (f"; vLLM needs about {human(needed.likely)} (up to {human(needed.high)})" if needed else ""),
            details=_details(engine, needed, advice),
            certainty="certain" if engine.workload.kind == "Pod" else "likely",
            advice=needed is None or _is_reserved(engine, needed.likely),
            suggestions=(f"resources.limits.memory: {quantity(advice)}",) if advice else (),
            fix=_fix(engine, advice),
        )


def _details(engine: Engine, needed: Estimate | None, advice: int | None) -> tuple[str, ...]:
    """The effects of a missing request, the page cache in the advised limit, and the LimitRange of a workload.

    `needed`: host memory, None if unknown; `advice`: the advised limit in bytes, None if there is none."""
    includes_cache = advice and needed and advice > memory_sizes.rounded(needed.high)
    return lines(
        EVICTED if needed is not None and not _has_request(engine) else None,
        memory_sizes.cached(engine) if includes_cache else None,
        None if engine.workload.kind == "Pod" else "a LimitRange of the namespace may set one for its Pods",
    )


def _is_absent(engine: Engine) -> bool:
    """True if neither the container nor its Pod has a limit; False for one that can't be read."""
    own, shared = engine.field("resources", "limits", "memory"), engine.pod("resources", "limits", "memory")
    return own is None and shared is None


def _has_request(engine: Engine) -> bool:
    """True if the container or its Pod has a memory request, of any size."""
    own, shared = engine.field("resources", "requests", "memory"), engine.pod("resources", "requests", "memory")
    return own is not None or shared is not None


def _is_reserved(engine: Engine, size: int) -> bool:
    """True if the container, or its Pod, requests at least `size` bytes of memory."""
    requests = (engine.field("resources", "requests", "memory"), engine.pod("resources", "requests", "memory"))
    return any((try_parse(request) or 0) >= size for request in requests)


def _fix(engine: Engine, advice: int | None) -> tuple[Edit, ...]:
    """Edits that add the limit of `advice` bytes, or of the request if that is higher: a lower limit is invalid.

    Without a request they add one too, since Kubernetes would reserve the whole limit. None without advice."""
    if advice is None or not memory_sizes.computable(engine) or not memory_sizes.writable(engine):
        return ()
    given = engine.field("resources", "requests", "memory")
    edits = [Edit(engine.at("resources", "limits", "memory"), quantity(max(advice, try_parse(given) or 0)))]
    request = memory_sizes.advised_request(engine)
    if given is None and request is not None:
        edits.append(Edit(memory_sizes.request_at(engine), quantity(request)))
    return tuple(edits)
