from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from podfit.rules import gpu_set
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import gpu
from podfit.vllm.change import Suggestion
from podfit.vllm.facts import Fact
from podfit.vllm.gpu import Accelerator
from podfit.vllm.memory import plan
from podfit.vllm.model import Model


class MixedGpuNodes(Rule):
    """The Pod may land on a GPU on which it does not fit.

    `nvidia.com/gpu: 1` is any GPU of the nodes that nodeSelector, affinity and taints leave, and some names mean
    several GPUs (a `Tesla-V100` has 16 or 32 GB). podfit plans each kind. If the plan fits one kind but not another,
    the Pod works until it is scheduled elsewhere, and then fails with `CUDA out of memory`.

    With a cluster, or with a fleet that `--nodes` describes, the kinds are those of the nodes that may run the Pod, the
    16 commonest ones. A nodeSelector for one kind of GPU fixes it. A name that means several sizes is advice: the nodes
    may all have the larger one. The finding is certain if the Pod certainly fails on
    a present node and fits another one, so that a policy may deny it.
    """

    plane = "cluster"
    event = "vLLM exits on some of the nodes"
    threatens = "uptime"
    partly_denies = (
        "where the nodes are not known (watch.nodes in the chart, --nodes), and where only the estimate fails"
    )
    needs = ("model",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if the Pod certainly fails on a present node; likely if only the estimate fails, or its nodes are not
        known. Possible if one name means several sizes.

        None unless the plan fits one kind of GPU and not another."""
        if engine.model is None or engine.facts.gpu_memory is not None:
            return
        if engine.placement is None and engine.gpu is not None and len(engine.gpu.value.gpus) == 1:
            return  # one kind of GPU
        kinds = [(kind, where) for kind, where in _kinds(engine) if not _lacks(engine, kind)]
        if len(kinds) < 2:
            return
        plans = _planned_kinds(engine, engine.model.value, kinds)
        too_small = [planned for planned in plans if planned.result in ("fails", "too small")]
        fitting = sorted(
            [planned for planned in plans if planned.result == "fits"],
            key=lambda planned: min(model.memory for model in planned.accelerator.gpus),
        )
        if not too_small or not fitting:
            return  # the same result everywhere is that of gpu-memory-exceeded
        fails = any(planned.result == "fails" for planned in too_small)
        uncertain = _uncertain(engine) if fails else "the estimate is a range"
        unnamed_size = engine.placement is None and gpu_set.is_one_name(gpu for kind, _ in kinds for gpu in kind.gpus)
        yield Finding(
            path=engine.workload.path / "nodeSelector",
            message=f"it does not fit {_few([planned.name for planned in too_small])}, "
            f"it fits {_few([planned.name for planned in fitting])}",
            details=tuple(f"{planned.name}: {planned.why}" for planned in too_small[: gpu_set.NAMES_PER_SIDE]),
            certainty="possible" if unnamed_size else "likely" if uncertain else "certain",
            uncertain=uncertain,
            rests_on=("model",),
            suggestions=tuple(dict.fromkeys(_selectors(engine, [planned.accelerator for planned in fitting]))),
        )


class PlannedKind(NamedTuple):
    """A kind of GPU that the Pod may get, and the result of its plan."""

    accelerator: Accelerator
    name: str
    """The GPUs and their nodes, for people."""
    result: Literal["fits", "unsure", "too small", "fails"]
    """fails: it certainly does not fit whole GPUs. too small: by the estimate alone, or on a share of a GPU."""
    why: str
    """The plan's reason, for people."""


def _planned_kinds(engine: Engine, model: Model, kinds: Sequence[tuple[Accelerator, str]]) -> list[PlannedKind]:
    """The plan of each kind alone, in their order; without those that can't be planned. `kinds`: those of `_kinds`."""
    planned_kinds = []
    for accelerator, where in kinds:
        planned = plan.judge(engine.args, model, accelerator, env=engine.command.env)
        if planned.ledger is None:
            continue
        result: Literal["fits", "unsure", "too small", "fails"] = "unsure"
        if planned.verdict == "does-not-fit" and not accelerator.shared:
            result = "fails"
        elif planned.verdict == "does-not-fit" or planned.ledger.kv_cache.likely <= 0:
            result = "too small"
        elif planned.verdict == "fits":
            result = "fits"
        name = f"{accelerator.name} ({where})" if where else accelerator.name
        planned_kinds.append(PlannedKind(accelerator=accelerator, name=name, result=result, why=planned.why))
    return planned_kinds


def _kinds(engine: Engine) -> Iterator[tuple[Accelerator, str]]:
    """(kind of GPU, text that names its nodes) for each kind that the Pod may get, even if other nodes name none. The
    text is empty if the object or the policy names the GPU."""
    if engine.gpu is not None:
        yield from gpu.on_nodes(engine.gpu, engine.placement, engine.workload)
    elif engine.placement is not None and engine.requested is not None:
        resource, count = engine.requested
        known = Fact(Accelerator((), count, resource), "", may_deny=False)
        yield from gpu.on_nodes(known, engine.placement, engine.workload)


def _lacks(engine: Engine, kind: Accelerator) -> bool:
    """True if the container can't run on any GPU of the kind for another reason than memory, which another rule
    reports."""
    return all(gpu_set.lack(engine, product) is not None for product in kind.gpus)


def _few(names: Sequence[str]) -> str:
    """At most NAMES_PER_SIDE of the names, and the number of the others: "an L4 or an A10G or 2 more"."""
    texts, more = names[: gpu_set.NAMES_PER_SIDE], len(names) - gpu_set.NAMES_PER_SIDE
    return " or ".join(texts) + (f" or {more} more" if more > 0 else "")


def _uncertain(engine: Engine) -> str | None:
    """Why it is not certain that the Pod may land where it fails; None if it is."""
    placement = engine.placement
    if placement is None:
        return "the manifest does not show on which node the Pod will run"
    if placement.held:
        return "a scheduling gate or a Kueue queue decides later where the Pod runs"
    if not placement.fresh:
        return "the nodes are not known in their present state"
    return engine.doubt


def _selectors(engine: Engine, fitting: Sequence[Accelerator]) -> Iterator[Suggestion]:
    """A node selector for each of the first NAMES_PER_SIDE kinds on which all vLLM containers of the Pod fit; none for
    a GPU without a label."""
    for accelerator in fitting[: gpu_set.NAMES_PER_SIDE]:
        for product in accelerator.gpus:
            if product.labels and gpu_set.fits_whole_pod(engine, product):
                yield gpu.advice.of_product(engine.workload.spec, product.labels[0])
