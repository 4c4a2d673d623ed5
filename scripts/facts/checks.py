"""What can't be right in the tables of facts/: names that are taken, dates, sizes that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from scripts.facts import fields, hardware_checks, release_checks, settle
from scripts.facts.models import UNKNOWN, corrected
from scripts.facts.reduce import NESTED
from scripts.facts.table import FACTS, Entry, Extract, entries, extracts
from webhook.vllm.model.name import size_of

DTYPE_BYTES = {"BF16": 2.0, "F16": 2.0, "F32": 4.0, "F8_E4M3": 1.0, "F8_E5M2": 1.0, "I8": 1.0, "U8": 1.0, "I32": 4.0}
"""safetensors dtype → bytes of an element (https://huggingface.co/docs/safetensors)."""
PACKED = {"I8", "U8", "I32"}
"""dtypes of words that hold several elements."""
CONFIG_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
BYTES_OFF = 0.05
"""A tower in another dtype: google/medgemma-27b-it, 1.90 bytes for each parameter."""
STORED_OFF = 0.03
"""Bytes that the dtypes leave out: multi-token-prediction layers, of 2.3 % in DeepSeek-V3."""
UNPACKED = ("gpt-oss", "DeepSeek-V4-Flash")
"""Checkpoints in FP4 whose elements were counted as what they unpack to."""
SHAPE_OFF = 0.3
"""The formulas count a tied head once, which some checkpoints store twice: a quarter of Qwen1.5-0.5B."""
NOT_BY_SHAPE = ("eurobert", "molmo")
"""Model types whose parameters the formulas do not give (tests/vllm/memory/test_families.py, KNOWN_TO_BE_OFF)."""
HEADS = (0.25, 10.0)
"""heads × head size, of the hidden size: DeepSeek-V4-Pro has 128 × 512 for 7,168."""
LENGTHS = (128, 1 << 24)
"""Tokens of max_position_embeddings: 512 (BERT) to 10,485,760 (Llama 4)."""
EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
NAMED = (0.5, 2.0)
"""Parameters, of those that an id says: llava-onevision-qwen2-0.5b has 1.8 times as many, with its tower."""
NAMED_OTHERWISE = ("OLMoE-1B-7B", "Infinity-Instruct-3M", "1.58bit")
"""Ids whose first size is the active parameters', or the data set's, and of packed words."""
ALMOST = 0.93
"""difflib's ratio of two names that differ in a letter or two."""
POSITIVE = ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size")
SIZE = re.compile(r"^num_.*(layers|heads)$|_size$|_dim$|_rank$|^max_position_embeddings$")


def problems(today: str, folder: Path = FACTS) -> list[str]:
    """`table: entry: problem (value, expected)`, one line for each; `today` is YYYY-MM-DD."""
    if found := field_problems(today, folder):  # the rest reads the fields
        return found
    models = [{**UNKNOWN, **row} for row in entries("models", folder)]
    known = {name.lower() for row in models for name in (row["id"], *row["aliases"])}
    gpus = {row["name"]: row for row in entries("gpus", folder)}
    instances, releases = entries("instances", folder), extracts(folder)
    found = [*_taken(models, folder), *_corrected(models, folder)]
    served = served_architectures(releases.values())
    relatives = {row["id"].lower() for row in entries("relatives", folder)}
    for row in models:
        found += [f"models: {row['id']}: {why}" for why in (*model_problems(row), *misspelt(row, served))]
        if row["base"] and row["base"].lower() not in known | relatives:
            found.append(f"models: {row['id']}: no such model as its base {row['base']}")
    for row in entries("checkpoints", folder):
        found += [f"checkpoints: {row['id']}: {why}" for why in checkpoint_problems(row)]
    for name in ("checkpoints", "corrections"):
        found += [
            f"{name}: {row['id']}: no such model" for row in entries(name, folder) if row["id"].lower() not in known
        ]
    found += [
        f"relatives: {row['id']}: no such model as its base {row['base']}"
        for row in entries("relatives", folder)
        if row["base"].lower() not in known or row["base"].lower() == row["id"].lower()
    ]
    for row in entries("model_types", folder):
        found += [f"model_types: {row['model_type']}: {why}" for why in default_problems(row["defaults"])]
    for row in gpus.values():
        found += [f"gpus: {row['name']}: {why}" for why in hardware_checks.gpu_problems(row)]
    found += [f"gpus: {name}: {why}" for name, why in hardware_checks.capability_problems(gpus.values())]
    for row in entries("mig", folder):
        found += [f"mig: {row['gpu']} {row['profile']}: {why}" for why in hardware_checks.mig_problems(row, gpus)]
    for row in instances:
        found += [f"instances: {row['type']}: {why}" for why in hardware_checks.instance_problems(row, gpus)]
    found += [f"instances: {name}: {why}" for name, why in hardware_checks.size_problems(instances, gpus)]
    found += [f"images: {why}" for why in release_checks.image_problems(entries("images", folder), releases)]
    return found + [f"releases: {why}" for why in release_checks.extract_problems(releases, today)]


def field_problems(today: str, folder: Path = FACTS) -> list[str]:
    """The same, of single fields alone: without them the tables can't be built. Raises ValueError for a line that is no
    JSON."""
    return [*_fields(folder), *_dates(today, folder)]


def _fields(folder: Path) -> Iterator[str]:
    for table in fields.TABLES:
        for number, row in enumerate(entries(table, folder), 1):
            yield from (f"{table}: line {number}: {why}" for why in fields.problems(table, row))


def _corrected(models: list[Entry], folder: Path) -> Iterator[str]:
    """Keys of corrections that no config has, and what a correction contradicts."""
    by_id = {row["id"]: row for row in models}
    keys = {key for row in models for key in _keys(row["config"])}
    for row in entries("corrections", folder):
        for key in sorted({*_keys(row["changes"])} - keys):
            yield f"corrections: {row['id']}: no config.json has {key!r}"
        if (model := by_id.get(row["id"])) is not None:
            config = corrected(model, row["changes"], by_id)
            yield from (f"corrections: {row['id']}: {why}" for why in shape_problems(language_config(config)))


def _keys(config: Mapping[str, Any]) -> Iterator[str]:
    for key, value in config.items():
        yield key
        if isinstance(value, Mapping):
            yield from _keys(value)


def _dates(today: str, folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.jsonl")):
        for number, row in enumerate(entries(path.stem, folder), 1):
            date = str(row.get("date"))
            if not re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])(-\d\d)?", date) or date > today:
                yield f"{path.stem}: line {number}: date {date!r}, expected YYYY-MM or YYYY-MM-DD, not after {today}"
            if not row.get("source") and path.stem != "corrections":
                yield f"{path.stem}: line {number}: no source"


def _taken(models: Iterable[Entry], folder: Path) -> Iterator[str]:
    """Names that two entries have."""
    names = {
        "models": [name for row in models for name in (row["id"], *row["aliases"])],
        "gpus": [row["name"] for row in entries("gpus", folder)],
        "instances": [row["type"] for row in entries("instances", folder)],
        "images": [row["image"] for row in entries("images", folder)],
        "mig": [f"{row['gpu']} {row['profile']}" for row in entries("mig", folder)],
        **{name: [row["id"] for row in entries(name, folder)] for name in ("checkpoints", "corrections", "relatives")},
        "model_types": [row["model_type"] for row in entries("model_types", folder)],
    }
    for table, all_names in names.items():
        seen: set[str] = set()
        for name in all_names:
            if name.lower() in seen:
                yield f"{table}: {name}: two entries have this name"
            seen.add(name.lower())


def shape_problems(config: Mapping[str, Any]) -> Iterator[str]:
    """What of a language model's sizes contradicts the rest."""
    hidden, heads, groups, size = (
        config.get(key) for key in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    )
    yield from size_problems(config)
    length = config.get("max_position_embeddings")
    if isinstance(length, int) and length > 0 and not LENGTHS[0] <= length <= LENGTHS[1]:
        yield f"max_position_embeddings {length:,}, expected {LENGTHS[0]} to {LENGTHS[1]:,}"
    if isinstance(heads, int) and isinstance(groups, int) and groups and heads % groups:
        yield f"num_attention_heads {heads}, expected a multiple of num_key_value_heads {groups}"
    if isinstance(hidden, int) and isinstance(heads, int) and heads:
        if "kv_lora_rank" in config:
            pass  # its heads are as wide as qk_nope_head_dim and v_head_dim say
        elif isinstance(size, int):
            if not HEADS[0] <= heads * size / hidden <= HEADS[1]:
                yield f"heads × head size {heads} × {size}, expected about hidden_size {hidden}"
        elif hidden % heads:
            yield f"hidden_size {hidden}, expected a multiple of num_attention_heads {heads}"
    layers, kinds = config.get("num_hidden_layers"), config.get("layer_types")
    if isinstance(layers, int) and isinstance(kinds, list) and len(kinds) != layers:
        yield f"{len(kinds)} layer_types, expected num_hidden_layers {layers}"
    active, experts = config.get("num_experts_per_tok"), next((config[key] for key in EXPERTS if config.get(key)), None)
    if isinstance(active, int) and isinstance(experts, int) and active > experts:
        yield f"num_experts_per_tok {active}, expected at most the {experts} experts"


def model_problems(row: Mapping[str, Any]) -> Iterator[str]:
    """What of a model contradicts the rest."""
    config = language_config(row["config"])
    yield from shape_problems(config)
    parameters, weights = row["parameters"], row["weights_bytes"]
    quantized = settle.is_quantised(row["config"])
    if parameters and weights:
        per = weights / parameters
        said = {**config, **row["config"]}
        dtype = CONFIG_BYTES.get(str(said.get("torch_dtype") or said.get("dtype")))
        usual = (1, 2, 4) if dtype is None else (dtype,)
        if quantized and not 0.4 <= per <= 4.1:
            yield f"{per:.2f} bytes for each parameter, expected 0.4 to 4.1"
        if not quantized and not any(abs(per - one) <= BYTES_OFF * one for one in usual):
            yield f"{per:.2f} bytes for each parameter, expected {' or '.join(map(str, usual))}"
    named = size_of(row["id"])
    size = named.value.parameters if named and not any(part in row["id"] for part in NAMED_OTHERWISE) else None
    if parameters and size and not NAMED[0] <= parameters / size <= NAMED[1]:
        yield f"{parameters:,} parameters, expected about the {size:,} in its name"
    counted = settle.counted(row)
    if counted and not quantized and row["trusted"] and config.get("model_type") not in NOT_BY_SHAPE:
        off = settle.misses(row["config"], counted, complete=row["confidence"] == "file")
        if off is not None and off > SHAPE_OFF:
            yield f"{counted:,} parameters, {off:.0%} off what its sizes give"


def served_architectures(releases: Iterable[Extract]) -> set[str]:
    """Architectures that a release of vLLM serves or served."""
    return {name for one in releases for name in (*one["architectures"], *one["previously_supported"])}


def misspelt(row: Mapping[str, Any], served: Collection[str]) -> Iterator[str]:
    """Architectures that no release serves, but that differ in a letter or two from one that is served."""
    for name in row["config"].get("architectures", ()):
        near = () if name in served else get_close_matches(name, served, 1, ALMOST)
        if near and re.sub(r"\d", "", near[0]) != re.sub(r"\d", "", name):
            yield f"architectures {name!r}, expected {near[0]!r}"


def default_problems(defaults: Mapping[str, Any]) -> Iterator[str]:
    """Sizes that no configuration class has."""
    yield from size_problems(defaults)
    for key in POSITIVE:
        if defaults.get(key) == 0:
            yield f"{key} 0, expected 1 or more"


def size_problems(config: Mapping[str, Any]) -> Iterator[str]:
    """Sizes of a config that no model has."""
    for key, value in config.items():
        if SIZE.search(key) and (isinstance(value, str | float) or (isinstance(value, int) and value < 0)):
            yield f"{key} {value!r}, expected a whole number, 0 or more"


def language_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a config, with what is outside of it."""
    for key in NESTED:
        if isinstance(inner := config.get(key), Mapping):
            return {**config, **language_config(inner)}
    return config


def checkpoint_problems(row: Mapping[str, Any]) -> Iterator[str]:
    """Whether a checkpoint's bytes are those of its elements."""
    strange = row["dtype_params"].keys() - DTYPE_BYTES.keys()
    if strange:
        yield f"dtype {min(strange)}, expected one of {', '.join(DTYPE_BYTES)}"
        return
    elements, packed = sum(row["dtype_params"].values()), row["dtype_params"].keys() & PACKED
    unpacked = any(part in row["id"] for part in UNPACKED)
    if not packed and abs(elements / row["param_count"] - 1) > STORED_OFF:
        yield f"param_count {row['param_count']:,}, expected {elements:,} by its dtypes"
    for key in ("expert_bytes", "replicated_bytes"):
        if (row.get(key) or 0) > row["weight_bytes"] and not unpacked:
            yield f"{key} {row[key]:,}, expected at most weight_bytes {row['weight_bytes']:,}"
    stored = sum(DTYPE_BYTES[dtype] * count for dtype, count in row["dtype_params"].items())
    off = abs(stored / row["weight_bytes"] - 1)
    if off > STORED_OFF and not unpacked:
        yield f"weight_bytes {row['weight_bytes']:,}, expected {stored:,.0f} by its dtypes"
