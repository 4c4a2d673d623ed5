from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from podfit.kube.quantity import try_parse
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class CpuTooSmall(Rule):
    """The CPU limit is below what vLLM's processes keep busy.

    An engine's loop and each GPU worker poll, and each may keep a core busy. The API server tokenizes, detokenizes and
    serializes on another one. vLLM's documentation recommends at least 2 + N physical cores for N GPUs ("CPU Resources
    for GPU Deployments"). With a lower CPU limit the kernel throttles the processes that feed the GPU. The GPU idles,
    latency increases, and a probe may time out.
    """

    plane = "host"
    event = "the kubelet throttles vLLM's processes, and requests are slower"
    of_vllm = False
    threatens = "practice"
    never_denies = "vLLM starts with fewer cores, only later"
    needs = ("plan.host",)
    mute_for = ("resources",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely below one core for each GPU worker and one for the rest; advice below 2 cores and one for each. None
        without a limit, for a value that is not a quantity, and for an engine over several Pods."""
        host, given = engine.plan.host, engine.field("resources", "limits", "cpu")
        cores = _cores(given) if given is not None else None
        if host is None or cores is None or engine.requested is None or memory_sizes.elsewhere(engine):
            return
        workers = max(1, host.ranks)
        polling, advised = 1 + workers, 2 + workers  # the engine's loop polls, and the API server works next to it
        if cores >= advised:
            return
        yield Finding(
            path=engine.at("resources", "limits", "cpu"),
            message=f"cpu limit {given}: {host.processes} processes, {host.busy} of which poll; "
            f"at least {advised} cores: 2, and one for {f'each of {host.ranks} GPUs' if host.ranks > 1 else 'the GPU'}",
            certainty="likely",
            advice=cores >= polling,
            suggestions=(f"resources.limits.cpu: {advised}, or no limit and a request of as many",),
        )


def _cores(given: object) -> Decimal | None:
    """The number of cores of a CPU quantity: "500m" → 0.5; None if it is not one."""
    text = str(given)
    if text.endswith("m") and text[:-1].isdigit() and len(text) < 12:  # a longer number is not one of cores
        return Decimal(text[:-1]) / 1000
    amount = try_parse(given)
    return Decimal(amount) if amount is not None else None
