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
"""Share of the checkpoint's size. The size is exact to a per cent or so: a capacity that is nearer is not reported."""


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
        """Certain for the kubelet's own limits, likely for a claim, possible for files that are only read. Likely, too,
        if the size of the weights or the place of the files is in doubt. None if one of the sizes is unknown."""
        cache, size = engine.once(_cache.find), engine.plan.checkpoint
        if cache is None or size is None:
            return
        capacity = _capacity(engine, cache)
        if capacity is None or capacity.size >= size * _TOLERANCE:
            return
        certainty, doubt = capacity.certainty, engine.weights_doubtful
        if certainty == "certain" and (doubt or not _cache.is_sure(engine)):
            certainty = "likely"
        size_text = quantity(_advised(size, certainty))
        yield Finding(
            path=capacity.path,
            message=f"{capacity.what} holds {human(capacity.size)}, the model's files take {human(size)}",
            certainty=certainty,
            uncertain=f"how large the weights are is {doubt}" if doubt else None,
            suggestions=(f"{size_text}, room for another revision too" if certainty == "likely" else size_text,),
            fix=(Edit(capacity.path, size_text),) if certainty == "certain" and not engine.container.synthetic else (),
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
    advised = 2 * size if certainty == "likely" else size + size // 5
    return round_up_gi(advised)


def _capacity(engine: Engine, cache: _cache.Cache) -> Capacity | None:
    """The capacity for the files; None if it is unknown or has no limit, and for files that are in an unknown volume
    already."""
    volume = cache.volume
    if volume is not None and volume.known:
        size = _claim_size(volume.spec)
        if size is None:
            return None
        certainty: Certainty = "likely" if cache.downloads else "possible"
        return Capacity(size=size, path=volume.mount.at, what=volume.label, certainty=certainty)
    if not cache.downloads:
        return None
    if volume is None:
        return _container_capacity(engine)
    return _empty_dir_capacity(engine, volume) if volume.kind == "emptyDir" else None


_LOCAL_LIMIT = ("resources", "limits", "ephemeral-storage")


def _container_capacity(engine: Engine) -> Capacity | None:
    """The container's own limit on local storage; None if it has none.

    A limit of 0 is none to the kubelet, but counts as 0 in the Pod's sum, so it is only likely (kubernetes
    pkg/kubelet/eviction/eviction_manager.go)."""
    size = quantities.try_parse(engine.field(*_LOCAL_LIMIT))
    if size is None:
        return None
    return Capacity(
        size=size,
        path=engine.at(*_LOCAL_LIMIT),
        what="the container's ephemeral-storage limit",
        certainty="certain" if size else "likely",
    )


def _empty_dir_capacity(engine: Engine, volume: _cache.Volume) -> Capacity | None:
    """The size limit of an emptyDir, else the Pod's limit on local storage, which counts emptyDirs on disk too; None if
    there is neither."""
    size_limit = quantities.try_parse(volume.spec.get("sizeLimit"))
    if size_limit:  # 0 is not a limit (kubernetes pkg/kubelet/eviction/eviction_manager.go, emptyDirLimitEviction)
        path = volume.mount.at.join("emptyDir", "sizeLimit")
        return Capacity(size=size_limit, path=path, what=f"emptyDir {volume.mount.name!r}", certainty="certain")
    pod_limit = engine.workload.once(_pod_limit)
    if pod_limit is None or volume.spec.get("medium") == "Memory":
        return None
    path = engine.at(*_LOCAL_LIMIT)
    return Capacity(size=pod_limit, path=path, what="the Pod's ephemeral-storage limit", certainty="likely")


def _pod_limit(workload: Workload) -> int | None:
    """The Pod's limit on local storage in bytes: the sum of its containers' limits; None if one of them has none."""
    path = FieldPath(_LOCAL_LIMIT)
    limits = [quantities.try_parse(path.get(container.spec)) for container in workload.containers if not container.init]
    return None if None in limits else sum(limit or 0 for limit in limits)


def _claim_size(claim: Mapping[str, object]) -> int | None:
    """Bytes of the claim: the larger of its request and of the capacity that it has got; None if both are unknown."""
    paths = (("status", "capacity", "storage"), ("spec", "resources", "requests", "storage"))
    sizes = [quantities.try_parse(FieldPath(parts).get(claim)) for parts in paths]
    return max([size for size in sizes if size is not None], default=None)
