"""webhook/podfit/data/models.json and model_defaults.json: the catalog, and what config.json's silence means."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from podfit.vllm.model.length import LENGTHS
from podfit.vllm.model.name import normalize_name
from scripts.facts import settle
from scripts.facts.reduce import NESTED, period, useful
from scripts.facts.table import FACTS, Entry, entries, short

UNSOURCED = "its length was corrected without a source"
"""What is doubtful of a row whose correction has no source."""
GEMMA3_WINDOW = {640: 512, 1152: 512, 2560: 1024, 3840: 1024, 5376: 1024}
"""hidden_size → sliding_window of the Gemma 3 sizes, if a table leaves it out. From the rows that were read
(google/gemma-3-1b-it from mlc-ai/mlc-llm model_preset.py, -4b-it from sophgo/LLM-TPU, -12b-it from
AI-Hypercomputer/maxtext, -27b-it from aws-neuron's copy of config.json; 270M as 1B)."""
UNKNOWN: Entry = {
    "aliases": [], "base": None, "parameters": None, "weights_bytes": None, "gated": None, "notes": [], "doubts": [],
}  # fmt: skip
"""What an entry of facts/models.jsonl leaves out."""
OF_ANOTHER = re.compile(r"architecture of (?P<owner>[\w.-]+)/")
"""The source of an entry whose sizes were read in another model's config.json."""
UNCHANGED: Entry = {"changes": {}, "source": ""}
"""The correction of an entry that has none."""
INHERITED = ("sliding_window", "layer_types", "torch_dtype", "dtype", "use_sliding_window")
"""Keys that a quantized or fine-tuned copy has from the model it was made of, where a table leaves them out."""


def corrected(
    row: Mapping[str, Any], changes: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The row's config with what is known better, and with what its base says where a table is silent."""
    config = _merged(row["config"], changes)
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


def models(folder: Path = FACTS) -> dict[str, Any]:
    """The table of models: id → row, lower-case alias → id, and what else a name may mean."""
    catalog = [{**UNKNOWN, **row} for row in entries("models", folder)]
    corrections = {row["id"]: row for row in entries("corrections", folder)}
    sources = sorted({short(row["source"][0]) for row in catalog})
    exact = {row["id"].lower(): row for row in entries("checkpoints", folder)}
    by_id = {row["id"]: row for row in catalog}
    natives = settle.natively_quantised(catalog)
    files = settle.published_schemes(catalog)
    scaled = settle.scaled_lengths(catalog)
    rows, aliases = {}, {}
    configs, doubts = dict[str, dict[str, Any]](), dict[str, str | None]()
    for row in catalog:
        correction = corrections.get(row["id"], UNCHANGED)
        config = settle.stored(settle.with_ties(row, corrected(row, correction["changes"], by_id)), row, by_id)
        configs[row["id"]] = config
        doubts[row["id"]] = _doubt(row, config, correction, natives, by_id, indexed=row["id"].lower() in exact)
        aliases.update({alias.lower(): row["id"] for alias in row["aliases"]})
    confirmed = settle.confirmed_families(catalog, configs)
    named = {name.lower(): row for row in catalog for name in (row["id"], *row["aliases"])}
    for row in sorted(catalog, key=lambda row: str(row["id"]).lower()):
        doubt = _inherited(row, configs, doubts, named, exact)
        indexed = row["id"].lower() in exact
        unconfirmed = settle.are_sizes_unconfirmed(row, configs[row["id"]], confirmed, indexed=indexed)
        if unconfirmed:
            doubt = doubt or settle.UNCONFIRMED
        changes = corrections.get(row["id"], UNCHANGED)["changes"]
        checkpoint = exact.get(row["id"].lower())
        rows[row["id"]] = _model(row, configs[row["id"]], checkpoint, sources, doubt, files, scaled, changes)
        if unconfirmed:
            rows[row["id"]]["sizes_unconfirmed"] = True
    aliases = dict(sorted(aliases.items()))
    known = {name.lower() for name in (*rows, *aliases)}
    relatives = {row["id"].lower(): [row["id"], row["base"], row.get("scheme")] for row in entries("relatives", folder)}
    return {
        "aliases": aliases,
        "last_parts": last_parts(rows, aliases),
        "relatives": {name: line for name, line in sorted(relatives.items()) if name not in known},
        "gated": sorted(row["id"].lower() for row in entries("gated", folder)),
        "sources": sources,
        "models": rows,
    }


def _doubt(
    row: Mapping[str, Any],
    config: Mapping[str, Any],
    correction: Mapping[str, Any],
    natives: set[tuple[object, ...]],
    by_id: Mapping[str, Mapping[str, Any]],
    *,
    indexed: bool,
) -> str | None:
    """What is doubtful of a row itself; None if it may deny."""
    if correction["source"] is None:
        return UNSOURCED
    if not indexed and (found := settle.doubt(config, row, natives) or settle.shape_doubt(row, config, by_id)):
        return found
    return None if row["trusted"] or settle.proved(row, config) else str(row["doubts"][0])


def _inherited(
    row: Mapping[str, Any],
    configs: Mapping[str, Mapping[str, Any]],
    doubts: Mapping[str, str | None],
    named: Mapping[str, Mapping[str, Any]],
    exact: Container[str],
) -> str | None:
    """What is doubtful of a row, or of the model that it was made of, unless its own numbers prove it. The doubt about
    a corrected length is the base's alone."""
    name = row["id"]
    if (own := doubts[name]) is not None:
        return own
    base = named.get((row["base"] or "").lower())
    found = _inherited(base, configs, doubts, named, exact) if base is not None and base is not row else None
    if found is None or found == UNSOURCED or settle.proves(row, configs[name], found, indexed=name.lower() in exact):
        return None
    return f"made of {row['base']}, of which is doubtful: {found}"


def last_parts(rows: Iterable[str], aliases: Mapping[str, str]) -> dict[str, list[str]]:
    """The last part of an id or alias, as `podfit.vllm.model.name` spells it → the rows that it may mean."""
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
    changes: Mapping[str, Any],
) -> dict[str, Any]:
    as_counted = settle.is_quantised(config) == settle.is_quantised(row["config"])
    out = {
        "config": useful(config),
        "parameters": row["parameters"],
        "weights_bytes": exact["weight_bytes"] if exact else row["weights_bytes"] if as_counted else None,
        "gated": bool(row["gated"]),
        "confidence": row["confidence"],
        "source": sources.index(short(row["source"][0])),
        "trusted": doubt is None,
        "base": row["base"],
    }
    if exact:
        if set(exact["dtype_params"]) <= {"BF16", "F16", "F32", "F8_E4M3", "F8_E5M2"}:
            out["parameters"] = exact["param_count"]  # the index counts, where nothing is packed
        out["dtype_parameters"] = exact["dtype_params"]
        out["expert_bytes"] = exact.get("expert_bytes")
        out["replicated_bytes"] = exact.get("replicated_bytes")
    if settle.is_storage_unknown(row, config, doubt, indexed=exact is not None):
        out["storage_unknown"] = True
    if settle.are_kv_heads_unknown(row) and not out["trusted"]:
        out["kv_heads_unknown"] = True
    if settle.is_scheme_guessed(row, files) and "quantization_config" not in changes:
        out["scheme_guessed"] = True
    if _length(changes):
        out["length_corrected"] = True
    elif row["id"] in scaled:
        out["length_scaled"] = True
    if _is_of_its_base(row, config):
        out["dtype_inherited"] = True
    if doubt is not None:
        out["doubts"] = doubt
    return {key: value for key, value in out.items() if value is not None and (value is not False or key == "trusted")}


def _is_of_its_base(row: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether only another model's config.json gives its dtype, of another owner, or of what was quantized, which
    AutoAWQ and AutoGPTQ do in float16."""
    read = OF_ANOTHER.match(row["source"][0])
    if row["confidence"] == "file" or read is None:
        return False
    return settle.is_quantised(config) or read["owner"] != row["id"].partition("/")[0]


def _length(changes: Mapping[str, Any]) -> bool:
    """Whether a correction changes how long a context the config.json has."""
    inner = [one for one in changes.values() if isinstance(one, Mapping)]
    return any(key in one for key in (*LENGTHS, "rope_scaling") for one in (changes, *inner))


def defaults(folder: Path = FACTS) -> dict[str, Any]:
    """model_type → what Transformers' configuration class says where config.json is silent."""
    out = {}
    for row in sorted(entries("model_types", folder), key=lambda row: str(row["model_type"])):
        model_type, flat = row["model_type"], dict(row["defaults"])
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
        if (layers := flat.pop("layer_types", None)) and (pattern := period(layers)):
            flat["layer_pattern"] = pattern
        if any(key in flat for key in ("hidden_size", "d_model", "n_embd")) or model_type in ("mpt", "whisper"):
            flat.pop("model_type", None)
            out[model_type] = flat
    return {"model_types": out}


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    for key in NESTED:
        if isinstance(inner := config.get(key), dict):
            return {**{k: v for k, v in config.items() if k != key}, **_flat(inner)}
    return dict(config)
