from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.patch import Edit
from podfit.kube.path import mapping
from podfit.kube.workload import Workload, as_list
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import volumes

MEDIA = ("Memory", "HugePages")
"""The media that the kubelet knows, next to none and `HugePages-` with a size."""


class UnknownMedium(Rule):
    """An emptyDir has a medium that the kubelet does not know.

    The API server accepts any word as an emptyDir's `medium`. The kubelet accepts only `Memory`, `HugePages`,
    `HugePages-` with a size, or none, and distinguishes upper and lower case (kubernetes
    pkg/volume/emptydir/empty_dir.go, SetUpAt). For any other word it repeats this event, and the Pod stays in
    ContainerCreating:

        MountVolume.SetUp failed for volume "shm" : unknown storage medium "memory"
    """

    plane = "storage"
    event = "the kubelet never starts the Pod"
    of_vllm = False
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: the kubelet makes every volume that a container mounts before any of them starts."""
        for mount in engine.workload.once(_odd_mounts):
            medium = str(mapping(mount.empty_dir).get("medium"))
            at, meant = mount.at.join("emptyDir", "medium"), _meant(medium)
            yield Finding(
                path=at,
                message=f"volume {mount.name!r} has the medium {medium!r}; the kubelet knows {' and '.join(MEDIA)}"
                + (f": did you mean {meant}?" if meant else ""),
                suggestions=(f"medium: {meant}",) if meant else ("medium: Memory", "no medium: the node's disk"),
                fix=(Edit(at, meant),) if meant else (),
            )


def _odd_mounts(workload: Workload) -> list[volumes.Mount]:
    """The first mount of each volume with an unknown medium, in any container of the Pod."""
    if not any(_is_odd(mapping(volume).get("emptyDir")) for volume in as_list(workload.spec.get("volumes"))):
        return []  # no volume has one, so the mounts need not be read
    entries: dict[str, volumes.Mount] = {}
    for container in workload.containers:
        for mount in volumes.mounts(workload, container):
            if mount.name not in entries and _is_odd(mount.empty_dir):
                entries[mount.name] = mount
    return [*entries.values()]


def _is_odd(empty_dir: object) -> bool:
    """True if the emptyDir names a medium that is neither known nor a placeholder; False for None."""
    medium = mapping(empty_dir).get("medium") if empty_dir else None
    return isinstance(medium, str) and not _is_known(medium) and not _is_filled_in(medium)


def _is_known(medium: str) -> bool:
    """True if the kubelet knows the medium (kubernetes pkg/apis/core/v1/helper/helpers.go, IsHugePageMedium)."""
    return medium in ("", *MEDIA) or medium.startswith("HugePages-")


def _is_filled_in(medium: str) -> bool:
    """True if a tool or an operator fills in the text later."""
    return "${" in medium or "{{" in medium or "$(" in medium


def _meant(medium: str) -> str | None:
    """The medium that was probably meant, in the kubelet's spelling; None for other words."""
    word = medium.strip().lower()
    if word in ("memory", "mem", "ram", "tmpfs"):
        return "Memory"
    return "HugePages" if word in ("hugepages", "hugepage") else None
