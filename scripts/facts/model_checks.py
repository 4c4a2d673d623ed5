"""What can't be right of a model, of its checkpoint, and of the defaults of a model type."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from podfit.vllm.model import from_config
from podfit.vllm.model.name import size_of
from scripts.facts import settle
from scripts.facts.reduce import NESTED
from scripts.facts.table import Entry, Extract

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
STORED_MORE = 0.08
"""Elements that a checkpoint stores beyond the parameters: scales and multi-token-prediction layers, of 6 % in
cyankiwi/gemma-4-31B-it-AWQ-4bit with its tower."""
QUANTIZED = re.compile(r"fp8|fp4|int[48]|w\d+a\d+|awq|gptq|gguf|bnb|[48]-?bit", re.I)
"""Words of an id by which it is a quantized copy."""
SHAPE_OFF = 0.1
"""Parameters of a model, off what its sizes give: 8 % in XiaomiMiMo/MiMo-VL-7B-RL, with a tower of its own."""
EXACTLY_OFF = 0.02
"""The same for model types whose formulas are exact: 1.5 % in ByteDance-Seed/academic-ds-9B."""
EXACT = 0.005
EXACT_ROWS = (3, 0.9)
"""Formulas are exact for a model type if this many of its models, and this share of the others, are off by EXACT."""
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
ALMOST_WORD = 0.9
"""The same for keys and kinds of layers, which are shorter."""
POSITIVE = ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size")
NEEDED = (*POSITIVE, "max_position_embeddings")
"""Sizes that the planner can't do without."""
SIZE = re.compile(r"^num_.*(layers|heads)$|_size$|_dim$|_rank$|^max_position_embeddings$|^sliding_window$")
SWITCHES = ("block_auto_adjust_ff_dim", "dynamic_image_size")
"""Keys that end as sizes do, and are true or false."""
COMMON = 100
"""Models that have a key with which a misspelt one is compared."""
LIKE_COMMON = ("model_dtype", "num_routed_experts")
"""Keys of one model that are like a common one (model_type, n_routed_experts)."""
DTYPES = (*CONFIG_BYTES, "half", "float")
"""Values of a config's dtype (vLLM 0.33 utils/torch_utils.py, STR_DTYPE_TO_TORCH_DTYPE)."""
ROPE_TYPES = (
    "bailing_mrope", "deepseek_llama_scaling", "deepseek_yarn", "default", "dynamic", "linear", "llama3", "longrope",
    "mllama4", "mrope", "ntk", "openpangu", "proportional", "su", "yarn",
)  # fmt: skip
"""vLLM 0.33 model_executor/layers/rotary_embedding/__init__.py, get_rope; `su` and `mrope` by older names."""
SCHEMES = ("awq", "bnb", "fp8", "gptq", "mxfp4", "nvfp4", "w8a8")
"""Schemes that ids name; a w4a16 checkpoint may be called by the method that made it."""
BITS = range(2, 9)
"""Bits of a quantized weight."""
OF_ORIGINAL = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "num_experts",
    "n_routed_experts", "num_local_experts", "moe_intermediate_size", "kv_lora_rank",
)  # fmt: skip
"""Sizes that a copy has from its original."""
PADDED = ("intermediate_size", "vocab_size")
OTHER_SIZES = ("-REAP-", "hugging-quants/Meta-Llama-3.1-405B")
"""Copies with fewer experts, and of a first version with 16 key-value heads instead of 8."""
PADDED_OFF = 0.02
"""What a copy may have more or less of them: 29,696 for 29,568 in Qwen2.5-72B-Instruct-AWQ."""


@dataclass(frozen=True)
class Known:
    """What a model is compared with: the other models, and the names that vLLM and Transformers have."""

    models: Mapping[str, Entry]
    """Id → entry, with all fields."""
    named: Mapping[str, list[str]]
    """Last part of an id or alias, in lower case → ids of the models that have it."""
    architectures: Collection[str]
    model_types: Collection[str]
    quantization: Collection[str]
    """Methods of a release."""
    words: Collection[str]
    """Keys of config.json that several models have, and their kinds of layers."""
    common: Collection[str]
    """Those of many models."""
    exact: Collection[object]
    """Model types whose formulas are exact."""


def known(models: Iterable[Entry], model_types: Iterable[Entry], releases: Iterable[Extract]) -> Known:
    """What the tables say; `models` with all fields."""
    models, model_types, releases = list(models), list(model_types), list(releases)
    used = Counter(word for row in models for word in {*_words(row["config"])})
    defaults = {word for row in model_types for word in _words(row["defaults"])}
    named: dict[str, list[str]] = {}
    for row in models:
        for name in {one.partition("/")[2].lower() for one in (row["id"], *row["aliases"])}:
            named.setdefault(name, []).append(row["id"])
    offs: dict[object, list[float]] = {}
    for row in models:
        if (off := shape_off(row)) is not None:
            offs.setdefault(_model_type(row), []).append(off)
    exact = {kind: sum(off <= EXACT for off in found) for kind, found in offs.items()}
    rows, share = EXACT_ROWS
    return Known(
        models={row["id"]: row for row in models},
        named=named,
        architectures={name for one in releases for name in (*one["architectures"], *one["previously_supported"])},
        model_types={name for one in releases for name in one.get("model_types", ())}
        | {row["model_type"] for row in model_types},
        quantization={name for one in releases for name in one["names"].get("quantization", ())},
        words={word for word, count in used.items() if count > 1} | defaults | {*LIKE_COMMON},
        common={word for word, count in used.items() if count >= COMMON} | defaults,
        exact={kind for kind, count in exact.items() if count >= max(rows, share * (len(offs[kind]) - 1))},
    )


def _words(config: Mapping[str, Any]) -> Iterator[str]:
    """Keys, and kinds of layers."""
    for key, value in config.items():
        yield key
        if isinstance(value, Mapping):
            yield from _words(value)
        elif key == "layer_types" and isinstance(value, list):
            yield from (one for one in value if isinstance(one, str))


def _model_type(row: Mapping[str, Any]) -> object:
    return language_config(row["config"]).get("model_type")


def model_problems(row: Mapping[str, Any], known: Known) -> Iterator[str]:
    """What of a model contradicts itself, or the other tables."""
    config = language_config(row["config"])
    yield from shape_problems(config)
    yield from word_problems(row["config"], known)
    yield from misspelt(row["config"], known)
    yield from copy_problems(row, known)
    if row["trusted"]:
        model = from_config(row["id"], row["config"], complete=row["confidence"] == "file")
        if missing := [key for key in NEEDED if getattr(model, key) is None]:
            yield f"config: {', '.join(missing)} can't be read"
    parameters, weights = row["parameters"], row["weights_bytes"]
    quantized = settle.is_quantised(row["config"])
    if parameters and weights:
        per = weights / parameters
        dtype = dtype_bytes(row)
        usual = (1, 2, 4) if dtype is None else (dtype,)
        if quantized and not 0.4 <= per <= 4.1:
            yield f"{per:.2f} bytes for each parameter, expected 0.4 to 4.1"
        if not quantized and not any(abs(per - one) <= BYTES_OFF * one for one in usual):
            yield f"{per:.2f} bytes for each parameter, expected {' or '.join(map(str, usual))}"
    named = size_of(row["id"])
    size = named.value.parameters if named and not any(part in row["id"] for part in NAMED_OTHERWISE) else None
    if parameters and size and not NAMED[0] <= parameters / size <= NAMED[1]:
        yield f"{parameters:,} parameters, expected about the {size:,} in its name"
    stored, sizes = row.get("stored_elements"), parameters or settle.elements(row["config"])
    if row["trusted"] and sizes and stored and stored > (1 + STORED_MORE) * sizes + head_elements(row):
        yield f"stored_elements {stored:,}, expected at most the {sizes:,} parameters and another head"
    yield from base_problems(row)
    off = shape_off(row)
    if off is not None and off > (EXACTLY_OFF if _model_type(row) in known.exact else SHAPE_OFF):
        what = f"{row['parameters']:,} parameters" if row["parameters"] else f"weights_bytes {row['weights_bytes']:,}"
        yield f"{what}, {off:.0%} off what its sizes give"


def head_elements(row: Mapping[str, Any]) -> int:
    """Elements of a head that is stored although it is tied to the embedding."""
    config = language_config(row["config"])
    hidden, vocab = config.get("hidden_size"), config.get("vocab_size")
    return hidden * vocab if isinstance(hidden, int) and isinstance(vocab, int) else 0


def base_problems(row: Mapping[str, Any]) -> Iterator[str]:
    """The base of an original is never a quantized copy, of it or of another model. Doubts go from the base to the
    copy."""
    base = row["base"] or ""
    if QUANTIZED.search(base) and not QUANTIZED.search(row["id"]):
        yield f"base {base}, expected an original: the id names a quantization scheme"


def dtype_bytes(row: Mapping[str, Any]) -> int | None:
    """Bytes of a parameter, by the dtype in a model's config."""
    config = {**language_config(row["config"]), **row["config"]}
    return CONFIG_BYTES.get(str(config.get("torch_dtype") or config.get("dtype")))


def parameters_by_bytes(row: Mapping[str, Any]) -> int | None:
    """Parameters that the bytes of a model hold in its dtype; None without both."""
    size = dtype_bytes(row)
    return row["weights_bytes"] // size if size and row["weights_bytes"] else None


def shape_off(row: Mapping[str, Any]) -> float | None:
    """How far a model's counted parameters are off what its sizes give, with a tied head or an own one; None if its
    sizes do not give them."""
    counted = settle.counted(row) if row["parameters"] else parameters_by_bytes(row)
    if not counted or not row["trusted"] or settle.is_quantised(row["config"]) or _model_type(row) in NOT_BY_SHAPE:
        return None
    complete = row["confidence"] == "file"
    off = settle.misses(row["config"], counted, complete=complete)
    if off is None or off <= EXACT:
        return off
    ties = (settle.misses(settle.tied(row["config"], tie), counted, complete=complete) for tie in (True, False))
    return min(off, *(one for one in ties if one is not None))


def copy_problems(row: Mapping[str, Any], known: Known) -> Iterator[str]:
    """Sizes of a model that another of its name, or the one that it is a quantized copy of, has otherwise."""
    name = row["id"].partition("/")[2].lower()
    if any(part in row["id"] for part in OTHER_SIZES):
        return
    ends = [len(name), *(at for at in range(len(name) - 1, 0, -1) if name[at] == "-")]
    originals = (
        known.named.get(name[:end], []) for end in ends if end == len(name) or settle.SAYS_SCHEME.search(name[end:])
    )
    others = next((found for found in originals if {*found} - {row["id"]}), [])
    config = language_config(row["config"])
    for other in others:
        for key in (*OF_ORIGINAL, *PADDED):
            own, given = config.get(key), language_config(known.models[other]["config"]).get(key)
            if not isinstance(own, int) or not isinstance(given, int) or own == given:
                continue
            if key not in PADDED or abs(own - given) > PADDED_OFF * given:
                yield f"{key} {own:,}, expected {given:,} as in {other}"


def relative_problems(row: Mapping[str, Any]) -> Iterator[str]:
    """What of a relative contradicts its id."""
    sizes = [named.value.parameters if (named := size_of(name)) else None for name in (row["id"], row["base"])]
    if sizes[0] and sizes[1] and not NAMED[0] <= sizes[0] / sizes[1] <= NAMED[1]:
        yield f"base {row['base']}, expected a model of about the {sizes[0]:,} parameters in its name"
    words = {scheme for scheme in SCHEMES if scheme in row["id"].lower()}
    if words and row.get("scheme") not in {*words, "w4a16"}:
        yield f"scheme {row.get('scheme')!r}, expected {' or '.join(sorted(words))} as in its name"


def word_problems(config: Mapping[str, Any], known: Known) -> Iterator[str]:
    """Values of a config that vLLM and Transformers do not have."""
    for key, value in config.items():
        if key in ("torch_dtype", "dtype") and value is not None and value not in DTYPES:
            yield f"{key} {value!r}, expected one of {', '.join(DTYPES)}"
        elif key == "quant_method" and value not in known.quantization:
            yield f"quant_method {value!r}, expected a quantization method of vLLM"
        elif key == "bits" and value not in BITS:
            yield f"bits {value!r}, expected {BITS[0]} to {BITS[-1]}"
        elif key == "tie_word_embeddings" and not isinstance(value, bool):
            yield f"{key} {value!r}, expected true or false"
        elif key in ("rope_scaling", "rope_parameters") and isinstance(value, Mapping):
            kind, factor = value.get("rope_type", value.get("type", "default")), value.get("factor", 1)
            if kind not in ROPE_TYPES:
                yield f"{key}: type {kind!r}, expected one of {', '.join(ROPE_TYPES)}"
            if isinstance(factor, bool) or not isinstance(factor, int | float) or factor < 1:
                yield f"{key}: factor {factor!r}, expected a number from 1"
        elif isinstance(value, Mapping):
            yield from word_problems(value, known)


def misspelt(config: Mapping[str, Any], known: Known) -> Iterator[str]:
    """Names that no release of vLLM or Transformers and no other model has, but that differ in a letter or two from
    one that is known."""
    architectures = config.get("architectures", ["none"])
    if (
        not isinstance(architectures, list)
        or not architectures
        or not all(isinstance(one, str) for one in architectures)
    ):
        yield f"architectures {architectures!r:.60}, expected a list of names"
        architectures = []
    kinds = [("architectures", name, known.architectures, known.architectures, ALMOST) for name in architectures]
    if isinstance(name := config.get("model_type"), str):
        kinds.append(("model_type", name, known.model_types, known.model_types, ALMOST))
    kinds += [("config:", word, known.words, known.common, ALMOST_WORD) for word in sorted({*_words(config)})]
    for what, name, names, alike, ratio in kinds:
        near = () if name in names else get_close_matches(name, alike, 1, ratio)
        if near and re.sub(r"\d", "", near[0]) != re.sub(r"\d", "", name):
            yield f"{what} {name!r}, expected {near[0]!r}"


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


def default_problems(defaults: Mapping[str, Any]) -> Iterator[str]:
    """Sizes that no configuration class has."""
    yield from size_problems(defaults)
    for key in POSITIVE:
        if defaults.get(key) == 0:
            yield f"{key} 0, expected 1 or more"


def size_problems(config: Mapping[str, Any]) -> Iterator[str]:
    """Sizes of a config that no model has."""
    for key, value in config.items():
        strange = isinstance(value, str | float | bool) or (isinstance(value, int) and value < 0)
        if strange and SIZE.search(key) and key not in SWITCHES:
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
