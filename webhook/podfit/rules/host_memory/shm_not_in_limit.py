from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import GI, human, quantity
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.host_memory import shm_mounts
from podfit.rules.rule import Finding, Rule


class ShmNotInLimit(Rule):
    """The memory limit does not cover a full /dev/shm.

    What is written to a memory-backed volume counts against the memory limit of the container that wrote it. A
    `sizeLimit: 16Gi` under a limit of 16Gi promises the same memory twice: the volume never gets full, the container
    is `OOMKilled` before. The limit should hold the processes and the whole volume, or the volume be smaller.
    """

    plane = "host"
    event = "a full /dev/shm is OOMKilled"
    of_vllm = False
    threatens = "practice"
    never_denies = "the manifest does not show what vLLM will write there"
    needs = ("plan.host",)
    mute_for = ("memory-limit",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Possible if the volume alone is as large as the limit. Advice if only the volume and the need together exceed
        it: vLLM rarely fills its ring buffers. None if the limit is below the likely need, which another rule
        reports."""
        host, shm, limit = engine.plan.host, engine.shm, engine.memory_limit
        if host is None or shm.mount is None or shm.size is None or limit is None or engine.command.entry == "worker":
            return
        needed = host.need.likely
        if limit < needed or shm_mounts.covered(engine, shm.size):
            return
        fits = (limit - shm_mounts.besides(engine)) // GI * GI  # whole GiB that the limit leaves to the volume
        advice = memory_sizes.rounded(shm_mounts.besides(engine) + shm.size)
        yield Finding(
            path=shm.path.join("emptyDir", "sizeLimit"),
            message=f"/dev/shm may take {human(shm.size)} of the {human(limit)} limit, "
            f"and vLLM needs about {human(shm_mounts.besides(engine))} besides",
            certainty="possible",
            advice=shm.size < limit,
            suggestions=(
                f"resources.limits.memory: {quantity(advice)}",
                *((f"sizeLimit: {quantity(fits)}",) if fits >= host.shm.likely else ()),
            ),
            fix=memory_sizes.raise_limit(engine, advice),
        )
