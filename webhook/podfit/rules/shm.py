"""Shared memory of a container: the mount at /dev/shm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from podfit.kube import quantity
from podfit.kube.path import FieldPath
from podfit.kube.workload import Workload
from podfit.vllm.volumes import Mount

SHM = "/dev/shm"


class Shm(NamedTuple):
    """The mount at /dev/shm in the container."""

    size: int | None
    """Bytes; None if it has no limit of its own (a memory volume without sizeLimit, or the host's /dev/shm)."""
    mounted: bool
    """A volume is mounted there, or the Pod shares the host's."""
    path: FieldPath
    """The volume, or the place where one would be declared."""
    mount: Mount | None = None
    """The container's mount, None if none is or the host's is shared."""


CONTAINER_RUNTIME_SHM = 64 * quantity.MI
"""The size that containerd and CRI-O mount at /dev/shm by default (containerd oci/mounts.go `size=65536k`)."""


_CRIO_SIZE = "io.kubernetes.cri-o.ShmSize"
"""The annotation with which CRI-O sizes a Pod's /dev/shm (cri-o pkg/annotations). podfit does not read its value."""


def shm_of(workload: Workload, mounts: Iterable[Mount]) -> Shm:
    """Return the first of the container's `mounts` at /dev/shm or /dev, else the container runtime's default.

    The host's /dev/shm, and one that an annotation sizes for CRI-O, count as mounted and without a known limit."""
    if workload.spec.get("hostIPC") is True or _CRIO_SIZE in workload.annotations:
        return Shm(size=None, mounted=True, path=workload.path)
    for mount in mounts:
        if mount.path not in (SHM, "/dev"):
            continue
        # On disk, sizeLimit is not a size of the file system but a reason for an eviction.
        limit = (mount.empty_dir or {}).get("sizeLimit") if mount.memory else None
        # 0 is not a limit of its own (kubernetes pkg/volume/emptydir/empty_dir.go, calculateEmptyDirMemorySize).
        return Shm(size=quantity.try_parse(limit) or None, mounted=True, path=mount.at, mount=mount)
    return Shm(size=CONTAINER_RUNTIME_SHM, mounted=False, path=workload.path / "volumes")
