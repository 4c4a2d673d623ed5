"""Helpers of the rules about /dev/shm: a volume of a fitting size, and whether the container's limit covers it."""

from __future__ import annotations

import itertools
from typing import Any

from podfit.kube.patch import Edit
from podfit.kube.path import is_object, mapping
from podfit.kube.quantity import quantity, round_up_gi
from podfit.kube.workload import JSON, Workload, as_list
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.shm import SHM
from podfit.vllm.memory import host
from podfit.vllm.release import Release, newest_read


def advised(engine: Engine) -> int | None:
    """The size of /dev/shm to suggest, in bytes, rounded up to GiB: the high estimate, or the likely one if the memory
    limit does not hold more. None if host memory is not planned."""
    host = engine.plan.host
    if host is None:
        return None
    high = round_up_gi(host.shm.high)
    return high if covered(engine, high) else round_up_gi(host.shm.likely)


def besides(engine: Engine) -> int:
    """Bytes that vLLM likely needs outside of /dev/shm; 0 if host memory is not planned."""
    host = engine.plan.host
    if host is None:
        return 0
    return host.need.likely - host.in_shm


def covered(engine: Engine, size: int) -> bool:
    """True if the memory limit holds a full /dev/shm of `size` bytes and what vLLM needs besides; also without a
    limit."""
    limit = engine.memory_limit
    return limit is None or besides(engine) + size <= limit


def has_workers(engine: Engine) -> bool:
    """True if vLLM's workers run here: with --data-parallel-size-local 0 all of them are in other Pods."""
    return engine.args.given.get("data_parallel_size_local") != 0


def is_refused(engine: Engine, release: Release) -> bool:
    """True if the release does not start with the size that /dev/shm has. False if that is unlimited or unknown, for a
    worker that joins a leader, and without workers here."""
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
    """Edits that set the sizeLimit of the memory volume at /dev/shm to `size` bytes; none if the volume is of another
    type or is not declared here."""
    mount = engine.shm.mount
    if mount is None or not mount.memory:
        return ()
    return (Edit(mount.at.join("emptyDir", "sizeLimit"), quantity(size)),)


def grow(engine: Engine, size: int) -> tuple[Edit, ...]:
    """Edits that set the memory volume's size to `size` bytes, and raise the memory limit if it does not cover that.
    None if the limit would have to be raised and can't be."""
    if covered(engine, size):
        return resize(engine, size)
    raised = memory_sizes.raise_limit(engine, memory_sizes.rounded(besides(engine) + size))
    return (*resize(engine, size), *raised) if raised else ()


def add(engine: Engine, size: int) -> tuple[Edit, ...]:
    """Edits that mount a memory-backed emptyDir of `size` bytes at /dev/shm; none for a container that an operator
    makes.

    If the Pod declares a memory volume that no container mounts, the author meant that one, and it is mounted."""
    if engine.container.synthetic:
        return ()
    mounts = engine.at("volumeMounts")
    unmounted = engine.workload.once(_unmounted_memory_volume)
    if unmounted is not None:
        return (Edit(mounts, {"name": unmounted, "mountPath": SHM}, "append"),)
    name = _new_name(engine)
    volume = {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": quantity(size)}}
    return (
        Edit(engine.workload.path / "volumes", volume, "append"),
        Edit(mounts, {"name": name, "mountPath": SHM}, "append"),
    )


def _new_name(engine: Engine) -> str:
    """The name of a new volume at /dev/shm: the usual `dshm` in the Pod's first container if no volume has it. Else it
    is named after its container, since another one may need a volume too."""
    taken = engine.workload.once(_volume_names)
    is_first = engine.workload.containers[:1] == (engine.container,)
    if is_first and "dshm" not in taken:
        return "dshm"
    own = f"dshm-{engine.container.name}"
    if own not in taken:
        return own
    return next(name for number in itertools.count() if (name := f"{own}-{number}") not in taken)


def _volumes(workload: Workload) -> list[JSON]:
    """The entries of the Pod's `volumes` that are objects."""
    return [item for item in as_list(workload.spec.get("volumes")) if is_object(item)]


def _volume_names(workload: Workload) -> frozenset[str]:
    """The names of the Pod's volumes."""
    return frozenset(str(volume.get("name")) for volume in _volumes(workload))


def _unmounted_memory_volume(workload: Workload) -> Any:
    """The name of the first memory-backed emptyDir that no container mounts; None if there is none."""
    mounted = set()
    for container in workload.containers:
        mounts = as_list(container.spec.get("volumeMounts"))
        mounted |= {str(mount.get("name")) for mount in mounts if is_object(mount)}
    for volume in _volumes(workload):
        in_memory = mapping(volume.get("emptyDir")).get("medium") == "Memory"
        if in_memory and str(volume.get("name")) not in mounted:
            return volume.get("name")
    return None
