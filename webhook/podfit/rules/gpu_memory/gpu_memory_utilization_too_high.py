from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from podfit.kube.quantity import human
from podfit.rules import _parallel
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter
from podfit.vllm import change
from podfit.vllm.change import Change
from podfit.vllm.memory import budget
from podfit.vllm.memory.estimate import independent
from podfit.vllm.memory.model_runner import EVERY
from podfit.vllm.memory.settings import default_utilization
from podfit.vllm.release import Release, known_releases

REFUSES_ZERO = Release(0, 13)
"""The first release that rejects a share of 0 as a value (vLLM 0.13 config/cache.py `gt=0`). 0.10.2 and 0.11.0 only
reject values above 1; there a share of 0 leaves no memory."""
GRAPHS_AT_RISK = 0.05
"""The probability that CUDA graphs do not fit, from which it is reported."""
LEAST_SHARE = 0.2
"""--gpu-memory-utilization below which no engine of a model that people serve starts."""


def _refuses_zero(release: Release | None) -> bool:
    """True if the release rejects a share of 0 as a value; False if the release is unknown."""
    return release is not None and release >= REFUSES_ZERO


def _lower(engine: Engine, share: float) -> tuple[Change, ...]:
    """The suggestion of this share; empty if the model then does not fit."""
    fits = _parallel.may_fit(engine, {"gpu_memory_utilization": share})
    return (change.flags(f"--gpu-memory-utilization {share:g}"),) if fits else ()


def _has_others(engine: Engine) -> bool:
    """True if another process may hold a part of the GPU: another container, or one that the policy assumes."""
    return (engine.gpu is not None and engine.gpu.value.shared) or engine.facts.assume.free_gpu_memory is not None


@dataclass(frozen=True)
class GpuMemoryUtilizationTooHigh(Rule):
    """The share of GPU memory that vLLM may use is out of range or leaves nothing to others.

    `--gpu-memory-utilization` is a fraction of the *whole* GPU, at most 1 (vLLM config/cache.py); `95` is read as
    9500 % and rejected. The CUDA context, NCCL's buffers and, before v0.20, the CUDA graphs need memory on top of it.
    So do those of Model Runner V2, the default of dense models from v0.25, before v0.29.
    `VLLM_USE_V2_MODEL_RUNNER=0` takes the runner that reserves memory for them. With a fraction near 1, vLLM runs out
    of memory while it captures graphs, and from v0.9.1 on it does not start:

        ValueError: Free memory on device (77.2/79.2 GiB) on startup is less than desired GPU memory utilization (0.98…

    Several processes on one GPU (time-slicing, MPS) must share: their fractions add up.
    """

    plane = "gpu"
    event = "vLLM exits: free memory is less than desired"
    mode = "deny"
    partly_denies = "a share above `maximum` may work: gpuMemoryUtilization of house-limits denies it"
    needs = ("vllm_args",)

    maximum: float = parameter(0.95, "a higher share is warned about", gt=0, le=1)
    shared_maximum: float = parameter(0.8, "the same on a GPU shared with other processes", gt=0, le=1)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Out of (0, 1] is certain; above the maximum is possible trouble."""
        findings = list(self._check_share(engine))
        yield from findings or self._check_graphs(engine)

    def _check_graphs(self, engine: Engine) -> Iterator[Finding]:
        """The finding that CUDA graphs of the second model runner, for which its releases before `EVERY` reserve
        nothing, may need more memory than the budget leaves. None if the graphs are part of the budget, or if there is
        no KV cache."""
        resolved, ledger = engine.plan.resolved, engine.plan.gpu
        if resolved is None or ledger is None or ledger.graphs_charged or not resolved.settings.second_runner:
            return
        if resolved.settings.release >= EVERY or resolved.budget.kv_cache_memory or not ledger.cuda_graphs.likely:
            return
        if (
            resolved.settings.gpu.vendor != "nvidia"
            or resolved.settings.gpu.unified_memory
            or ledger.kv_cache.likely <= 0
        ):
            return
        outside = ledger.total.likely - ledger.budget.likely
        needed = independent(budget.context(resolved.settings), ledger.cuda_graphs)
        if 1 - needed.share_below(outside) < GRAPHS_AT_RISK:
            return
        share = resolved.budget.utilization - math.ceil(100 * (needed.high - outside) / ledger.total.likely) / 100
        lower = (change.flags(f"--gpu-memory-utilization {share:.2f}"),) if share >= LEAST_SHARE else ()
        yield Finding(
            path=engine.argument("gpu_memory_utilization"),
            message=f"{human(outside)} of each GPU are outside the budget: CUDA context, NCCL and CUDA graphs take "
            f"about {human(needed.likely)} ({human(needed.low)} … {human(needed.high)})",
            details=(
                f"vLLM {resolved.settings.release} reserves nothing for the graphs of this model, and runs out of "
                "memory while it captures them",
            ),
            certainty="likely" if needed.share_below(outside) < 0.2 else "possible",
            suggestions=(*lower, "VLLM_USE_V2_MODEL_RUNNER=0 in the container's env"),
            rests_on=("plan.gpu",),
        )

    def _check_share(self, engine: Engine) -> Iterator[Finding]:
        """The findings about the argument's own value, and about others on the GPU."""
        share = engine.args.given.get("gpu_memory_utilization")
        if not isinstance(share, int | float) or isinstance(share, bool):
            if share is None and "gpu_memory_utilization" not in engine.args.unresolved and _has_others(engine):
                yield from self._together(engine)
                yield from self._assumed(engine, share_of(None, engine.release))
            return
        where = engine.argument("gpu_memory_utilization")
        if share <= 0 and engine.args.given.get("kv_cache_memory_bytes") and not _refuses_zero(engine.release):
            return  # then the share is not used
        if not 0 < share <= 1:
            meant = f", did you mean {share / 100:g}?" if 10 <= share <= 100 else ""  # a percentage
            yield Finding(
                path=where,
                message=f"--gpu-memory-utilization {share:g} is out of range: "
                f"it is a fraction above 0, at most 1{meant}",
            )
            return
        if engine.args.given.get("kv_cache_memory_bytes"):
            return  # then the share is not used (vLLM 0.10.2 and newer)
        if engine.plan.cause == "free-memory" and engine.plan.gpu:
            total, budget = engine.plan.gpu.total, engine.plan.gpu.budget
            yield Finding(
                path=where,
                message=f"--gpu-memory-utilization {share:g} asks for {human(budget.likely)} of the GPU's "
                f"{human(total.likely)}: the CUDA context needs more than what is left",
                details=("vLLM compares this with the free memory before it loads the model, and ends",),
                certainty="certain" if engine.plan.verdict == "does-not-fit" else "likely",
                suggestions=engine.alternatives or _lower(engine, self.maximum),
                computed=bool(engine.alternatives),
                rests_on=("plan.gpu",),
            )
            return
        together = [*self._together(engine), *self._assumed(engine, share)] if _has_others(engine) else []
        yield from together
        shared = engine.gpu is not None and engine.gpu.value.shared
        maximum = self.shared_maximum if shared else self.maximum
        if share > maximum and not together:
            lower = _lower(engine, maximum)
            yield Finding(
                path=where,
                message=f"--gpu-memory-utilization {share:g} leaves {100 * (1 - share):.0f} % of the GPU to the CUDA "
                f"context, NCCL and {'its other users' if shared else 'CUDA graphs'}; at most {maximum:g} is advised",
                certainty="possible",
                details=() if lower else (f"with {maximum:g} the model does not fit, so it needs more or larger GPUs",),
                suggestions=lower,
            )

    def _assumed(self, engine: Engine, share: float) -> Iterator[Finding]:
        """The finding on a share above the memory that others leave free on each GPU, as the policy assumes; none
        without such a policy."""
        free = engine.facts.assume.free_gpu_memory
        if free is None or share <= free or engine.args.given.get("kv_cache_memory_bytes"):
            return
        yield Finding(
            path=engine.argument("gpu_memory_utilization"),
            message=f"--gpu-memory-utilization {share:g} asks for more of the GPU than the {free:g} that are free when "
            "vLLM starts, as the policy assumes",
            certainty="likely",
            suggestions=(change.flags(f"--gpu-memory-utilization {int(100 * free) / 100:g}"),),
        )

    def _together(self, engine: Engine) -> Iterator[Finding]:
        """The finding that the servers of one Pod that may be on one GPU ask for more of it than `maximum` together."""
        servers = servers_on_one_card(engine)
        total = sum(share for _, share in servers)
        if len(servers) < 2 or total <= self.maximum or engine.args.given.get("kv_cache_memory_bytes"):
            return
        part = int(100 * self.maximum / len(servers)) / 100
        yield Finding(
            path=engine.argument("gpu_memory_utilization"),
            message=f"{len(servers)} servers of this Pod may share one GPU and ask for {total:g} of it together; "
            f"at most {self.maximum:g} is there",
            details=tuple(f"{name}: --gpu-memory-utilization {share:g}" for name, share in servers),
            certainty="likely",
            suggestions=(f"--gpu-memory-utilization {part:g} for each",),
        )


def share_of(given: object, running: Release | None) -> float:
    """The share of a GPU that vLLM takes: as given, else the release's default (the newest's if unknown)."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    return default_utilization(running or known_releases()[-1])


def servers_on_one_card(engine: Engine) -> tuple[tuple[str, float], ...]:
    """(container, share) of every vLLM of this Pod that may be given the same shared GPU, this one among them.

    Time-slicing and MPS hand one GPU to several containers that ask for the same resource; whole GPUs and MIG slices
    are handed out once.
    """
    if engine.gpu is None or not engine.gpu.value.shared or engine.requested is None:
        return ()
    return tuple(
        (sibling.container, share_of(sibling.args.given.get("gpu_memory_utilization"), sibling.release))
        for sibling in engine.siblings
        if sibling.requested is not None
        and sibling.requested[0] == engine.requested[0]
        and not sibling.args.given.get("kv_cache_memory_bytes")
    )
