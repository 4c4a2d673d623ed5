"""What of a model's config.json podfit keeps: what memory, length or validity depend on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

IRRELEVANT = re.compile(
    r"(^_|_token_ids?$|_token_index$|token_id_|dropout|drop_path|_pdrop$|_eps$|eps_|epsilon|^hidden_act|_act$|_act_fn$"
    r"|activation|^use_cache$|initializer|^init|_init_|time_step_(?!rank)|_bias$|^bias|^no_bias$|aux_loss|router_aux|router_jitter"
    r"|routed_scaling|scoring_func|norm_topk|topk_method|topk_group|^n_group$|_softcapping$|_multiplier$|logits_scaling"
    r"|logit_scale|summary_|label2id|id2label|task_specific|transformers|pretraining_tp|attn_implementation|_placeholder$"
    r"|rope_interleave|output_router_logits|swiglu_|query_pre_attn|cache_implementation|mrope"
    r"|rotary_emb_base|rope_theta|hc_|position_embedding_type|classifier|problem_type|torchscript|finetuning|^mup_|scale_"
    r"|_scale$|_scale_factor$|gradient_checkpointing|chunk_size_feed|rms_norm$|rmsnorm|norm_type|^use_qk_norm|qk_norm"
    r"|use_bias|use_logn|^image_|^video_|^vision_(start|end|token|feature)|^template$|ps_version|select_layer|indexer_types"
    r"|mlp_layer_types|index_topk_pattern|transformers.js|tokenizer_class|_commit_hash|bos_|eos_|^is_decoder$|ignore_index"
    r"|original_rope|_softmax_in_fp32|query_key_layer_scaling|fusion|residual_|^alibi|onnx|talker|token2wav|vq_config"
    r"|llm_cfg|vision_tower_cfg|slice_|img_processor|force_image|^version$|^tune_|^verbose$|^mm_|^interpolate|^s2|^use_(thumb|image_id"
    r"|mamba|assoc|flash)|xavier|sampling|output_past|^ep_size$|adapter_config|projector|merger_times|moe_router_dtype|deepstack|projection|hidden_activation|feature_layer)"
)
KEPT_NULLS = ("sliding_window", "head_dim", "num_key_value_heads", "rope_scaling", "max_position_embeddings")
"""Keys whose null is an answer: a class default must not stand in for it."""
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal configs keep the language model's (vLLM 0.33 transformers_utils/config.py, get_hf_text_config)."""


def useful(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config without what neither memory nor length nor validity depend on."""
    kept = {}
    for key, value in config.items():
        if value is None and key not in KEPT_NULLS:
            continue
        if key == "rope_parameters" and isinstance(value, dict):
            value = _rope(value)
        elif key == "block_configs":
            value = [_block(block) for block in value]
        elif key in ("vision_config", "audio_config") and isinstance(value, dict):
            value = {k: v for k, v in useful(value).items() if not isinstance(v, dict)}
        elif key != "rope_scaling" and IRRELEVANT.search(key):
            continue
        elif key in ("quantization_config", "hf_quant_config") and isinstance(value, dict):
            value = _quantization(value)
        elif key == "rope_scaling" and isinstance(value, dict):
            value = {k: v for k, v in value.items() if not isinstance(v, list) or k == "mrope_section"}
        elif key == "layer_types" and isinstance(value, list) and (pattern := period(value)):
            key, value = "layer_pattern", pattern
        elif isinstance(value, dict):
            value = useful(value)
        if value in ({}, []) and key not in ("layer_types",):
            continue
        kept[key] = value
    return kept


def _rope(parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    """What scales the length; thetas and sections do not."""
    if any(isinstance(value, dict) for value in parameters.values()):
        inner = {key: _rope(value) for key, value in parameters.items() if isinstance(value, dict)}
        return {key: value for key, value in inner.items() if value} or {}
    kind = parameters.get("rope_type") or parameters.get("type")
    if kind in (None, "default") and not {"factor", "partial_rotary_factor"} & set(parameters):
        return {}
    keep = ("rope_type", "type", "factor", "original_max_position_embeddings", "partial_rotary_factor")
    return {key: value for key, value in parameters.items() if key in keep}


def _quantization(config: Mapping[str, Any]) -> dict[str, Any]:
    """The scheme; lists of modules, one entry a layer, become one entry a kind of module ("layers.*.mlp.gate")."""
    out = {}
    for key, value in config.items():
        if value is None or key == "quantized_layers":
            continue
        if isinstance(value, dict):
            value = _quantization(value)
        elif isinstance(value, list) and len(value) > 16 and all(isinstance(one, str) for one in value):
            value = list(dict.fromkeys(re.sub(r"(?<=\.)\d+(?=\.|$)", "*", one) for one in value))
        out[key] = value
    return out


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    """A layer of a NAS model: whether it attends, and how wide it is."""
    keep = ("n_heads_in_group", "no_op", "replace_with_linear", "ffn_mult")
    parts = {part: block.get(part) or {} for part in ("attention", "ffn")}
    return {part: {k: v for k, v in fields.items() if k in keep and v} for part, fields in parts.items()}


def period(layers: list[str]) -> list[str] | None:
    """The shortest pattern that repeats through `layers`; None where nothing repeats or every layer is alike."""
    if len(set(layers)) == 1:
        return None
    for period in range(2, len(layers) // 2 + 1):
        if all(layer == layers[index % period] for index, layer in enumerate(layers)):
            return layers[:period]
    return None
