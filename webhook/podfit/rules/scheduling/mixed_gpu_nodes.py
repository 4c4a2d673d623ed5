"""Rule mixed-gpu-nodes."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import gpu
from podfit.vllm.memory import plan


class MixedGpuNodes(Rule):
    """The Pod may land on a GPU on which it does not fit.

    `nvidia.com/gpu: 1` is any GPU of the nodes that nodeSelector, affinity and taints leave, and some names mean
    several GPUs (a `Tesla-V100` has 16 or 32 GB). podfit plans each kind. If the plan fits one kind but not another,
    the Pod works until it is scheduled elsewhere, and then fails with `CUDA out of memory`.

    With a cluster the kinds are those of its current nodes. Nodes come and go, so this is never more than a warning. A
    nodeSelector for one kind of GPU fixes it.
    """

    plane = "cluster"
    event = "vLLM exits on some of the nodes"
    of_vllm = False
    threatens = "uptime"
    mode = "warn"
    never_denies = "the manifest does not show on which node the Pod will run"
    needs = ("model", "gpu")
    about = ("live nodes", "several products")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Plans each kind alone: the same planner as for one."""
        if engine.model is None or engine.gpu is None or engine.facts.gpu_memory is not None:
            return
        if engine.placement is None and len(engine.gpu.value.gpus) == 1:
            return  # nothing is mixed: the plan's own
        kinds = list(gpu.on_nodes(engine.gpu, engine.placement))
        if len(kinds) < 2:
            return
        too_small: list[str] = []
        fitting: list[str] = []
        labels: list[str] = []
        for accelerator, where in kinds:
            judged = plan.judge(engine.args, engine.model.value, accelerator, env=engine.command.env)
            if judged.ledger is None:
                continue
            at = f" ({where})" if where else ""
            if judged.verdict == "does-not-fit" or judged.ledger.kv_cache.likely <= 0:
                too_small.append(f"{accelerator.name}{at}: {judged.why}")
            elif judged.verdict == "fits":
                fitting.append(f"{accelerator.name}{at}")
                labels += [one.labels[0] for one in accelerator.gpus if one.labels]
        if not too_small or not fitting:
            return  # it is as small, or as unsure, everywhere: gpu-memory-exceeded speaks of it
        small = " or ".join(text.partition(": ")[0] for text in too_small)
        yield Finding(
            path=engine.workload.path / "nodeSelector",
            message=f"it does not fit {small}, it fits {' or '.join(fitting)}",
            details=tuple(too_small),
            certainty="likely",
            suggestions=tuple(dict.fromkeys(gpu.advice.of_product(engine.workload.spec, label) for label in labels)),
        )
