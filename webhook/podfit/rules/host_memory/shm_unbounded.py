from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human, quantity, round_up_gi
from podfit.rules.engine import Engine
from podfit.rules.host_memory import shm_mounts
from podfit.rules.rule import Finding, Rule


class ShmUnbounded(Rule):
    """The memory volume at /dev/shm has no size limit.

    Without `sizeLimit` a memory-backed emptyDir may grow to the Pod's memory limit or, without such a limit, to the
    node's whole allocatable memory. Files that crashed engines leave there then take memory from the other Pods. With a
    size limit, the process that writes too much gets `No space left on device`, and no other Pod is `OOMKilled`.

    vLLM itself writes little there unless it offloads KV cache to /dev/shm. Without that, the finding is only audited.
    """

    plane = "host"
    event = "/dev/shm may take memory from other Pods"
    of_vllm = False
    threatens = "practice"
    needs = ("plan.host",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: the manifest shows it. Advice if the memory limit bounds it, or if vLLM keeps no offloaded data
        there. None without a memory volume at /dev/shm."""
        host, mount = engine.plan.host, engine.shm.mount
        if host is None or mount is None or not mount.memory or (mount.empty_dir or {}).get("sizeLimit") is not None:
            return
        if engine.command.entry == "worker":
            return  # the finding on its leader has what a joining worker needs
        size = round_up_gi(host.shm.high)
        limit = engine.memory_limit
        yield Finding(
            path=mount.at.join("emptyDir", "sizeLimit"),
            message="the memory volume at /dev/shm has no sizeLimit: it may grow to "
            + (f"the memory limit, {human(limit)}" if limit is not None else "all of the node's memory"),
            advice=limit is not None or not host.in_shm,
            suggestions=(f"sizeLimit: {quantity(size)}",),
            fix=shm_mounts.resize(engine, size) if shm_mounts.covered(engine, size) and not engine.spans_pods else (),
        )
