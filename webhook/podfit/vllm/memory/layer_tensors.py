"""The types in which a layer's tensors are counted, and the parts that only some families have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from podfit.vllm.model import Model
from podfit.vllm.model.read import mapping

Cut = Literal["column", "key-value", "whole", "experts"]
"""`column`: divided by TP. `key-value`: by min(TP, KV heads). `whole`: on every rank. `experts`: by TP × DP."""
Group = Literal["attention", "linear", "mlp", "experts", "shared", "rest"]
"""For quantization: checkpoints leave whole groups in the model's dtype. `rest` is never quantized."""


class LayerTensors(NamedTuple):
    """Some tensors of one layer."""

    elements: int
    cut: Cut
    group: Group


Layer = tuple[LayerTensors, ...]


def least(variants: Sequence[Layer]) -> Layer:
    """The tensors that a layer of any variant has at least: for each cut and group, the least number of elements. Those
    that a variant lacks are left out. `variants`: at least one."""
    totals = [Counter[tuple[Cut, Group]]() for _ in variants]
    for total, layer in zip(totals, variants, strict=True):
        for part in layer:
            total[part.cut, part.group] += part.elements
    tensors = []
    for cut, group in totals[0]:
        elements = min(total[cut, group] for total in totals)
        if elements:
            tensors.append(LayerTensors(elements, cut, group))
    return tuple(tensors)


def number(config: Mapping[str, Any], *keys: str) -> int | None:
    """The first of `keys` with a positive whole number; None if no key has one."""
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def numbers(config: Mapping[str, Any], key: str) -> tuple[int, ...]:
    """A list of whole numbers, () if there is none."""
    value = config.get(key)
    return tuple(value) if isinstance(value, list) and all(isinstance(item, int) for item in value) else ()


LINEAR = -1
"""In a `Block`: one linear layer replaces the attention or the MLP."""


class Block(NamedTuple):
    """One layer of a NAS model (`block_configs`)."""

    heads_in_group: int
    """Query heads per key-value head; 0 without attention, or LINEAR."""
    width: int
    """Width of the MLP; 0 without one, or LINEAR."""


def block(model: Model, index: int) -> Block | None:
    """The block of the layer with this index; None if config.json does not describe it.

    The MLP is two thirds of `ffn_mult` × hidden size, rounded up to 256 (vLLM 0.33 models/nemotron_nas.py). A factor of
    100 and more is taken for a mistake."""
    blocks = model.config.get("block_configs")
    block_config = blocks[index] if isinstance(blocks, list) and index < len(blocks) else None
    if not isinstance(block_config, Mapping):
        return None
    attention, ffn = mapping(block_config.get("attention")) or {}, mapping(block_config.get("ffn")) or {}
    factor = ffn.get("ffn_mult")
    width = 0
    if isinstance(factor, int | float) and 0 < factor < 100:
        width = -(-int(2 * factor * (model.hidden_size or 0) / 3) // 256) * 256
    heads = number(attention, "n_heads_in_group") or 0
    return Block(
        heads_in_group=LINEAR if attention.get("replace_with_linear") else heads,
        width=LINEAR if ffn.get("replace_with_linear") else width,
    )


def nas_layer(model: Model, hidden: int, block: Block) -> Layer | None:
    """The tensors of one layer of a NAS model (`block`), empty if it has neither attention nor MLP. None without the
    number or width of the heads."""
    heads, width = model.num_attention_heads, model.head_dim
    if not heads or not width:
        return None
    items = []
    if block.heads_in_group > 0:
        # queries and output; keys and values
        items.append(LayerTensors(2 * hidden * heads * width, "column", "attention"))
        items.append(LayerTensors(2 * hidden * heads // block.heads_in_group * width, "key-value", "attention"))
    if block.width > 0:
        items.append(LayerTensors(3 * hidden * block.width, "column", "mlp"))
    linear_layers = (block.heads_in_group == LINEAR) + (block.width == LINEAR)
    if linear_layers:
        items.append(LayerTensors(linear_layers * hidden * hidden, "column", "mlp"))
    return tuple(items)


def latent_attention(model: Model, hidden: int) -> Layer | None:
    """Multi-head latent attention: down-projections whole on every rank, up-projections by heads. None if a size is
    unknown."""
    latent, rope, nope = model.kv_lora_rank, model.qk_rope_head_dim, model.qk_nope_head_dim
    values, heads = model.v_head_dim, model.num_attention_heads
    if not latent or rope is None or nope is None or not values or not heads:
        return None
    total = hidden * (latent + rope)
    column = latent * heads * (nope + values) + heads * values * hidden
    if model.q_lora_rank:
        total += hidden * model.q_lora_rank
        column += model.q_lora_rank * heads * (nope + rope)
    else:
        column += hidden * heads * (nope + rope)
    if model.config.get("mla_use_output_gate") is True:  # Kimi-K3
        column += hidden * heads * values
    if model.index_head_dim:  # DeepSeek sparse attention's indexer
        indexers = number(model.config, "index_n_heads") or USUAL_INDEXERS
        total += (model.q_lora_rank or hidden) * indexers * model.index_head_dim + hidden * model.index_head_dim
    return (LayerTensors(column, "column", "attention"), LayerTensors(total, "whole", "attention"))


USUAL_INDEXERS = 64
"""Heads of an indexer if config.json does not state them: those of DeepSeek-V3.2 and V4."""


def grouped_output_attention(model: Model, hidden: int, compression: int) -> Layer:
    """The tensors of DeepSeek-V4's attention; () for other models (vLLM 0.27 models/deepseek_v4/attention.py,
    compressor.py).

    Queries and output are low-rank, the output in `o_groups` groups; one latent vector is key and value. Layers whose
    `compression` is 4 or 128 tokens also have a compressor, those of 4 an indexer with its own compressor. Compressors
    and the indexer's weights are never quantized; a compression of 4 overlaps, which doubles their width.
    """
    config, heads, width, queries = model.config, model.num_attention_heads, model.head_dim, model.q_lora_rank
    groups, output = number(config, "o_groups"), number(config, "o_lora_rank")
    if not groups or not output or not heads or not width or not queries or model.kv_lora_rank:
        return ()
    column = queries * heads * width + heads * width * output + groups * output * hidden
    total, plain = hidden * (queries + width), 0
    if compression > 1:
        overlap = 2 if compression == 4 else 1
        plain += 2 * hidden * overlap * width
        if compression == 4 and model.index_head_dim:
            indexers = number(config, "index_n_heads") or USUAL_INDEXERS
            total += queries * indexers * model.index_head_dim
            plain += hidden * indexers + 2 * hidden * overlap * model.index_head_dim
    tensors = (LayerTensors(column, "column", "attention"), LayerTensors(total, "whole", "attention"))
    return (*tensors, LayerTensors(plain, "whole", "rest")) if plain else tensors


def latent_width(config: Mapping[str, Any]) -> int | None:
    """The width at which routed experts work, if it is not the hidden size: two replicated projections lead there and
    back (Kimi-K3, vLLM 0.27 models/kimi_k3/nvidia/model.py; Nemotron 3, vLLM 0.15 models/nemotron_h.py)."""
    return number(config, "routed_expert_hidden_size", "moe_latent_size")


def additional_tensors(model: Model, hidden: int) -> Layer:
    """Tensors that some families have in addition to mixer and MLP.

    These are inputs of each layer (Gemma 3n, 4 E), Laurel (3n), a residual MLP next to the experts (Arctic), and cross
    attention (Whisper, BART).
    """
    config, items = model.config, []
    if per_layer := number(config, "hidden_size_per_layer_input"):
        items.append(LayerTensors(2 * hidden * per_layer, "whole", "rest"))
    if rank := number(config, "laurel_rank"):
        items.append(LayerTensors(2 * hidden * rank, "whole", "rest"))
    if config.get("parallel_attn_mlp_res") is True and model.num_experts:
        items.append(LayerTensors(3 * hidden * hidden, "column", "mlp"))
    if _has_encoder(model):
        items.append(LayerTensors(4 * hidden * hidden, "column", "attention"))
    return tuple(items)


def _has_encoder(model: Model) -> bool:
    """True if the model is an encoder-decoder whose config.json states the number of encoder layers."""
    return model.config.get("is_encoder_decoder") is True and number(model.config, "encoder_layers") is not None


def encoder(model: Model, hidden: int) -> int:
    """Parameters of the encoder of Whisper (with its convolutions and positions) or BART; 0 for other models."""
    if not _has_encoder(model):
        return 0
    config = model.config
    layers, inner = number(config, "encoder_layers") or 0, number(config, "encoder_ffn_dim") or 4 * hidden
    bins, positions = number(config, "num_mel_bins"), number(config, "max_source_positions") or 0
    convolutions = (3 * bins + 3 * hidden) * hidden if bins else 0  # two, over three frames each
    attention, mlp = 4 * hidden * hidden, 2 * hidden * inner
    return layers * (attention + mlp) + convolutions + hidden * positions
