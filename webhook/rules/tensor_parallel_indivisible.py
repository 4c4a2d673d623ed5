"""Rule tensor-parallel-indivisible."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.memory import parallel
from webhook.rule import Finding, Rule


class TensorParallelIndivisible(Rule):
    """The tensor-parallel size does not divide the model's attention heads.

    Each rank takes an equal share of the attention heads (vLLM config/model.py, verify_with_parallel_config):

        ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3).

    Key-value heads are split too, or copied where there are fewer of them than ranks: one number must divide the
    other.
    """

    plane = "config"
    mode = "deny"
    needs = ("model",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: both numbers are known."""
        size = engine.args.get("tensor_parallel_size")
        model = engine.model.value if engine.model else None
        if model is None or not isinstance(size, int) or size < 2 or "tensor_parallel_size" in engine.args.unresolved:
            return
        heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
        fits = [n for n in range(1, 17) if heads and heads % n == 0 and _shares(kv_heads, n)]
        near = [n for n in (max((n for n in fits if n < size), default=0), *(n for n in fits if n > size)) if n][:2]
        rest = (parallel.gpus_needed(engine.args) or size) // size
        count = engine.requested[1] if engine.requested else None
        suggestions = tuple(
            f"--tensor-parallel-size {n}" + (f" with {n * rest} GPUs" if count not in (None, n * rest) else "")
            for n in near
        )
        where = engine.argument("tensor_parallel_size")
        if heads and heads % size:
            yield Finding(
                path=where,
                message=f"{heads} attention heads of {model.id} can't be split over --tensor-parallel-size {size}",
                suggestions=suggestions,
            )
        elif not model.kv_lora_rank and not _shares(kv_heads, size):
            yield Finding(
                path=where,
                message=f"{kv_heads} key-value heads of {model.id} and --tensor-parallel-size {size}: "
                "neither divides the other",
                suggestions=suggestions,
            )


def _shares(kv_heads: int | None, size: int) -> bool:
    return not kv_heads or kv_heads % size == 0 or size % kv_heads == 0
