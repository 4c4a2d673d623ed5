"""The tensor-parallel sizes that divide a model: its heads, and the blocks of FP8 weights.

An FP8 checkpoint with a scale for each block of weights is divided only at the edges of blocks. While vLLM loads the
model, it rejects a slice of an MLP that is not a multiple of the block. Routed experts are whole under expert
parallelism. Source: vLLM 0.6.6 … 0.33 quantization/fp8.py, utils/fp8_utils.py validate_fp8_block_shape.
"""

from __future__ import annotations

from typing import NamedTuple

from podfit.vllm.args import EngineArgs
from podfit.vllm.memory import parallel, quantisation
from podfit.vllm.model import Model
from podfit.vllm.release import Release

READ_SINCE = Release(0, 6, 6)
"""The first release whose check was read."""
REFINED = Release(0, 29)
"""From this release on, the scales of routed experts are refined if a slice ends within a block
(weight_scale_refine)."""


class Blocks(NamedTuple):
    """Sizes that tensor parallelism cuts, and the columns that stay together."""

    width: int
    """Columns of the MLP, or of one expert."""
    block: int
    """Columns that have one scale and stay together."""
    experts: bool
    """The columns are those of routed experts."""

    def hold(self, size: int) -> bool:
        """True if each of `size` ranks gets whole blocks; a single rank always fits."""
        return size == 1 or self.width % (size * self.block) == 0


def blocks(args: EngineArgs, model: Model) -> Blocks | None:
    """The blocks between which this release must cut; None if there are none, or that is uncertain.

    Uncertain are an unknown release, a scheme that was derived from a name, and arguments that replace the scheme."""
    config, release = model.quantization_config or {}, args.release
    if model.scheme_guessed or config.get("quant_method") != "fp8" or release is None or release < READ_SINCE:
        return None
    if args.given.get("hf_overrides") or args.quantization not in (None, "fp8"):
        return None
    sides = config.get("weight_block_size")
    if not (isinstance(sides, list) and len(sides) == 2 and all(isinstance(side, int) and side > 0 for side in sides)):
        return None
    has_experts = model.num_experts is not None
    width = model.moe_intermediate_size if has_experts else model.intermediate_size
    scheme = quantisation.scheme(model, None)
    if not width or scheme is None or scheme.experts or scheme.share_kept("experts" if has_experts else "mlp"):
        return None  # the layers that are cut may be stored in another way
    if has_experts and (release >= REFINED or _may_cut_experts_otherwise(args)):
        return None
    return Blocks(width, max(sides), has_experts)


def _may_cut_experts_otherwise(args: EngineArgs) -> bool:
    """True if expert parallelism may keep the experts whole, or other dimensions may cut them further."""
    if args.given.get("enable_expert_parallel") or "enable_expert_parallel" in args.unresolved:
        return True
    dimensions = ("data_parallel_size", "prefill_context_parallel_size")
    return any(dest in args.unresolved or parallel.size(args, dest) > 1 for dest in dimensions)


def divisible(model: Model, size: int, args: EngineArgs) -> bool:
    """True if tensor parallelism of `size` divides the heads and the blocks, and works with the KV heads: one of the
    two numbers is a multiple of the other. False if the number of heads is unknown."""
    heads, key_value_heads = model.num_attention_heads, model.num_key_value_heads
    if heads is None or heads % size:
        return False
    cut = blocks(args, model)
    if cut is not None and not cut.hold(size):
        return False
    return not key_value_heads or key_value_heads % size == 0 or size % key_value_heads == 0
