from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.patch import Edit
from podfit.kube.quantity import human, quantity
from podfit.rules.engine import Engine
from podfit.rules.host_memory import shm_mounts
from podfit.rules.rule import Finding, Rule, lines
from podfit.vllm.memory.estimate import NOTHING, Estimate
from podfit.vllm.memory.host.shm import BESIDES_KV, SHM_CHECK_SINCE
from podfit.vllm.volumes import Mount


class ShmTooSmall(Rule):
    """The volume at /dev/shm is smaller than what vLLM puts there, or vLLM can't write to it.

    A `sizeLimit` below the rings of the engine's processes has the effect of no volume at all; see `shm-missing` for
    what fails and how. `--kv-offloading-size` lives in /dev/shm from v0.27 on, as a whole, also with one GPU:

        RuntimeError: Insufficient space in /dev/shm for CPU KV offload shared region in /dev/shm: … required, … free

    A volume of exactly that size is too small, too: queues and semaphores share it. On AMD GPUs the same is true of
    v0.27 to v0.30, and of a TieringOffloadingSpec in every release from v0.26 on.

    The volume lives as long as the Pod. The files of a crashed engine (`vllm_offload_*.mmap`, ring buffers) are still
    there when the container starts again, and take the room that the next start needs. Make the volume larger, or
    delete the Pod.
    """

    plane = "host"
    event = "an engine process dies: no space left in /dev/shm"
    mode = "deny"
    needs = ("plan.host",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if this release does not start with so little, or if it can't write what it needs.

        Likely if offloaded KV cache leaves nothing to the rest, or if the image is replaced with every release; else
        possible. None without a volume at /dev/shm (`shm-missing`)."""
        host, shm = engine.plan.host, engine.shm
        if host is None or not shm.mounted or engine.command.entry == "worker" or not shm_mounts.has_workers(engine):
            return
        if shm.mount is not None and shm.mount.read_only and host.shm.low:
            yield _read_only(engine, host.shm, shm.mount)
        if shm.size is None or shm.size >= max(host.shm.low, host.shm.floor):
            return
        refuses, newest = shm.size < host.shm.floor, shm_mounts.is_refused_by_newest(engine)
        offloaded = dict(host.lines).get("KV offload", NOTHING).likely  # bytes
        filled = 0 < offloaded <= host.in_shm and shm.size < host.in_shm + BESIDES_KV
        advice = shm_mounts.advised(engine) or 0
        yield Finding(
            path=shm.path.join("emptyDir", "sizeLimit"),
            message=f"/dev/shm has {human(shm.size)}, about {human(host.shm.likely)} are needed",
            details=lines(
                f"vLLM {engine.release} does not start with less than {human(host.shm.floor)}" if refuses else None,
                f"vLLM {SHM_CHECK_SINCE} and newer do not start with so little" if newest else None,
            ),
            certainty="certain" if refuses else "likely" if filled or newest else "possible",
            rests_on=(),
            suggestions=(f"sizeLimit: {quantity(advice)}",),
            fix=shm_mounts.grow(engine, advice),
        )


def _read_only(engine: Engine, needed: Estimate, mount: Mount) -> Finding:
    """The finding on a read-only `mount` at /dev/shm, where vLLM writes `needed` bytes. Certain if it certainly writes
    there."""
    path = engine.at("volumeMounts", mount.index, "readOnly")
    return Finding(
        path=path,
        message=f"/dev/shm is mounted read-only, vLLM needs about {human(needed.likely)} there",
        certainty="certain" if needed.floor else "likely",
        rests_on=(),
        suggestions=("readOnly: false",),
        fix=(Edit(path, op="remove"),) if not engine.container.synthetic else (),
    )
