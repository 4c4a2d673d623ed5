from __future__ import annotations

from collections.abc import Iterator

from podfit.rules import _flags, _parallel
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.change import Change
from podfit.vllm.memory import division, parallel
from podfit.vllm.model import Model


class TensorParallelIndivisible(Rule):
    """The tensor-parallel size does not divide the model's attention heads or FP8 blocks.

    Each rank takes an equal share of the attention heads (vLLM config/model.py, verify_with_parallel_config):

        ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (3).

    Key-value heads are split too, or copied if there are fewer of them than ranks: one number must divide the other.

    FP8 checkpoints with a scale for each block of 128 × 128 weights are split between blocks, not within one (vLLM
    quantization/fp8.py). If a slice of an MLP is not a multiple of the block, vLLM fails while it loads the model.
    Routed experts are split within a block from 0.29 on; with --enable-expert-parallel they are not split:

        ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n =
        128.
    """

    plane = "config"
    event = "vLLM exits before it loads the model"
    mode = "deny"
    needs = ("model", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: both numbers are known, unless the code that compares them is changed; how vLLM cuts blocks is known
        of its own image."""
        size = engine.args.get("tensor_parallel_size")
        model = engine.model.value if engine.model else None
        if model is None or not isinstance(size, int) or size < 2 or "tensor_parallel_size" in engine.args.unresolved:
            return
        heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
        cut = division.blocks(engine.args, model)
        where = engine.argument("tensor_parallel_size")
        if heads and heads % size:
            yield Finding(
                path=where,
                certainty="likely" if _flags.is_changed(engine) else "certain",
                message=f"{heads} attention heads of {model.id} can't be split over --tensor-parallel-size {size}",
                suggestions=_sizes(engine, model, size, cut),
            )
        elif not model.kv_lora_rank and not _divides(kv_heads, size):
            yield Finding(
                path=where,
                certainty="likely" if _flags.is_changed(engine) else "certain",
                message=f"{kv_heads} key-value heads of {model.id} and --tensor-parallel-size {size}: "
                "neither divides the other",
                suggestions=_sizes(engine, model, size, cut),
            )
        elif cut and not cut.hold(size):
            what = "experts" if cut.experts else "MLP"
            names = (change.flags("--enable-expert-parallel"),) if cut.experts else ()
            yield Finding(
                path=where,
                certainty=_flags.certainty(engine),
                message=f"--tensor-parallel-size {size} gives each rank {cut.width / size:g} of the {cut.width} "
                f"columns of {model.id}'s {what}: vLLM {engine.release} does not split its FP8 blocks of {cut.block}",
                suggestions=(*names, *_sizes(engine, model, size, cut)),
            )


def _sizes(engine: Engine, model: Model, size: int, cut: division.Blocks | None) -> tuple[Change, ...]:
    """The next smaller and the next larger valid size, or the next two."""
    heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
    fits = [n for n in range(1, 17) if heads and heads % n == 0 and _divides(kv_heads, n) and (not cut or cut.hold(n))]
    near = [n for n in (max((n for n in fits if n < size), default=0), *(n for n in fits if n > size)) if n]
    near = [n for n in near if _parallel.may_fit(engine, {"tensor_parallel_size": n})][:2] or near[:2]
    rest = (parallel.gpus_needed(engine.args) or size) // size
    count = engine.requested[1] if engine.requested else None
    return tuple(_change_to(n, n * rest, count) for n in near)


def _change_to(size: int, needed: int, requested: int | None) -> Change:
    """The tensor-parallel size, with the number of GPUs that it needs if the container requests another one (None:
    unknown)."""
    flag = f"--tensor-parallel-size {size}"
    if requested in (None, needed):
        return change.flags(flag)
    return Change(f"{flag} with {needed} GPUs", flags=(flag,), gpus=needed)


def _divides(kv_heads: int | None, size: int) -> bool:
    """True if `size` ranks can divide the key-value heads, or hold copies of them."""
    return not kv_heads or kv_heads % size == 0 or size % kv_heads == 0
