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
    """Bytes; None: no limit of its own (a memory volume without sizeLimit, the host's)."""
    mounted: bool
    """A volume is mounted there, or the Pod shares the host's."""
    path: FieldPath
    """The volume, or the place where one would be declared."""
    mount: Mount | None = None
    """The container's mount, None if none is or the host's is shared."""


CONTAINER_RUNTIME_SHM = 64 * quantity.MI
"""The size that containerd and CRI-O mount at /dev/shm by default (containerd oci/mounts.go `size=65536k`)."""


_CRIO_SIZE = "io.kubernetes.cri-o.ShmSize"
"""The annotation with which CRI-O sizes a Pod's /dev/shm (cri-o pkg/annotations)."""


def shm_of(workload: Workload, mounts: Iterable[Mount]) -> Shm:
    """Return the mount at /dev/shm, with its limit and its place in the object."""
    if workload.spec.get("hostIPC") is True or _CRIO_SIZE in workload.annotations:
        return Shm(None, True, workload.path)
    for mount in mounts:
        if mount.path not in (SHM, "/dev"):
            continue
        # On disk, sizeLimit is not a size of the file system but a reason for an eviction.
        limit = (mount.empty_dir or {}).get("sizeLimit") if mount.memory else None
        # 0 is not a limit of its own (kubernetes pkg/volume/emptydir/empty_dir.go, calculateEmptyDirMemorySize).
        return Shm(quantity.try_parse(limit) or None, True, mount.at, mount)
    return Shm(CONTAINER_RUNTIME_SHM, False, workload.path / "volumes")
