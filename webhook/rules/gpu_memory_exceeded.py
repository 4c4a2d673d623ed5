"""Rule gpu-memory-exceeded."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.quantity import human
from webhook.rule import Finding, Rule


class GpuMemoryExceeded(Rule):
    """The model's weights leave no GPU memory for a KV cache.

    vLLM may use `--gpu-memory-utilization` of each GPU's memory (0.9; 0.92 from v0.20). The weights of this rank, the
    activations of one full batch, and from v0.20 the CUDA graphs come out of that budget; the rest is the KV cache.
    Where nothing is left the process dies while it starts, with one of

        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate …
        ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` …

    and Kubernetes restarts it for ever. The denial rests on the certain minimum of every line of the ledger and on
    the largest memory ever seen for the product. Tensor parallelism divides the weights; a context length does not.
    """

    plane = "gpu"
    mode = "deny"
    needs = ("model", "gpu", "plan.gpu")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain where even the floors exceed the budget, likely where the likely values do."""
        ledger = engine.plan.gpu
        if ledger is None or ledger.kv_cache.likely > 0:
            return
        name = engine.gpu.value.name if engine.gpu else "GPU"
        weights, budget = ledger.weights.likely, ledger.budget.likely
        rest = budget - weights - ledger.kv_cache.likely
        short = human(-ledger.kv_cache.likely)
        missing = f"{short} {'is' if short.startswith('1 ') else 'are'} missing"
        certain = engine.plan.verdict == "does-not-fit" and ledger.kv_cache.floor <= 0
        yield Finding(
            path=engine.command.path,
            message=f"{missing} on each GPU before any KV cache: weights {human(weights)} and {human(rest)} of "
            f"activations and runtime, of {human(budget)} that vLLM may use ({name})",
            details=(
                f"weights: {ledger.weights.note or human(weights)}",
                f"budget: {ledger.budget.note}",
            ),
            certainty="certain" if certain else "likely",
            suggestions=engine.alternatives,
            computed=True,
        )
