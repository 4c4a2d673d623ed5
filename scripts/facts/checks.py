"""What can't be right in the tables of facts/: names that are taken, dates, sizes that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.facts import settle
from scripts.facts.models import UNKNOWN
from scripts.facts.reduce import NESTED
from scripts.facts.table import FACTS, Entry, entries, extracts
from webhook.vllm.release import parse

DTYPE_BYTES = {"BF16": 2.0, "F16": 2.0, "F32": 4.0, "F8_E4M3": 1.0, "F8_E5M2": 1.0, "I8": 1.0, "U8": 1.0, "I32": 4.0}
"""safetensors dtype → bytes of an element (https://huggingface.co/docs/safetensors)."""
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
CARD = (0.85, 1.01)
"""GiB that a process sees, of the GB that the maker sells."""
LENGTHS = (128, 1 << 24)
"""Tokens of max_position_embeddings: 512 (BERT) to 10,485,760 (Llama 4)."""
NOT_PLANNED = ("Qualcomm AI100",)
"""Accelerators of machine types that are in no table of GPUs: vLLM's memory is not planned for them."""
MOST_GPUS = 16
"""GPUs of one machine: a2-megagpu-16g."""
SIZE = re.compile(r"^num_.*(layers|heads)$|_size$|_dim$|_rank$|^max_position_embeddings$")
HALVES = ("per GCD", "per tile", "Strix Halo")
"""Products of which one device is a part of the memory that is sold."""


def problems(today: str, folder: Path = FACTS) -> list[str]:
    """`table: entry: problem (value, expected)`, one line for each; `today` is YYYY-MM-DD."""
    models = [{**UNKNOWN, **row} for row in entries("models", folder)]
    known = {name.lower() for row in models for name in (row["id"], *row["aliases"])}
    gpus = {row["name"]: row for row in entries("gpus", folder)}
    found = [*_dates(today, folder), *_taken(models, folder)]
    for row in models:
        found += [f"models: {row['id']}: {why}" for why in model_problems(row)]
    for row in entries("checkpoints", folder):
        found += [f"checkpoints: {row['id']}: {why}" for why in checkpoint_problems(row)]
    for name in ("checkpoints", "corrections"):
        found += [
            f"{name}: {row['id']}: no such model" for row in entries(name, folder) if row["id"].lower() not in known
        ]
    found += [
        f"relatives: {row['id']}: no such model as its base {row['base']}"
        for row in entries("relatives", folder)
        if row["base"].lower() not in known
    ]
    for row in gpus.values():
        found += [f"gpus: {row['name']}: {why}" for why in gpu_problems(row)]
    for row in entries("model_types", folder):
        found += [f"model_types: {row['model_type']}: {why}" for why in size_problems(row["defaults"])]
    for row in entries("instances", folder):
        found += [f"instances: {row['type']}: {why}" for why in instance_problems(row, gpus)]
    newest = max(extracts(folder))
    for row in entries("images", folder):
        release = parse(row["release"])
        if release is None or release > newest:
            found.append(f"images: {row['image']}: release {row['release']!r}, expected a release up to {newest}")
    for row in entries("mig", folder):
        found += [f"mig: {row['gpu']} {row['profile']}: {why}" for why in _mig(row, gpus)]
    return found


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


def model_problems(row: Mapping[str, Any]) -> Iterator[str]:
    """What of a model's sizes contradicts the rest."""
    config = language_config(row["config"])
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
    counted = settle.counted(row)
    if counted and not quantized and row["trusted"] and config.get("model_type") not in NOT_BY_SHAPE:
        off = settle.misses(row["config"], counted, complete=row["confidence"] == "file")
        if off is not None and off > SHAPE_OFF:
            yield f"{counted:,} parameters, {off:.0%} off what its sizes give"


def size_problems(config: Mapping[str, Any]) -> Iterator[str]:
    """Sizes of a config that no model has."""
    for key, value in config.items():
        if SIZE.search(key) and (isinstance(value, str | float) or (isinstance(value, int) and value < 0)):
            yield f"{key} {value!r}, expected a whole number, 0 or more"


def instance_problems(row: Mapping[str, Any], gpus: Mapping[str, Entry]) -> Iterator[str]:
    """Whether a machine type has GPUs of the table, and as many as machines have."""
    if row["gpu"] not in gpus and row["gpu"] not in NOT_PLANNED:
        yield f"gpu {row['gpu']!r}, expected one of gpus.jsonl"
    count = row.get("count")
    if count is not None and not (isinstance(count, int) and 0 <= count <= MOST_GPUS):
        yield f"count {count!r}, expected 0 to {MOST_GPUS}"


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
    stored = sum(DTYPE_BYTES[dtype] * count for dtype, count in row["dtype_params"].items())
    off = abs(stored / row["weight_bytes"] - 1)
    if off > STORED_OFF and not any(part in row["id"] for part in UNPACKED):
        yield f"weight_bytes {row['weight_bytes']:,}, expected {stored:,.0f} by its dtypes"


def gpu_problems(row: Mapping[str, Any]) -> Iterator[str]:
    """Whether a GPU's memory is what is sold."""
    mib, gb, label = row["cuda_mib"], row.get("marketing_gb"), row.get("nvidia_smi_mib")
    if gb and not any(part in row["name"] for part in HALVES) and not CARD[0] <= mib / (gb * 1024) <= CARD[1]:
        yield f"cuda_mib {mib:,}, expected {CARD[0]} to {CARD[1]} of {gb} GB"
    if label and mib > label * 1.001:
        yield f"cuda_mib {mib:,}, expected at most nvidia_smi_mib {label:,}"


def _mig(row: Mapping[str, Any], gpus: Mapping[str, Entry]) -> Iterator[str]:
    card = gpus.get(row["gpu"])
    if card is None:
        yield "no such GPU"
    elif row["mib"] * row["max"] > card["cuda_mib"] * 1.03:
        yield f"{row['max']} × {row['mib']:,} MiB, expected at most the GPU's {card['cuda_mib']:,}"
