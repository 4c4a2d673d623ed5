"""Helpers of the rules about /dev/shm: a volume of a fitting size, and whether the container's limit covers it."""

from __future__ import annotations

from typing import Any

from podfit.kube.patch import Edit
from podfit.kube.path import is_object, mapping
from podfit.kube.quantity import quantity, round_up_gi
from podfit.kube.workload import Workload, as_list
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.shm import SHM
from podfit.vllm.memory import host
from podfit.vllm.release import Release, newest_read


def advised(engine: Engine) -> int | None:
    """Bytes in whole GiB: the high estimate; the likely one if the memory limit does not hold more. None if host memory
    is not planned."""
    host = engine.plan.host
    if host is None:
        return None
    high = round_up_gi(host.shm.high)
    return high if covered(engine, high) else round_up_gi(host.shm.likely)


def besides(engine: Engine) -> int:
    """Bytes that vLLM likely needs outside of /dev/shm."""
    host = engine.plan.host
    if host is None:
        return 0
    return host.need.likely - host.in_shm


def covered(engine: Engine, size: int) -> bool:
    """True if the memory limit holds a full /dev/shm of that size and what vLLM needs besides."""
    limit = engine.memory_limit
    return limit is None or besides(engine) + size <= limit


def has_workers(engine: Engine) -> bool:
    """True if vLLM's workers run here: with --data-parallel-size-local 0 all of them are in other Pods."""
    return engine.args.given.get("data_parallel_size_local") != 0


def is_refused(engine: Engine, release: Release) -> bool:
    """True if the release does not start with what is at /dev/shm."""
    size = engine.shm.size
    if size is None or engine.command.entry == "worker" or not has_workers(engine):
        return False
    return size < host.checked_shm(engine.args, release, engine.command.env)


def is_refused_by_newest(engine: Engine) -> bool:
    """True if the image is replaced with each release, and the newest one does not start with what is at /dev/shm."""
    return engine.pulls_newest and is_refused(engine, newest_read())


def may_be_resized(engine: Engine) -> bool:
    """True if /dev/shm may be larger than the container runtime's default.

    A command or a hook may mount it again, or the Pod runs in a sandbox with its own /dev/shm (gVisor: no limit; Kata:
    half of the guest's memory)."""
    text = engine.raw_command
    if hook := engine.field("lifecycle", "postStart"):
        text = f"{text} {hook}"
    if SHM in text and "mount" in text:
        return True
    runtime = str(engine.pod("runtimeClassName") or "")
    return any(word in runtime.lower() for word in ("gvisor", "runsc", "kata"))


def resize(engine: Engine, size: int) -> tuple[Edit, ...]:
    """Edits that set the memory volume's size; none if the volume is of another type or is not declared here."""
    mount = engine.shm.mount
    if mount is None or not mount.memory:
        return ()
    return (Edit(mount.at.join("emptyDir", "sizeLimit"), quantity(size)),)


def grow(engine: Engine, size: int) -> tuple[Edit, ...]:
    """Edits that set the memory volume's size and raise the memory limit to match; none if either is impossible."""
    room = (
        () if covered(engine, size) else memory_sizes.raise_limit(engine, memory_sizes.rounded(besides(engine) + size))
    )
    return (*resize(engine, size), *room) if room or covered(engine, size) else ()


def add(engine: Engine, size: int) -> tuple[Edit, ...]:
    """A memory-backed emptyDir at /dev/shm; nothing for containers that the operator makes.

    If the Pod declares a memory volume that no container mounts, the author meant that one. A new volume has the
    usual name `dshm`. It is named after its container if that name is taken or another container may need one too.
    """
    if engine.container.synthetic:
        return ()
    mounted = engine.at("volumeMounts")
    unused, taken = engine.workload.once(_volumes)
    if unused is not None:
        return (Edit(mounted, {"name": unused, "mountPath": SHM}, "append"),)
    own = f"dshm-{engine.container.name}"
    name = "dshm" if engine.workload.containers[:1] == (engine.container,) else own
    if name in taken:
        name = next(text for text in (own, *(f"{own}-{n}" for n in range(99))) if text not in taken)
    volume = {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": quantity(size)}}
    return (
        Edit(engine.workload.path / "volumes", volume, "append"),
        Edit(mounted, {"name": name, "mountPath": SHM}, "append"),
    )


def _volumes(workload: Workload) -> tuple[Any, frozenset[str]]:
    """(name of a volume in memory that no container mounts, or None; names of all volumes)."""
    volumes = [item for item in as_list(workload.spec.get("volumes")) if is_object(item)]
    mounts = (as_list(container.spec.get("volumeMounts")) for container in workload.containers)
    used = {str(mount.get("name")) for mount_list in mounts for mount in mount_list if is_object(mount)}
    unused = (
        volume.get("name")
        for volume in volumes
        if mapping(volume.get("emptyDir")).get("medium") == "Memory" and str(volume.get("name")) not in used
    )
    return next(unused, None), frozenset(str(volume.get("name")) for volume in volumes)
