from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from podfit.kube import quantity as quantities
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.kube.quantity import human, quantity, round_up_gi
from podfit.kube.workload import Workload
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule
from podfit.rules.storage import _cache

_TOLERANCE = 0.98
"""A checkpoint's size is exact to a per cent or so; a limit this near to it is not evaluated."""


class ModelCacheTooSmall(Rule):
    """The volume or the limit on local storage is smaller than the model's files.

    A download that outgrows an emptyDir's `sizeLimit`, or the container's `ephemeral-storage` limit, ends with an
    eviction of the Pod, and the next Pod begins again:

        Usage of EmptyDir volume "cache" exceeds the limit "20Gi".
        Container vllm exceeded its local ephemeral storage limit "20Gi".

    With a claim that is too small, the download ends with `OSError: [Errno 28] No space left on device`. That happens
    only if the storage enforces the requested size; network file systems often do not.
    """

    plane = "storage"
    event = "the download fails: no space left, or the kubelet evicts the Pod"
    of_vllm = False
    mode = "deny"
    needs = ("model",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain for the kubelet's own limits, likely for a claim, possible for files that are only read."""
        cache, size = engine.once(_cache.find), engine.plan.checkpoint
        if cache is None or size is None:
            return
        capacity = _capacity(engine, cache)
        if capacity is None or capacity.size >= size * _TOLERANCE:
            return
        path, certainty, doubt = capacity.path, capacity.certainty, engine.weights_doubtful
        if certainty == "certain" and (doubt or not _cache.is_sure(engine)):
            certainty = "likely"
        size_text = quantity(_advised(size, certainty))
        yield Finding(
            path=path,
            message=f"{capacity.what} holds {human(capacity.size)}, the model's files take {human(size)}",
            certainty=certainty,
            uncertain=f"how large the weights are is {doubt}" if doubt else None,
            suggestions=(f"{size_text}, room for another revision too" if certainty == "likely" else size_text,),
            fix=(Edit(path, size_text),) if certainty == "certain" and not engine.container.synthetic else (),
        )


class Capacity(NamedTuple):
    """The size of the volume, or of the limit, for the model's files."""

    size: int
    """Bytes."""
    path: FieldPath
    """The field that sets it."""
    what: str
    """The volume or the limit, for people."""
    certainty: Certainty
    """The certainty that larger files do not fit."""


def _advised(size: int, certainty: Certainty) -> int:
    """The bytes to suggest for files of `size` bytes, in whole GiB. If the shortage is only likely (a claim, or files
    whose size or place is in doubt), twice as much, for another revision too; else a fifth more."""
    return round_up_gi(2 * size if certainty == "likely" else size + size // 5)


def _capacity(engine: Engine, cache: _cache.Cache) -> Capacity | None:
    """The capacity for the files; None if it is unknown or has no limit, and for files that are in an unknown volume
    already."""
    volume = cache.volume
    if volume is not None and volume.known:
        size = _claimed(volume.spec)
        certainty: Certainty = "likely" if cache.downloads else "possible"
        return None if size is None else Capacity(size, volume.mount.at, volume.label, certainty)
    if not cache.downloads:
        return None
    local = ("resources", "limits", "ephemeral-storage")
    if volume is None:
        stored = quantities.try_parse(engine.field(*local))
        # With 0 the container has no limit and the Pod's sum is still 0 (the same file).
        sure: Certainty = "certain" if stored else "likely"
        if stored is None:
            return None
        return Capacity(stored, engine.at(*local), "the container's ephemeral-storage limit", sure)
    if volume.kind != "emptyDir":
        return None
    size = quantities.try_parse(volume.spec.get("sizeLimit"))
    if size:  # 0 is not a limit (kubernetes pkg/kubelet/eviction/eviction_manager.go, emptyDirLimitEviction)
        path = volume.mount.at.join("emptyDir", "sizeLimit")
        return Capacity(size, path, f"emptyDir {volume.mount.name!r}", "certain")
    stored = engine.workload.once(_of_all_containers)
    if stored is None or volume.spec.get("medium") == "Memory":
        return None
    return Capacity(stored, engine.at(*local), "the Pod's ephemeral-storage limit", "likely")


def _of_all_containers(workload: Workload) -> int | None:
    """The Pod's limit on local storage, including emptyDirs: the sum of the containers' limits, if each has one."""
    path = FieldPath(("resources", "limits", "ephemeral-storage"))
    items = [quantities.try_parse(path.get(container.spec)) for container in workload.containers if not container.init]
    return None if None in items else sum(size or 0 for size in items)


def _claimed(claim: Mapping[str, object]) -> int | None:
    """Bytes that the claim requests, or has got; None if unknown."""
    sizes = (("status", "capacity", "storage"), ("spec", "resources", "requests", "storage"))
    items = [quantities.try_parse(FieldPath(parts).get(claim)) for parts in sizes]
    return max((size for size in items if size is not None), default=None)
