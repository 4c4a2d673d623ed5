from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human, quantity
from podfit.rules.engine import Engine
from podfit.rules.host_memory import shm_mounts
from podfit.rules.rule import Certainty, Finding, Rule
from podfit.vllm.memory.host.shm import SHM_CHECK_SINCE


class ShmMissing(Rule):
    """Several processes of one engine talk through /dev/shm, and nothing is mounted there.

    Without a volume at /dev/shm a container has 64 MiB. Tensor, pipeline and data parallelism talk through rings in
    it, 160 MiB and more. From v0.27 vLLM does not start:

        RuntimeError: Insufficient space in /dev/shm for shared-memory allocation: 160 MiB required, 64 MiB free.

    Before that it depends on how NCCL moves data between the GPUs: over NVLink it starts, over shared memory it fails
    with `Error while creating shared memory segment /dev/shm/nccl-…` or dies of `Bus error (core dumped)` later. On
    GPUs without NVLink (L4, L40S, A10G, T4, RTX) the finding is likely. The fix mounts a memory-backed emptyDir; what
    is written there counts against the container's memory limit.
    """

    plane = "host"
    event = "an engine process dies: no space left in /dev/shm"
    mode = "deny"
    fix = "certain"
    partly_denies = "before vLLM 0.27 the failure depends on how NCCL moves data: over NVLink it starts"
    needs = ("plan.host",)
    mute_for = ("shm",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if this release does not start with so little, likely if the Pod may have another /dev/shm then.

        Of other releases possible; likely on GPUs without NVLink, or if the image is replaced with every release."""
        host, size = engine.plan.host, engine.shm.size
        if host is None or engine.shm.mounted or size is None or engine.command.entry == "worker":
            return
        if size >= host.shm.likely or not shm_mounts.has_workers(engine):
            return
        newest = shm_mounts.is_refused_by_newest(engine)
        lacks_nvlink = engine.gpu is not None and all(gpu.lacks_nvlink for gpu in engine.gpu.value.gpus)
        certainty: Certainty = "possible"
        if size < host.shm.floor:
            detail = f"vLLM {engine.release} does not start with less than {human(host.shm.floor)}"
            certainty = "likely" if newest or shm_mounts.may_be_resized(engine) else "certain"
        elif newest:
            detail = f"vLLM {SHM_CHECK_SINCE} and newer do not start with so little"
            certainty = "likely"
        elif lacks_nvlink:
            detail = "these GPUs have no NVLink, so NCCL needs shared memory: it fails at the start, or dies under load"
            certainty = "likely" if engine.world_size > 1 else "possible"
        else:
            detail = "it starts where NCCL needs no shared memory (NVLink), else it fails, or dies under load"
        advice = shm_mounts.advised(engine) or 0
        yield Finding(
            path=engine.at("volumeMounts"),
            message=f"nothing is mounted at /dev/shm: it has {human(size)}, about {human(host.shm.likely)} are needed",
            details=(detail,),
            certainty=certainty,
            rests_on=(),
            suggestions=(
                f"an emptyDir volume with medium: Memory and sizeLimit: {quantity(advice)}, mounted at /dev/shm",
            ),
            fix=shm_mounts.add(engine, advice),
        )
