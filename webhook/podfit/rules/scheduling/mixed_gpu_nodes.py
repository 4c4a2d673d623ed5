from __future__ import annotations

from collections.abc import Iterator, Sequence

from podfit.rules import gpu_set
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import gpu
from podfit.vllm.change import Suggestion
from podfit.vllm.facts import Fact
from podfit.vllm.gpu import Accelerator
from podfit.vllm.memory import plan


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
        """Plans each kind alone: the same planner as for one."""
        if engine.model is None or engine.facts.gpu_memory is not None:
            return
        if engine.placement is None and engine.gpu is not None and len(engine.gpu.value.gpus) == 1:
            return  # nothing is mixed: the plan's own
        kinds = [(kind, where) for kind, where in _kinds(engine) if not _lacks(engine, kind)]
        if len(kinds) < 2:
            return
        too_small: list[str] = []
        fitting: list[Accelerator] = []
        fails = False
        for accelerator, where in kinds:
            release_plan = plan.judge(engine.args, engine.model.value, accelerator, env=engine.command.env)
            if release_plan.ledger is None:
                continue
            if release_plan.verdict == "does-not-fit" or release_plan.ledger.kv_cache.likely <= 0:
                too_small.append(f"{_name_with_nodes(accelerator, where)}: {release_plan.why}")
                fails = fails or (release_plan.verdict == "does-not-fit" and not accelerator.shared)
            elif release_plan.verdict == "fits":
                fitting.append(accelerator)
        if not too_small or not fitting:
            return  # it is as small, or as unsure, everywhere: gpu-memory-exceeded speaks of it
        fitting.sort(key=lambda accelerator: min(model.memory for model in accelerator.gpus))
        where_to = dict(kinds)
        uncertain = _uncertain(engine) if fails else "the estimate is a range"
        unnamed_size = engine.placement is None and gpu_set.is_one_name(gpu for kind, _ in kinds for gpu in kind.gpus)
        yield Finding(
            path=engine.workload.path / "nodeSelector",
            message=f"it does not fit {_few([text.partition(': ')[0] for text in too_small])}, "
            f"it fits {_few([_name_with_nodes(kind, where_to[kind]) for kind in fitting])}",
            details=tuple(too_small[: gpu_set.NAMES_PER_SIDE]),
            certainty="possible" if unnamed_size else "likely" if uncertain else "certain",
            uncertain=uncertain,
            rests_on=("model",),
            suggestions=tuple(dict.fromkeys(_selectors(engine, fitting))),
        )


def _kinds(engine: Engine) -> Iterator[tuple[Accelerator, str]]:
    """(kind of GPU, text that names its nodes) for each kind that the Pod may get, even if other nodes name none."""
    if engine.gpu is not None:
        yield from gpu.on_nodes(engine.gpu, engine.placement, engine.workload)
    elif engine.placement is not None and engine.requested is not None:
        resource, count = engine.requested
        known = Fact(Accelerator((), count, resource), "", may_deny=False)
        yield from gpu.on_nodes(known, engine.placement, engine.workload)


def _lacks(engine: Engine, kind: Accelerator) -> bool:
    """True if the container can't run on the kind for another reason, which another rule reports."""
    return all(gpu_set.lack(engine, product) is not None for product in kind.gpus)


def _name_with_nodes(accelerator: Accelerator, where: str) -> str:
    return f"{accelerator.name} ({where})" if where else accelerator.name


def _few(names: Sequence[str]) -> str:
    """At most NAMES_PER_SIDE names, and how many more there are."""
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
    """The change for each kind on which all containers of the Pod fit."""
    for accelerator in fitting[: gpu_set.NAMES_PER_SIDE]:
        for product in accelerator.gpus:
            if product.labels and gpu_set.fits_whole_pod(engine, product):
                yield gpu.advice.of_product(engine.workload.spec, product.labels[0])
