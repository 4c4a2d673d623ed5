"""config.json → Model, with transformers' defaults and the different key names of model families."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from podfit.base import data
from podfit.vllm.model.layers import layer_types_of
from podfit.vllm.model.length import stated_context_length
from podfit.vllm.model.read import attention_of, first_integer, integer, mapping, strings, text_of
from podfit.vllm.model.shape import MAX_LAYERS, Model

NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "language_model_config")
"""Fields for the language model in multimodal configs (vLLM 0.33 transformers_utils/config.py, get_hf_text_config)."""
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")
KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups",
                   "num_query_groups")  # fmt: skip
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
INTERMEDIATE = ("intermediate_size", "ff_intermediate_size", "block_ff_dim", "ffn_hidden_size", "n_inner", "ffn_dim",
                "decoder_ffn_dim")  # fmt: skip
VOCABULARY = ("vocab_size", "padded_vocab_size")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")
EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k", "moe_topk")
SHARED_EXPERTS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
MOE_INTERMEDIATE = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size")
DENSE_LAYERS = ("first_k_dense_replace", "num_dense_layers")
NEXT_TOKEN_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_num_layers")

UNDECLARED_MTP_LAYERS = {"qwen3_next": 1}
"""Families whose checkpoints have layers for multi-token prediction that config.json does not list (vLLM 0.33
models/qwen3_next_mtp.py)."""


def from_config(
    id: str,  # noqa: A002 - a model's id, as the hub calls it
    config: Mapping[str, Any],
    *,
    weights_bytes: int | None = None,
    complete: bool = True,
) -> Model:
    """The model of a config.json; invalid values count as absent; never raises.

    `complete`: `config` is the whole file, so missing fields get transformers' class defaults. A row of a library's
    table may lack a null that the file has; for such a row, a window of all layers must not be assumed.
    """
    given = language_model_config(config)
    whole_type, own_type = text_of(config.get("model_type")), text_of(given.get("model_type"))
    beneath = {**_class_defaults(whole_type), **_class_defaults(own_type)}
    if not complete and "layer_pattern" not in beneath:
        beneath.pop("sliding_window", None)
    text = {**beneath, **given}  # an explicit null is a value: no window, as many key-value heads as heads

    heads, hidden = first_integer(text, HEADS), first_integer(text, HIDDEN)
    layers = (
        first_integer(text, ("decoder_layers",)) if text.get("is_encoder_decoder") is True else None
    ) or first_integer(text, LAYERS)
    layer_types = layer_types_of(text, given, min(layers, MAX_LAYERS) if layers else None)
    experts = first_integer({key: given[key] for key in EXPERTS if key in given} or text, EXPERTS)
    if layer_types and "mamba" in layer_types and "moe" not in layer_types and "hybrid_override_pattern" in text:
        experts = None  # the class's default applies only to its variants with experts
    return Model(
        id=id,
        model_type=whole_type or own_type,
        architectures=strings(config.get("architectures")) or strings(given.get("architectures")),
        torch_dtype=_dtype(config, given),
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=_key_value_heads(text, heads),
        head_dim=_head_dim(text, hidden, heads),
        intermediate_size=first_integer(text, INTERMEDIATE),
        vocab_size=first_integer(text, VOCABULARY),
        tie_word_embeddings=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        max_position_embeddings=stated_context_length(text),
        length_read=complete and stated_context_length(given) is not None,
        sliding_window=_sliding_window(text),
        layer_types=layer_types,
        num_experts=experts if experts and experts > 1 else None,
        num_experts_per_tok=first_integer(text, EXPERTS_PER_TOKEN) if experts and experts > 1 else None,
        moe_intermediate_size=first_integer(text, MOE_INTERMEDIATE) if experts and experts > 1 else None,
        n_shared_experts=first_integer(text, SHARED_EXPERTS) if experts and experts > 1 else None,
        first_k_dense_replace=first_integer(text, DENSE_LAYERS) or 0,
        kv_lora_rank=integer(text.get("kv_lora_rank")),
        q_lora_rank=integer(text.get("q_lora_rank")),
        qk_rope_head_dim=integer(text.get("qk_rope_head_dim")),
        qk_nope_head_dim=integer(text.get("qk_nope_head_dim")),
        v_head_dim=integer(text.get("v_head_dim")),
        index_head_dim=integer(text.get("index_head_dim")),
        num_nextn_predict_layers=first_integer(text, NEXT_TOKEN_LAYERS) or UNDECLARED_MTP_LAYERS.get(own_type or "", 0),
        quantization_config=_quantization(config, given),
        vision_config=mapping(given.get("vision_config")),
        weights_bytes=weights_bytes,
        config=text,
    )


def language_model_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's config merged over the outer one."""
    for key in NESTED:
        inner = config.get(key)
        if isinstance(inner, Mapping) and inner:
            return {**{k: v for k, v in config.items() if k != key}, **language_model_config(inner)}
    if config.get("model_type") == "dbrx" and isinstance(ffn := config.get("ffn_config"), Mapping):
        return {**config, **{k: v for k, v in ffn.items() if k.startswith(("moe_", "ffn_"))}}
    return dict(config)


def _class_defaults(model_type: str | None) -> dict[str, Any]:
    """The defaults of transformers' config class for a model_type."""
    row = data.rows("model_defaults").get(model_type or "")
    entries: dict[str, Any] = json.loads(row) if row else {}
    entries.pop("mamba_ssm_cache_dtype", None)  # vLLM has defaults of its own, by release (memory/kv_specs.py)
    return entries


def _dtype(config: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    """`dtype` since transformers 4.56, `torch_dtype` before; the language model's first, as vLLM reads it."""
    items = (item.get(key) for item in (given, config) for key in ("dtype", "torch_dtype"))
    dtype = next((value for value in items if isinstance(value, str)), None)
    return dtype.removeprefix("torch.") if dtype else None


def _quantization(config: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The first quantization config found. `_text_only` marks one of the language model alone: other parts are not
    quantized. None if there is none."""
    for item in (config, given):
        for key in ("quantization_config", "compression_config", "hf_quant_config"):
            if quantization := mapping(item.get(key)):
                return quantization if item is config else {**quantization, "_text_only": True}
    return None


def _key_value_heads(text: Mapping[str, Any], heads: int | None) -> int | None:
    """Key/value heads: one per query head unless config.json has fewer. Falcon's `multi_query` means one, unless it
    uses the new architecture (vLLM 0.33 config/model.py, get_total_num_kv_heads). None if unknown."""
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        return 1
    attention = text.get("attn_config")
    if isinstance(attention, Mapping) and (grouped := integer(attention.get("kv_n_heads"))):
        return grouped  # for MPT and DBRX
    blocks = text.get("block_configs")
    groups = (
        [integer(attention_of(block).get("n_heads_in_group")) for block in blocks] if isinstance(blocks, list) else []
    )
    if heads and any(groups):
        return heads // min(filter(None, groups))  # NAS models: those of the widest layer
    return first_integer(text, KEY_VALUE_HEADS) or heads


def _head_dim(text: Mapping[str, Any], hidden: int | None, heads: int | None) -> int | None:
    """The size of one attention head: stated, else hidden size / heads."""
    if (head_dim := first_integer(text, HEAD_DIM)) is not None:
        return head_dim
    return hidden // heads if hidden and heads else None


def _sliding_window(text: Mapping[str, Any]) -> int | None:
    """The sliding window in tokens. Qwen2 has one that it does not use; Mistral's null means none."""
    window = integer(text.get("sliding_window", text.get("sliding_window_size", text.get("local_attention"))))
    return window if window and text.get("use_sliding_window") is not False else None
