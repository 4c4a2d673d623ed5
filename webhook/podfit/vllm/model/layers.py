"""The kind of attention of each layer, which every family states in another way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.vllm.model.read import attention_of, integer

LAYER_NAMES = {
    "attention": "full_attention",
    "hybrid": "full_attention",
    "deepseek_sparse_attention": "full_attention",
    "indexed_attention": "full_attention",
    "hybrid_sliding": "sliding_attention",
    "local_attention": "sliding_attention",
    "mamba2": "mamba",
    "short_conv": "conv",
}
"""Words in config.json → transformers' kinds of layers (configuration_utils.py, ALLOWED_LAYER_TYPES)."""
NEMOTRON = {"M": "mamba", "*": "full_attention", "-": "mlp", "E": "moe"}
"""`hybrid_override_pattern` (vLLM 0.33 models/nemotron_h.py)."""


def layer_types_of(text: Mapping[str, Any], given: Mapping[str, Any], layers: int | None) -> tuple[str, ...]:
    """The kind of each layer in config.json; () if it does not state them, or if all layers are alike."""
    if not layers:
        return ()
    names = tuple(_stated_layers(given, layers) or _stated_layers(text, layers) or ())
    if len(names) < layers or set(names) == {"full_attention"}:
        return ()
    return tuple(LAYER_NAMES.get(kind, kind) for kind in names[:layers])


def _stated_layers(config: Mapping[str, Any], layers: int) -> list[str] | None:
    """The kind of each layer as the config states it, in any form that vLLM reads; None if it states none."""
    count = range(layers)
    if config.get("model_type") in ("mamba", "mamba2", "falcon_mamba"):
        return ["mamba"] * layers
    for key in ("layer_types", "layers_block_type"):
        if isinstance(kinds := config.get(key), list) and all(isinstance(kind, str) for kind in kinds):
            return [LAYER_NAMES.get(str(kind), str(kind)) for kind in kinds]
    if isinstance(pattern := config.get("hybrid_override_pattern"), str) and set(pattern) <= set(NEMOTRON):
        return [NEMOTRON[letter] for letter in pattern]
    if isinstance(kinds := config.get("attn_type_list"), list):  # MiniMax
        return ["full_attention" if kind == 1 else "linear_attention" for kind in kinds]
    if isinstance(kinds := config.get("hybrid_layer_pattern"), list):  # MiMo-V2
        return ["sliding_attention" if kind == 1 else "full_attention" for kind in kinds]
    if isinstance(full := config.get("full_attn_idxs"), list):  # LFM2
        return ["full_attention" if index in full else "conv" for index in count]
    linear = config.get("linear_attn_config")
    if isinstance(linear, Mapping) and isinstance(full := linear.get("full_attn_layers"), list):
        # Kimi-Linear counts from 1
        return ["full_attention" if index + 1 in full else "linear_attention" for index in count]
    if isinstance(full := config.get("attn_layer_indices"), list):  # Bamba
        return ["full_attention" if index in full else "mamba" for index in count]
    if period := integer(config.get("attn_layer_period")):  # Jamba
        offset = integer(config.get("attn_layer_offset")) or 0
        return ["full_attention" if index % period == offset else "mamba" for index in count]
    if period := integer(config.get("full_attention_interval")):  # Qwen3-Next
        return ["linear_attention" if (index + 1) % period else "full_attention" for index in count]
    if isinstance(blocks := config.get("block_configs"), list):  # NAS models
        return [_block_kind(block) for block in blocks]
    if isinstance(pattern := config.get("layer_pattern"), list) and pattern:
        return [pattern[index % len(pattern)] for index in count]
    for key in ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"):
        period = integer(config.get(key))
        if period and period > 1 and integer(config.get("sliding_window")):
            return ["sliding_attention" if (index + 1) % period else "full_attention" for index in count]
    if isinstance(pattern := config.get("sliding_window_pattern"), str) and pattern and set(pattern) <= {"L", "G"}:
        return ["sliding_attention" if pattern[index % len(pattern)] == "L" else "full_attention" for index in count]
    if config.get("use_sliding_window") is True and integer(config.get("sliding_window")):  # Qwen2
        first = integer(config.get("max_window_layers")) or 0
        return ["sliding_attention" if index >= first else "full_attention" for index in count]
    return None


def _block_kind(block: object) -> str:
    """ "mlp" if the block has no attention of its own, else "full_attention"."""
    attention = attention_of(block)
    return "mlp" if attention.get("no_op") or attention.get("replace_with_linear") else "full_attention"
