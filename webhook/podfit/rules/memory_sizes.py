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
"""Bytes. No container, cache or volume of a vLLM Pod is meant to be smaller."""
ROUNDING_STEPS = ((16, 1), (64, 4), (256, 8))
"""(GiB, step in GiB): up to this size, people write multiples of the step."""
LARGEST_STEP = 16
"""The step in GiB of larger sizes."""


def rounded(size: int) -> int:
    """The next size in bytes that a person would write: 13Gi, 24Gi, 72Gi, 160Gi."""
    step = next((step for most, step in ROUNDING_STEPS if size <= most * GI), LARGEST_STEP) * GI
    return -(-size // step) * step


def written(engine: Engine, path: FieldPath, size: int) -> str:
    """The quantity of `size` bytes as its author wrote it at `path`, else in its shortest form."""
    value = path.get(engine.workload.object)
    is_same = isinstance(value, str | int) and try_parse(value) == size
    return str(value) if is_same else quantity(size)


def offload_is_to_blame(engine: Engine) -> bool:
    """True if the limit would be enough without what is offloaded, and is not with it. False without a limit, and if
    host memory is not planned."""
    host, limit = engine.plan.host, engine.memory_limit
    if host is None or limit is None:
        return False
    moved = host.offloaded.likely
    return moved > 0 and limit < host.need.likely <= limit + moved


def certainty(engine: Engine, needed: Estimate) -> Certainty:
    """The certainty that the memory limit is below the need: certain below its minimum, else likely or possible by its
    range. A missing limit counts as 0.

    On a device that shares its memory with the host, a limit below the minimum is only likely too low. It is not
    certain which of the two memories is charged."""
    if engine.workload.kind in RUNTIMES:
        return "possible"  # the limit of a runtime is a default that each service may replace
    limit, host = engine.memory_limit or 0, engine.plan.host
    floor = needed.floor
    if host is not None and engine.vendor == "amd":
        floor -= host.offloaded.floor  # pinned memory is the driver's there (GTT), charged to no memory cgroup
    unified = engine.gpu is not None and any(gpu.unified_memory for gpu in engine.gpu.value.gpus)
    if limit < floor and not unified:
        return "certain"
    return _shortage.certainty(probability_above(needed, limit)) or "possible"


def probability_above(needed: Estimate, size: int) -> float:
    """The probability, from 0 to 1, that more than `size` bytes of host memory are needed."""
    return 1 - needed.share_below(size)


def rests_on(limit: int, host: HostLedger) -> tuple[str, ...] | None:
    """`Finding.rests_on` of a limit, in bytes, that is too low: empty if the arguments alone need more, whatever the
    model is; else None, for all facts of the rule."""
    of_arguments = sum(line.floor for name, line in host.lines if name in MODEL_FREE)
    return () if limit < min(of_arguments, host.need.floor) else None


def parts(host: HostLedger) -> tuple[str, ...]:
    """The ledger's lines with their likely sizes, for people, without those of 0 bytes."""
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
    """The memory request to suggest, in bytes: the likely peak, rounded, and at most the limit. None if host memory is
    not planned."""
    host = engine.plan.host
    if host is None:
        return None
    request = rounded(host.need.likely)
    return request if engine.memory_limit is None else min(request, engine.memory_limit)


def computable(engine: Engine) -> bool:
    """True if the ledger is certainly this container's, so that a fix may be based on it. False for an unknown model,
    an engine that is not only in this container, and one that is in doubt (`Engine.doubt`)."""
    model = engine.model
    is_known = model is not None and not model.value.is_minimum
    return is_known and not elsewhere(engine) and not engine.doubt


def elsewhere(engine: Engine) -> bool:
    """True if it is unknown which of the engine's processes run in this container: it joins a leader, or spans Pods."""
    return engine.command.entry == "worker" or engine.spans_pods


def writable(engine: Engine) -> bool:
    """True if an edit may write the container's `resources`: False if an operator sets them."""
    return not engine.container.synthetic or "resources" in engine.container.places


def request_at(engine: Engine) -> FieldPath:
    """Where the container's memory request is."""
    return engine.at("resources", "requests", "memory")


MAX_RAISE_ON_A_GUESS = 3
"""A limit is not raised to so many times its value if the model or the release is a guess: it is only suggested
(podfit's choice)."""


def is_guess(engine: Engine) -> bool:
    """True if the model or the release is unknown, or the model is one that may not deny."""
    return engine.model is None or not engine.model.may_deny or engine.release is None


def raise_limit(engine: Engine, size: int) -> tuple[Edit, ...]:
    """Edits that raise the container's own limit to `size` bytes, and with it a request below the likely need.

    None if the Pod's limit applies, which other containers share, and if the need is in doubt. Without a limit, a guess
    is good enough for any size."""
    path, host = engine.at("resources", "limits", "memory"), engine.plan.host
    if host is None or path != engine.memory_at or not computable(engine) or not writable(engine):
        return ()
    if is_guess(engine) and size >= MAX_RAISE_ON_A_GUESS * (engine.memory_limit or size):
        return ()
    edits = [Edit(path, quantity(size))]
    request = try_parse(engine.field("resources", "requests", "memory"))
    if request is not None and request < host.need.likely:
        edits.append(Edit(request_at(engine), quantity(min(rounded(host.need.likely), size))))
    return tuple(edits)
