"""Builds webhook/data/{models,model_defaults,gpus,instances}.json from a directory of collected facts.

    python -m scripts.build_catalogue SOURCE_DIR

SOURCE_DIR holds `models/{catalog,bytes,config_defaults}.json` and `gpus/{gpus,gpus_meta,instances}.json`, each row with
its source. What the planner never looks at is left out, so that the tables stay small and load fast; every row
keeps where it came from and whether it is trusted.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts import additions, relatives, settle
from scripts.corrections import CORRECTIONS, GEMMA3_WINDOW, UNSOURCED
from webhook.vllm.model.length import LENGTHS
from webhook.vllm.model.name import normalize_name

DATA = Path(__file__).parent.parent / "webhook" / "data"
MIB = 1 << 20

# --------------------------------------------------------------------------------------------------------- models

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
DEFAULT_KEYS = re.compile(
    r"^(model_type|hidden_size|d_model|n_embd|num_hidden_layers|n_layers?|num_layers|num_attention_heads|n_heads?"
    r"|num_key_value_heads|num_kv_heads|multi_query.*|head_dim|kv_channels|intermediate_size|ffn_.*|n_inner|vocab_size"
    r"|tie_word_embeddings|max_position_embeddings|n_positions|max_seq_len|seq_length|max_target_positions"
    r"|max_source_positions|sliding_window.*|use_sliding_window|max_window_layers|layer_types|attention_chunk_size"
    r"|num_experts.*|num_local_experts|n_routed_experts|n_shared_experts|num_shared_experts|moe_.*size|moe_layer_freq"
    r"|interleave_moe_layer_step|decoder_sparse_step|first_k_dense_replace|num_dense_layers|shared_expert_.*size"
    r"|kv_lora_rank|q_lora_rank|qk_.*head_dim|v_head_dim|index_head_dim|num_nextn_predict_layers|mamba_.*|linear_.*"
    r"|conv_.*|ssm_.*|state_size|expand|n_groups|attn_layer_.*|expert_layer_.*|layers_block_type|hybrid_.*"
    r"|full_attention_interval|global_attn_every_n_layers|num_kv_shared_layers|vocab_size_per_layer_input"
    r"|hidden_size_per_layer_input|attn_output_gate|new_decoder_architecture|multi_query|encoder_layers|decoder_layers"
    r"|encoder_attention_heads|decoder_attention_heads|encoder_ffn_dim|decoder_ffn_dim|is_encoder_decoder"
    r"|original_max_position_embeddings|block_.*|time_step_rank|num_memory_blocks)$"
)


INHERITED = ("sliding_window", "layer_types", "torch_dtype", "dtype", "use_sliding_window")
"""Keys that a quantised or fine-tuned copy has from the model it was made of, where a table leaves them out."""


def corrected(row: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The row's config with what is known better, and with what its base says where a table is silent."""
    correction = CORRECTIONS.get(row["id"])
    config = _merged(row["config"], correction.changes if correction else {})
    if row["confidence"] == "file":
        return config
    base = by_id.get(row["base"] or "")
    text = next((config[key] for key in NESTED if isinstance(config.get(key), dict)), config)
    if base is not None:
        other = _flat(base["config"])
        sizes = ("hidden_size", "num_hidden_layers", "num_attention_heads")
        if all(text.get(key) == other.get(key) for key in sizes):
            text.update({key: other[key] for key in INHERITED if key in other and key not in {**config, **text}})
    if "gemma3" in str(text.get("model_type")) and "gemma3n" not in str(text.get("model_type")):
        text.setdefault("sliding_window", GEMMA3_WINDOW.get(text.get("hidden_size", 0)))
    return config


def _merged(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    out = {key: dict(value) if isinstance(value, dict) else value for key, value in config.items()}
    for key, value in changes.items():
        out[key] = _merged(out.get(key) or {}, value) if isinstance(value, Mapping) else value
    return out


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
        elif key == "layer_types" and isinstance(value, list) and (pattern := _period(value)):
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


def models(source: Path) -> dict[str, Any]:
    """id → row, and lower-case alias → id."""
    catalogue = _read(source / "models" / "catalog.json")["models"]
    collected = {name.lower() for row in catalogue for name in (row["id"], *row["aliases"])}
    catalogue += [row for row in additions.rows() if row["id"].lower() not in collected]
    sources = sorted({_short(row["source"][0]) for row in catalogue})
    exact = {key.lower(): value for key, value in _read(source / "models" / "bytes.json").items()}
    by_id = {row["id"]: row for row in catalogue}
    natives = settle.natively_quantised(catalogue)
    files = settle.published_schemes(catalogue)
    scaled = settle.scaled_lengths(catalogue)
    rows, aliases = {}, {}
    for row in sorted(catalogue, key=lambda row: row["id"].lower()):
        config = settle.stored(settle.with_ties(row, corrected(row, by_id)), row, by_id)
        known = exact.get(row["id"].lower())
        doubt = settle.doubt(config, row, natives) or settle.shape_doubt(row, config, by_id) if known is None else None
        correction = CORRECTIONS.get(row["id"])
        if correction is not None and correction.source is None:
            doubt = UNSOURCED
        rows[row["id"]] = _model(row, config, known, sources, doubt, files, scaled)
        aliases.update({alias.lower(): row["id"] for alias in row["aliases"]})
    aliases = dict(sorted(aliases.items()))
    known = {name.lower() for name in (*rows, *aliases)}
    related = {name: line for name, line in sorted(relatives.lines().items()) if name not in known}
    return {
        "aliases": aliases,
        "last_parts": last_parts(rows, aliases),
        "relatives": related,
        "sources": sources,
        "models": rows,
    }


def last_parts(rows: Iterable[str], aliases: Mapping[str, str]) -> dict[str, list[str]]:
    """The last part of an id or alias, as `webhook.vllm.model.name` spells it → the rows that it may mean."""
    found: dict[str, list[str]] = {}
    for name, row in [*((row, row) for row in rows), *aliases.items()]:
        meant = found.setdefault(normalize_name(name.rpartition("/")[2]), [])
        if row not in meant:
            meant.append(row)
    return dict(sorted(found.items()))


def _model(
    row: Mapping[str, Any],
    config: Mapping[str, Any],
    exact: Mapping[str, Any] | None,
    sources: list[str],
    doubt: str | None,
    files: settle.Schemes,
    scaled: Container[str],
) -> dict[str, Any]:
    as_counted = settle.is_quantised(config) == settle.is_quantised(row["config"])
    out = {
        "config": useful(config),
        "parameters": row["parameters"],
        "weights_bytes": exact["weight_bytes"] if exact else row["weights_bytes"] if as_counted else None,
        "gated": bool(row["gated"]),
        "confidence": row["confidence"],
        "source": sources.index(_short(row["source"][0])),
        "trusted": doubt is None and (row["trusted"] or settle.proved(row, config)),
        "base": row["base"],
    }
    if exact:
        if set(exact["dtype_params"]) <= {"BF16", "F16", "F32", "F8_E4M3", "F8_E5M2"}:
            out["parameters"] = exact["param_count"]  # the index counts, where nothing is packed
        out["dtype_parameters"] = exact["dtype_params"]
        out["expert_bytes"] = exact.get("expert_bytes")
        out["replicated_bytes"] = exact.get("replicated_bytes")
    correction = CORRECTIONS.get(row["id"])
    if settle.is_scheme_guessed(row, files) and "quantization_config" not in (correction.changes if correction else ()):
        out["scheme_guessed"] = True
    if correction is not None and _length(correction.changes):
        out["length_corrected"] = True
    elif row["id"] in scaled:
        out["length_scaled"] = True
    if _is_of_its_base(row, config):
        out["dtype_inherited"] = True
    if not out["trusted"]:
        out["doubts"] = doubt or row["doubts"][0]
    return {key: value for key, value in out.items() if value is not None and (value is not False or key == "trusted")}


def _is_of_its_base(row: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether nothing but the model that it was made of tells its dtype: somebody else trained it further, or it is
    quantised, which AutoAWQ and AutoGPTQ do in float16."""
    if row["confidence"] == "file" or row["base"] is None:
        return False
    return settle.is_quantised(config) or row["base"].partition("/")[0] != row["id"].partition("/")[0]


def _length(changes: Mapping[str, Any]) -> bool:
    """Whether a correction changes how long a context the config.json has."""
    inner = [one for one in changes.values() if isinstance(one, Mapping)]
    return any(key in one for key in (*LENGTHS, "rope_scaling") for one in (changes, *inner))


def _short(source: str) -> str:
    """A source that stays readable: the revision and the file."""
    return source if len(source) <= 160 else source[:157] + "…"


def defaults(source: Path) -> dict[str, Any]:
    """model_type → what transformers' configuration class says where config.json is silent, flattened."""
    table = _read(source / "models" / "config_defaults.json")
    out = {}
    for model_type, config in sorted(table.items()):
        flat = {key: value for key, value in _flat(config).items() if DEFAULT_KEYS.match(key) and value is not None}
        heads, hidden = flat.get("num_attention_heads"), flat.get("hidden_size")
        if flat.get("num_key_value_heads") == heads:
            flat.pop("num_key_value_heads", None)
        if isinstance(heads, int) and isinstance(hidden, int) and flat.get("head_dim") == hidden // max(1, heads):
            flat.pop("head_dim")
        if "kv_lora_rank" in flat:
            flat.pop("head_dim", None)
        if isinstance(hidden, int) and flat.get("ffn_hidden_size") == 4 * hidden:
            flat.pop("ffn_hidden_size")  # Falcon: four times whatever the hidden size is
        if model_type in ("mamba", "mamba2", "falcon_mamba"):  # these follow from the hidden size, too
            for key in ("intermediate_size", "time_step_rank", "num_heads"):
                flat.pop(key, None)
        if (layers := flat.pop("layer_types", None)) and (pattern := _period(layers)):
            flat["layer_pattern"] = pattern
        if any(key in flat for key in ("hidden_size", "d_model", "n_embd")) or model_type in ("mpt", "whisper"):
            flat.pop("model_type", None)
            out[model_type] = flat
    return out


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    for key in NESTED:
        if isinstance(inner := config.get(key), dict):
            return {**{k: v for k, v in config.items() if k != key}, **_flat(inner)}
    return dict(config)


def _period(layers: list[str]) -> list[str] | None:
    """The shortest pattern that repeats through `layers`; None where nothing repeats or every layer is alike."""
    if len(set(layers)) == 1:
        return None
    for period in range(2, len(layers) // 2 + 1):
        if all(layer == layers[index % period] for index, layer in enumerate(layers)):
            return layers[:period]
    return None


# ----------------------------------------------------------------------------------------------------------- GPUs

SOURCES = {
    "gfd_gpu_product": "gfd",
    "gfd_gpu_product_old_driver_no_prefix": "gfd",
    "nvidia_smi": "smi",
    "device_name": "smi",
    "gke_accelerator": "gke",
    "karpenter_instance_gpu_name": "karpenter",
    "eks_auto_mode_instance_gpu_name": "karpenter",
    "skypilot": "skypilot",
    "coreweave_class_or_model": "coreweave",
    "nebius_gpu_name": "nebius",
    "amd.com/gpu.product-name": "amd",
    "amd.com/gpu.device-id": "amd-id",
}
"""The collected tables' names of places → ours. MIG and -SHARED names are derived, not stored."""
LATER = {
    "Huawei Ascend 910C (per die)": ["accelerator-type=module-a3-8", "accelerator-type=module-a3-16"],
    "Quadro RTX 6000": ["RTX6000"],
    "RTX 6000 Ada": ["RTX6000"],
    "Google TPU v5e": ["v5e", "tpu-v5e"],
    "Google TPU v5p": ["v5p", "tpu-v5p"],
    "Google TPU v6e (Trillium)": ["v6e", "tpu-v6e", "trillium"],
    "AWS Inferentia2": ["inf2"],
    "AWS Trainium1": ["trn1"],
    "AWS Trainium2": ["trn2"],
    "NVIDIA GB10 (DGX Spark)": ["DGX-Spark"],
}
"""Names that the collected table lacks: Atlas A3 nodes carry 910C dies; RTX6000 means three products; short names."""
UNIFIED = {"AMD Instinct MI300A", "AMD Strix Halo (Radeon 8060S iGPU)"}
"""Products that share one memory with the host besides those that the table marks."""


def gpus(source: Path) -> dict[str, Any]:
    """Products with their names by the place that uses them, memory in bytes, MIG profiles and partitions."""
    meta = _read(source / "gpus" / "gpus_meta.json")
    rows = [_gpu(row) for row in _read(source / "gpus" / "gpus.json")]
    owners: dict[str, set[str]] = {}
    for row in rows:
        for names in row["names"].values():
            for name in names:
                owners.setdefault(name.lower(), set()).add(row["name"])
    ambiguous = {name: sorted(who) for name, who in sorted(owners.items()) if len(who) > 1}
    return {"products": rows, "ambiguous": ambiguous, "units": "bytes", "generated": meta["generated"]}


SEEN_LATER = {"NVIDIA A10G": (22.3,), "NVIDIA A10": (22.09,)}
"""GiB that vLLM printed in start-up logs of its users, beside what the collected table has."""
ELSEWHERE = re.compile(r"windows|wddm|wsl|ecc o|outlier|station|assumed", re.IGNORECASE)
"""Conditions under which a card shows another total than in a Linux container with its usual settings."""


def _likely(row: Mapping[str, Any]) -> int | None:
    """MiB: the middle of what drivers leave of the card, where its least is more than 1 % below its most."""
    lowest: int = row["memory_torch_mib"]
    seen = [one["mib"] for one in row["memory_torch_gib_seen"] if not ELSEWHERE.search(one.get("condition") or "")]
    seen += [int(gib * 1024) for gib in SEEN_LATER.get(row["name"], ())]
    most = max([lowest, *(mib for mib in seen if mib <= lowest * 1.03)])
    return int(lowest + most) // 2 if most > lowest * 1.01 else None


def _gpu(row: Mapping[str, Any]) -> dict[str, Any]:
    seen = [one["mib"] for one in row["memory_torch_gib_seen"]]
    printed = [
        one["mib"] for one in row["memory_nvidia_smi_mib_seen"] if "label" not in one.get("condition", "")
    ]  # a cloud's label carries the marketing figure, which no process sees
    lowest = row["memory_torch_mib"]
    highest = max([lowest, *seen, *printed, row["memory_nvidia_smi_mib"] or 0])
    capability = row["compute_capability"]
    out = {
        "name": row["name"],
        "vendor": row["vendor"].lower(),
        "architecture": row["architecture"],
        "compute_capability": [int(part) for part in capability.split(".")] if capability else None,
        "memory": lowest * MIB,
        "memory_likely": likely * MIB if (likely := _likely(row)) else None,
        "memory_high": highest * MIB,
        "memory_label_mib": row["memory_nvidia_smi_mib"],
        "marketing_gb": row["memory_marketing_gb"],
        "bf16": row["supports_bf16"],
        "unified_memory": row["unified_memory"] or row["name"] in UNIFIED,
        "names": _names(row),
        "mig": [_mig(one, highest) for one in row["mig"]],
        "partitions": {
            re.split(r"[/|]", one["mode"])[0].lower(): one["memory_mib_each"] * MIB
            for one in row.get("partitioning", ())
        },
        "confidence": row["confidence"],
        "source": _short(row["sources"][0]),
    }
    return {key: value for key, value in out.items() if value not in (None, [], {})}


def _names(row: Mapping[str, Any]) -> dict[str, list[str]]:
    by_source = row["aliases_by_source"]
    derived = {name for place in ("gfd_gpu_product_mig", "gfd_gpu_product_shared") for name in by_source.get(place, ())}
    names: dict[str, list[str]] = {}
    for alias in [*row["aliases"], *LATER.get(row["name"], ())]:
        if alias in derived:
            continue
        places = {SOURCES[place] for place, known in by_source.items() if place in SOURCES and alias in known}
        for place in sorted(places) or ["other"]:
            names.setdefault(place, []).append(alias)
    return names


def _mig(profile: Mapping[str, Any], card_mib: int) -> dict[str, Any]:
    """The label's MiB are up to 1.5 % above what CUDA sees; the name's GB are the slice rounded up."""
    mib = profile["memory_mib"]
    gb = re.search(r"\.(\d+)gb", profile["profile"])
    ceiling = min(int(gb[1]) * 1024, card_mib) if gb else card_mib
    exact = "torch" in str(profile.get("memory_source"))
    return {
        "profile": profile["profile"].replace("+", "."),
        "memory": (mib if exact else int(mib * 0.985)) * MIB,
        "memory_high": max(mib, ceiling) * MIB,
        "max": profile["max_instances"],
    }


def instances(source: Path) -> dict[str, Any]:
    """Cloud machine type → GPU, how many, host memory and what a node allots of it."""
    out = {}
    for row in _read(source / "gpus" / "instances.json"):
        if row["gpu"] is None or " + " in row["instance_type"]:
            continue
        kept = {
            "gpu": row["gpu"],
            "count": row["gpu_count"],
            "fraction": row.get("gpu_fraction") if row.get("gpu_fraction") != 1.0 else None,
            "host_ram_gib": row["host_ram_gib"],
            "allocatable_memory": row.get("node_allocatable_memory"),
            "gpu_memory_label_mib": row.get("gpu_memory_label_mib"),
            "provider": row["provider"],
            "confidence": row["confidence"],
            "source": _short(row["source"]),
        }
        out[row["instance_type"]] = {key: value for key, value in kept.items() if value is not None}
    return dict(sorted(out.items()))


# ---------------------------------------------------------------------------------------------------------- files


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _lines(table: Mapping[str, Any]) -> str:
    """JSON with one row a line: diffs are read by people, and `data.rows` parses only the rows asked for."""

    def rows(value: Any) -> str:
        if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
            return "{\n" + ",\n".join(f"{_one(key)}: {_one(one)}" for key, one in value.items()) + "\n}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(_one(one) for one in value) + "\n]"
        return _one(value)

    return "{\n" + ",\n".join(f"{_one(key)}: {rows(value)}" for key, value in table.items()) + "\n}\n"


def _one(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main(source: Path) -> None:
    """Writes the tables; `make docs` then writes their version."""
    tables = {
        "models": models(source),
        "model_defaults": {"model_types": defaults(source)},
        "gpus": gpus(source),
        "instances": {"instance_types": instances(source)},
    }
    for name, table in tables.items():
        (DATA / f"{name}.json").write_text(_lines(table), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(str(__doc__))
    main(Path(sys.argv[1]))
