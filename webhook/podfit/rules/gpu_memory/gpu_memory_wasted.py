from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.kube.quantity import human
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, parameter
from podfit.vllm.memory import division, solve


@dataclass(frozen=True)
class GpuMemoryWasted(Rule):
    """Fewer GPUs would hold the model, its context and its load.

    `--tensor-parallel-size` is often copied from a larger model. If one GPU holds the weights and a KV cache for many
    full-length requests, an engine on four GPUs is little faster than on one. Every layer waits for the other GPUs over
    NVLink or PCIe. The freed GPUs can run replicas. Keep the larger size if measured latency requires it.
    """

    plane = "gpu"
    event = "GPUs are reserved that the model does not need"
    threatens = "practice"
    never_denies = "memory estimates show nothing about latency"
    where = frozenset({"check", "scan"})
    needs = ("model", "gpu", "plan.gpu")

    requests: float = parameter(16.0, "full-length requests that the fewer GPUs must hold at once", ge=1)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Possible: memory estimates show nothing about latency. None unless the plan certainly fits in one Pod, and
        fewer ranks hold the requests, too."""
        ledger = engine.plan.gpu
        if engine.model is None or engine.gpu is None or ledger is None or engine.plan.verdict != "fits":
            return
        size = engine.args.given.get("tensor_parallel_size")
        if engine.doubt or engine.spans_pods or not isinstance(size, int) or size < 2:
            return
        if not division.divisible(engine.model.value, size, engine.args):
            return  # it does not start: tensor-parallel-indivisible speaks of that
        needed, many = self.requests, engine.args.given.get("max_num_seqs")
        if isinstance(many, int) and self.requests < many <= (ledger.max_concurrency or 0):
            needed = many  # the author says how many there are, and these GPUs hold them all
        fewer = solve.fewer_ranks(
            engine.args, engine.model.value, engine.gpu.value, env=engine.command.env, requests=needed
        )
        if fewer is None:
            return
        yield Finding(
            path=engine.argument("tensor_parallel_size"),
            message=f"weights take {human(ledger.weights.likely)} of each GPU's {human(ledger.total.likely)}: "
            f"--tensor-parallel-size {fewer} holds the model and {needed:g} requests of "
            f"{ledger.max_model_len or 0:,} tokens at once",
            certainty="possible",
            suggestions=(f"--tensor-parallel-size {fewer}, and the GPUs freed as more replicas",),
            yields_to=("gpu-count-mismatch",),
        )
