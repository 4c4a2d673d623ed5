"""Rule shm-missing."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import SHM, Engine
from webhook.patch import Edit
from webhook.quantity import human, quantity, round_up_gi
from webhook.rule import Finding, Rule


class ShmMissing(Rule):
    """Several processes of one engine talk through /dev/shm, and nothing is mounted there.

    Without a volume at /dev/shm a container has 64 MiB. Tensor, pipeline and data parallelism talk through rings in
    it, 160 MiB and more. From v0.27 vLLM refuses to start:

        RuntimeError: Insufficient space in /dev/shm for shared-memory allocation: 160 MiB required, 64 MiB free.

    Before that it depends on how NCCL moves data between the GPUs: over NVLink it starts, over shared memory it fails
    with `Error while creating shared memory segment /dev/shm/nccl-…` or dies of `Bus error (core dumped)` later. The
    fix mounts a memory-backed emptyDir; what is written there counts against the container's memory limit.
    """

    plane = "host"
    mode = "deny"
    fix = "certain"
    needs = ("plan.host",)
    mute_for = ("shm",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain where this release refuses to start, possible before."""
        host, size = engine.plan.host, engine.shm.size
        if host is None or engine.shm.mounted or size is None or engine.command.entry == "worker":
            return
        if size >= host.shm.likely:
            return
        refuses = engine.release is not None and size < host.shm.floor
        if refuses:
            detail = f"vLLM {engine.release} refuses to start with less than {human(host.shm.floor)}"
        else:
            detail = "it starts where NCCL needs no shared memory (NVLink), else it fails, or dies under load"
        advice = quantity(round_up_gi(host.shm.likely))
        yield Finding(
            path=engine.at("volumeMounts"),
            message=f"nothing is mounted at /dev/shm: it has {human(size)}, about {human(host.shm.likely)} are needed",
            details=(detail,),
            certainty="certain" if refuses else "possible",
            suggestions=(f"an emptyDir volume with medium: Memory and sizeLimit: {advice}, mounted at /dev/shm",),
            fix=_fix(engine, advice),
        )


def _fix(engine: Engine, size: str) -> tuple[Edit, ...]:
    """A memory-backed emptyDir of that size at /dev/shm; nothing for containers that the operator makes."""
    if engine.container.synthetic:
        return ()
    volumes = engine.pod("volumes")
    taken = [volume.get("name") for volume in volumes if isinstance(volume, dict)] if isinstance(volumes, list) else []
    name = next(name for name in ("dshm", "podfit-shm", *(f"podfit-shm-{n}" for n in range(99))) if name not in taken)
    volume = {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    return (
        Edit(engine.workload.path / "volumes", volume, "append"),
        Edit(engine.at("volumeMounts"), {"name": name, "mountPath": SHM}, "append"),
    )
