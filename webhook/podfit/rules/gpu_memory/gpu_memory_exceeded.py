from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human
from podfit.rules import _shortage, gpu_set
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule, lines
from podfit.vllm.memory import quantisation
from podfit.vllm.memory.ledger import GpuLedger
from podfit.vllm.memory.verdict import of_compile_cache


class GpuMemoryExceeded(Rule):
    """The model's weights leave no GPU memory for a KV cache.

    vLLM may use `--gpu-memory-utilization` of each GPU's memory (0.9; 0.92 from v0.20). The weights of this rank, the
    activations of one full batch, and from v0.20 the CUDA graphs come out of that budget; the rest is the KV cache.
    If nothing is left, the process ends while it starts, with one of

        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate …
        ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` …

    and Kubernetes restarts it forever. The denial is based on the certain minimum of every line of the memory table and
    on the largest memory ever seen for this GPU. Tensor parallelism divides the weights; a shorter context does not.

    With `--quantization fp8` and a checkpoint in 16 bits, vLLM before v0.16 first puts all weights on the GPU in 16
    bits and then quantizes them. The 16-bit weights must therefore fit the GPU's memory. From v0.16 on vLLM quantizes
    each layer as it is loaded. A checkpoint that is stored in FP8 takes 8 bits from the start.
    """

    plane = "gpu"
    event = "vLLM exits: CUDA out of memory, or no memory for the KV cache"
    mode = "deny"
    needs = ("model",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if even the minimum values exceed the budget; else likely or possible, by the estimate's range."""
        yield from gpu_set.on_each(engine, self._check)

    def _check(self, engine: Engine) -> Iterator[Finding]:
        """The findings for a known GPU: that the weights do not fit while they load, or leave nothing for the KV cache.
        None if something is likely left."""
        ledger = engine.plan.gpu
        if ledger is None:
            return
        name = gpu_set.planned_name(engine)
        if engine.plan.cause == "loading":
            yield self._while_loading(engine, ledger, name)
            return
        if ledger.kv_cache.likely > 0:
            return
        weights, budget = ledger.weights.likely, ledger.budget.likely
        rest = budget - weights - ledger.kv_cache.likely
        note, least = ledger.weights.note, "at least " if ledger.weights.is_bound else ""
        certain = engine.plan.verdict == "does-not-fit" and ledger.kv_cache.floor <= 0
        certainty, limited = _shortage.of_kv_cache(engine, ledger, 0)
        yield Finding(
            path=engine.command.path,
            message=f"short by {least}{human(-ledger.kv_cache.likely)} on each GPU before any KV cache: "
            f"weights {least}{human(weights)} and {human(rest)} of "
            f"activations and runtime, of {human(budget)} that vLLM may use ({name})",
            details=lines(
                _on_others(engine),
                "" if certain else limited,
                engine.v0_reason or "",
                of_compile_cache(ledger, 0),
                f"weights: {note}" if note not in ("", human(weights)) else "",
                f"budget: {ledger.budget.note}",
            ),
            certainty="certain" if certain else certainty or "possible",
            of_vllm=None if ledger.weights.floor <= ledger.total.high else False,  # no release puts them on this GPU
            suggestions=engine.alternatives,
            computed=True,
            rests_on=gpu_set.RESTS_ON,
            yields_to=gpu_set.reported_by(engine),
        )

    def _while_loading(self, engine: Engine, ledger: GpuLedger, name: str) -> Finding:
        """The finding that the weights do not fit before they are quantized."""
        estimate, streamed = ledger.loading or ledger.weights, quantisation.STREAMED.get(engine.args.quantization or "")
        later = (
            f"; from v{streamed.major}.{streamed.minor} on each layer is quantized as it is loaded" if streamed else ""
        )
        return Finding(
            path=engine.argument("quantization"),
            message=f"all weights are on each GPU in 16 bits before vLLM quantizes them: {human(estimate.likely)}, and "
            f"{name} has {human(ledger.total.likely)}",
            details=(
                f"quantized they take {human(ledger.weights.likely)}{later}",
                "a checkpoint that is stored in FP8 takes 8 bits a weight from the start",
            ),
            certainty="certain" if engine.plan.verdict == "does-not-fit" else "likely",
            suggestions=engine.alternatives,
            computed=True,
            rests_on=gpu_set.RESTS_ON,
            yields_to=gpu_set.reported_by(engine),
        )


def _on_others(engine: Engine) -> str:
    """Where it fits, if the GPUs that it may get differ. Not at admission: the warning has no room for it."""
    if engine.gpu is None or not engine.facts.plans_table or not gpu_set.differs(engine):
        return ""
    return gpu_set.sentence(engine) or ""
