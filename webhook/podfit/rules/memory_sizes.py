"""Helpers of the rules about host memory: the need, which argument asks for it, the limit that would be enough."""

from __future__ import annotations

from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.kube.quantity import GI, MI, human, quantity, try_parse
from podfit.kube.workload.kserve_runtime import RUNTIMES
from podfit.rules import _shortage
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.host import MODEL_FREE, TMPFS_WEIGHTS
from podfit.vllm.memory.ledger import HostLedger

SMALLEST_SIZE = MI
"""No container, cache or volume of a vLLM Pod is meant to be smaller."""
ROUNDING_STEPS = ((16, 1), (64, 4), (256, 8))
"""Up to so many GiB, people write multiples of so many."""


def rounded(size: int) -> int:
    """The next size that a person would write: 13Gi, 24Gi, 72Gi, 160Gi."""
    step = next((step for most, step in ROUNDING_STEPS if size <= most * GI), 16)
    return -(-size // (step * GI)) * step * GI


def written(engine: Engine, path: FieldPath, size: int) -> str:
    """A quantity as its author wrote it."""
    there = path.get(engine.workload.object)
    return str(there) if isinstance(there, str | int) and try_parse(there) == size else quantity(size)


def offload_is_to_blame(engine: Engine) -> bool:
    """True if the limit would be enough without what is offloaded."""
    host, limit = engine.plan.host, engine.memory_limit
    if host is None or limit is None:
        return False
    moved = host.offloaded.likely
    return moved > 0 and limit < host.need.likely <= limit + moved


def certainty(engine: Engine, needed: Estimate) -> Certainty:
    """Certain below the minimum, else likely or possible by the range of the need.

    A limit below the minimum is only likely too low on devices that share their memory with the host: it is not certain
    which of the two memories is charged. The limit of a ServingRuntime is a default that each service may replace."""
    if engine.workload.kind in RUNTIMES:
        return "possible"
    limit, host = engine.memory_limit or 0, engine.plan.host
    floor = needed.floor
    if host is not None and engine.vendor == "amd":
        floor -= host.offloaded.floor  # pinned memory is the driver's there (GTT), charged to no memory cgroup
    unified = engine.gpu is not None and any(gpu.unified_memory for gpu in engine.gpu.value.gpus)
    if limit < floor and not unified:
        return "certain"
    return _shortage.certainty(probability_above(needed, limit)) or "possible"


def probability_above(needed: Estimate, size: int) -> float:
    """The probability that more than `size` bytes of host memory are needed."""
    return 1 - needed.share_below(size)


def rests_on(limit: int, host: HostLedger) -> tuple[str, ...] | None:
    """Nothing if the limit is below what the arguments alone ask for, whatever the model; else the ledger."""
    least = sum(line.floor for name, line in host.lines if name in MODEL_FREE)
    return () if limit < min(least, host.need.floor) else None


def parts(host: HostLedger) -> tuple[str, ...]:
    """The ledger's lines, for people."""
    return tuple(
        f"{name}: {human(line.likely)}{f' ({line.note})' if line.note else ''}"
        for name, line in host.lines
        if line.likely
    )


def advised_limit(engine: Engine) -> int | None:
    """The memory limit to suggest, in bytes, rounded to a number that is easy to write. None if host memory is not
    planned.

    It is the larger of two values: the high estimate, and the likely need with room for the checkpoint in the page
    cache (on tmpfs the ledger includes it already)."""
    host = engine.plan.host
    if host is None:
        return None
    return rounded(max(host.need.high, in_cache(engine) + host.need.likely))


def in_cache(engine: Engine) -> int:
    """Bytes of the checkpoint for which the advised limit has room in the page cache. 0 if its size is unknown or in
    doubt, and on tmpfs, where the ledger has the files."""
    host = engine.plan.host
    if host is None or TMPFS_WEIGHTS in dict(host.lines) or engine.weights_doubtful:
        return 0
    return engine.plan.checkpoint or 0


def cached(engine: Engine) -> str | None:
    """A detail about the page cache that the advised limit includes; None if the checkpoint's size is unknown."""
    size = engine.plan.checkpoint
    return f"the advised limit has room for the {human(size)} checkpoint in the page cache, too" if size else None


def advised_request(engine: Engine) -> int | None:
    """Bytes to request: the likely peak, at most the limit; None if unknown."""
    host = engine.plan.host
    if host is None:
        return None
    request = rounded(host.need.likely)
    return request if engine.memory_limit is None else min(request, engine.memory_limit)


def computable(engine: Engine) -> bool:
    """True if the ledger is this container's: a fix may rest on it."""
    model = engine.model
    known = model is not None and not model.value.is_minimum
    return known and engine.command.entry != "worker" and not engine.spans_pods and not engine.doubt


def elsewhere(engine: Engine) -> bool:
    """True if it is unknown which of the engine's processes run in this container: it joins a leader, or spans Pods."""
    return engine.command.entry == "worker" or engine.spans_pods


def writable(engine: Engine) -> bool:
    """True if `resources` of the container are in the object, or may."""
    return not engine.container.synthetic or "resources" in engine.container.places


def request_at(engine: Engine) -> FieldPath:
    """Where the container's memory request is."""
    return engine.at("resources", "requests", "memory")


MOST_ON_A_GUESS = 3
"""A limit is not raised to so many times its value if the model or the release is a guess: it is only suggested."""


def is_guess(engine: Engine) -> bool:
    """True if the model or the release is unknown, or a guess that only informs."""
    return engine.model is None or not engine.model.may_deny or engine.release is None


def raise_limit(engine: Engine, size: int) -> tuple[Edit, ...]:
    """Edits that raise the container's own limit, and with it a request below the likely need; the Pod's limit is
    shared with what is not known here."""
    where, host = engine.at("resources", "limits", "memory"), engine.plan.host
    if host is None or where != engine.memory_at or not computable(engine) or not writable(engine):
        return ()
    if is_guess(engine) and size >= MOST_ON_A_GUESS * (engine.memory_limit or size):
        return ()
    request, need = try_parse(engine.field("resources", "requests", "memory")), host.need.likely
    raised = (Edit(request_at(engine), quantity(min(rounded(need), size))),)
    return (Edit(where, quantity(size)), *(raised if request is not None and request < need else ()))
