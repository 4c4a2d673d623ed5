"""EngineArgs + facts → Model: the model's shape in config.json's words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from webhook import data
from webhook.facts import Fact, Facts
from webhook.release import Release

if TYPE_CHECKING:
    from webhook.args import EngineArgs
    from webhook.workload import Container, Workload

ANNOTATION = "podfit.dev/model"


@dataclass(frozen=True)
class Model:
    """A model's shape. Field names are config.json's; None means config.json (and transformers' default) is silent."""

    id: str
    model_type: str | None
    """The whole model's; the language model's own, where it has one, is `config["model_type"]`."""
    architectures: tuple[str, ...]
    torch_dtype: str | None
    """As in config.json ("bfloat16", "float16", "float32"); vLLM serves float32 checkpoints in half under auto."""
    num_hidden_layers: int | None
    hidden_size: int | None
    num_attention_heads: int | None
    num_key_value_heads: int | None
    head_dim: int | None
    intermediate_size: int | None
    vocab_size: int | None
    tie_word_embeddings: bool
    max_position_embeddings: int | None
    """The context length that vLLM derives when --max-model-len is not given (0.33 config/model.py), before release
    dependent rope rules; see `derived_max_model_len`."""
    sliding_window: int | None = None
    """Tokens; None where the model has no window or does not use it. With `layer_types` empty, every layer has it."""
    layer_types: tuple[str, ...] = ()
    """One of "full_attention", "sliding_attention", "chunked_attention", "linear_attention", "mamba", "conv" a layer;
    "mlp" and "moe" are layers that hold no state. Empty: all alike, or nothing says."""
    # mixture of experts
    num_experts: int | None = None
    num_experts_per_tok: int | None = None
    moe_intermediate_size: int | None = None
    n_shared_experts: int | None = None
    first_k_dense_replace: int = 0
    # multi-head latent attention
    kv_lora_rank: int | None = None
    q_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    qk_nope_head_dim: int | None = None
    v_head_dim: int | None = None
    index_head_dim: int | None = None
    num_nextn_predict_layers: int = 0
    quantization_config: Mapping[str, Any] | None = None
    vision_config: Mapping[str, Any] | None = None
    parameters: int | None = None
    """All parameters of the checkpoint, unpacked."""
    weights_bytes: int | None = None
    """Bytes of the checkpoint's tensors, where known exactly."""
    gated: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    """The whole text config with transformers' defaults beneath, for what has no field here."""
    dtype_parameters: Mapping[str, int] = field(default_factory=dict)
    """Stored elements by safetensors dtype ("BF16", "F8_E4M3", "I32"), where the checkpoint's index was read."""
    expert_bytes: int | None = None
    """Bytes of the routed experts' tensors, where the checkpoint's index was read."""
    replicated_bytes: int | None = None
    """Bytes of the tensors that every rank holds whole, where the checkpoint's index was read."""


# ------------------------------------------------------------------------------------------- config.json → Model

NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal configs keep the language model's (vLLM 0.33 transformers_utils/config.py, get_hf_text_config)."""
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads")
KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups",
                   "num_query_groups")  # fmt: skip
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
INTERMEDIATE = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "decoder_ffn_dim")
VOCABULARY = ("vocab_size", "padded_vocab_size")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")
EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k", "moe_topk")
SHARED_EXPERTS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
MOE_INTERMEDIATE = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size")
DENSE_LAYERS = ("first_k_dense_replace", "num_dense_layers")
NEXT_TOKEN_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_num_layers")


def from_config(
    id: str,  # noqa: A002 - a model's id, as the hub calls it
    config: Mapping[str, Any],
    *,
    weights_bytes: int | None = None,
    complete: bool = True,
) -> Model:
    """The model of a config.json; odd values count as absent, nothing is raised.

    `complete`: `config` is the whole file, so transformers' class defaults stand for what it does not say. A table's
    row may lack a null that the file has: there a window of all layers must not be assumed.
    """
    given = _flat(config)
    whole_type, own_type = _text(config.get("model_type")), _text(given.get("model_type"))
    beneath = {**_defaults(whole_type), **_defaults(own_type)}
    if not complete and "layer_pattern" not in beneath:
        beneath.pop("sliding_window", None)
    text = {**beneath, **given}  # an explicit null is an answer: no window, as many key-value heads as heads

    heads, hidden, layers = _first(text, HEADS), _first(text, HIDDEN), _first(text, LAYERS)
    layer_types = _layer_types(text, given, layers)
    experts = _first({key: given[key] for key in EXPERTS if key in given} or text, EXPERTS)
    if layer_types and "mamba" in layer_types and "moe" not in layer_types and "hybrid_override_pattern" in text:
        experts = None  # the class's default is for its siblings with experts
    return Model(
        id=id,
        model_type=whole_type or own_type,
        architectures=_strings(config.get("architectures")) or _strings(given.get("architectures")),
        torch_dtype=_dtype(config, given),
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=_key_value_heads(text, heads),
        head_dim=_head_dim(text, hidden, heads),
        intermediate_size=_first(text, INTERMEDIATE),
        vocab_size=_first(text, VOCABULARY),
        tie_word_embeddings=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        max_position_embeddings=_context(text),
        sliding_window=_sliding_window(text),
        layer_types=layer_types,
        num_experts=experts if experts and experts > 1 else None,
        num_experts_per_tok=_first(text, EXPERTS_PER_TOKEN) if experts and experts > 1 else None,
        moe_intermediate_size=_first(text, MOE_INTERMEDIATE) if experts and experts > 1 else None,
        n_shared_experts=_first(text, SHARED_EXPERTS) if experts and experts > 1 else None,
        first_k_dense_replace=_first(text, DENSE_LAYERS) or 0,
        kv_lora_rank=_integer(text.get("kv_lora_rank")),
        q_lora_rank=_integer(text.get("q_lora_rank")),
        qk_rope_head_dim=_integer(text.get("qk_rope_head_dim")),
        qk_nope_head_dim=_integer(text.get("qk_nope_head_dim")),
        v_head_dim=_integer(text.get("v_head_dim")),
        index_head_dim=_integer(text.get("index_head_dim")),
        num_nextn_predict_layers=_first(text, NEXT_TOKEN_LAYERS) or 0,
        quantization_config=_quantization(config, given),
        vision_config=_mapping(given.get("vision_config")),
        weights_bytes=weights_bytes,
        config=text,
    )


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's config over the whole one's."""
    for key in NESTED:
        inner = config.get(key)
        if isinstance(inner, Mapping) and inner:
            return {**{k: v for k, v in config.items() if k != key}, **_flat(inner)}
    return dict(config)


def _defaults(model_type: str | None) -> dict[str, Any]:
    row = data.rows("model_defaults").get(model_type or "")
    found: dict[str, Any] = json.loads(row) if row else {}
    return found


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _first(config: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """The first of `keys` that holds a positive number."""
    return next((value for key in keys if (value := _integer(config.get(key)))), None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _strings(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _mapping(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) and value else None


def _dtype(config: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    """`dtype` since transformers 4.56, `torch_dtype` before; the language model's first, as vLLM reads it."""
    found = (one.get(key) for one in (given, config) for key in ("dtype", "torch_dtype"))
    dtype = next((value for value in found if isinstance(value, str)), None)
    return dtype.removeprefix("torch.") if dtype else None


def _quantization(config: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for one in (config, given):
        for key in ("quantization_config", "compression_config", "hf_quant_config"):
            if found := _mapping(one.get(key)):
                return found
    return None


def _key_value_heads(text: Mapping[str, Any], heads: int | None) -> int | None:
    """One each query head where nothing says less. Falcon: `multi_query` means one, unless the new architecture is
    used (vLLM 0.33 config/model.py, get_total_num_kv_heads)."""
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        return 1
    attention = text.get("attn_config")
    if isinstance(attention, Mapping) and (grouped := _integer(attention.get("kv_n_heads"))):
        return grouped  # MPT, DBRX
    blocks = text.get("block_configs")
    groups = (
        [_integer(_attention(block).get("n_heads_in_group")) for block in blocks] if isinstance(blocks, list) else []
    )
    if heads and any(groups):
        return heads // min(filter(None, groups))  # NAS models: the widest layer's
    return _first(text, KEY_VALUE_HEADS) or heads


def _head_dim(text: Mapping[str, Any], hidden: int | None, heads: int | None) -> int | None:
    if (found := _first(text, HEAD_DIM)) is not None:
        return found
    return hidden // heads if hidden and heads else None


def _sliding_window(text: Mapping[str, Any]) -> int | None:
    """Qwen2 carries a window that it does not use; Mistral's null means none."""
    window = _integer(text.get("sliding_window", text.get("sliding_window_size", text.get("local_attention"))))
    return window if window and text.get("use_sliding_window") is not False else None


# ------------------------------------------------------------------------------------------------- kinds of layer

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
"""Models' own words → transformers' (configuration_utils.py, ALLOWED_LAYER_TYPES)."""
NEMOTRON = {"M": "mamba", "*": "full_attention", "-": "mlp", "E": "moe"}
"""`hybrid_override_pattern` (vLLM 0.33 models/nemotron_h.py)."""


def _layer_types(text: Mapping[str, Any], given: Mapping[str, Any], layers: int | None) -> tuple[str, ...]:
    """What config.json says each layer is; () where it does not say, or says that all are alike."""
    if not layers:
        return ()
    found = tuple(_stated_layers(given, layers) or _stated_layers(text, layers) or ())
    if len(found) < layers or set(found) == {"full_attention"}:
        return ()
    return tuple(LAYER_NAMES.get(kind, kind) for kind in found[:layers])


def _stated_layers(config: Mapping[str, Any], layers: int) -> list[str] | None:
    count = range(layers)
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
    if period := _integer(config.get("attn_layer_period")):  # Jamba
        offset = _integer(config.get("attn_layer_offset")) or 0
        return ["full_attention" if index % period == offset else "mamba" for index in count]
    if period := _integer(config.get("full_attention_interval")):  # Qwen3-Next
        return ["linear_attention" if (index + 1) % period else "full_attention" for index in count]
    if isinstance(blocks := config.get("block_configs"), list):  # NAS models
        return [_block(block) for block in blocks]
    if isinstance(pattern := config.get("layer_pattern"), list) and pattern:
        return [pattern[index % len(pattern)] for index in count]
    for key in ("sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"):
        period = _integer(config.get(key))
        if period and period > 1 and _integer(config.get("sliding_window")):
            return ["sliding_attention" if (index + 1) % period else "full_attention" for index in count]
    if isinstance(pattern := config.get("sliding_window_pattern"), str) and pattern and set(pattern) <= {"L", "G"}:
        return ["sliding_attention" if pattern[index % len(pattern)] == "L" else "full_attention" for index in count]
    if config.get("use_sliding_window") is True and _integer(config.get("sliding_window")):  # Qwen2
        first = _integer(config.get("max_window_layers")) or 0
        return ["sliding_attention" if index >= first else "full_attention" for index in count]
    return None


def _attention(block: object) -> Mapping[str, Any]:
    found = block.get("attention") if isinstance(block, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _block(block: object) -> str:
    attention = _attention(block)
    return "mlp" if attention.get("no_op") or attention.get("replace_with_linear") else "full_attention"


# ------------------------------------------------------------------------------------------ how long a context is

LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
           "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len")  # fmt: skip
NOT_SCALED = {"su", "longrope", "llama3"}
"""Rope types whose max_position_embeddings already is the extended length."""
NOT_SCALED_SINCE_0_30 = {"yarn", "deepseek_yarn", "deepseek_llama_scaling"}


def _context(text: Mapping[str, Any]) -> int | None:
    if text.get("model_type") in ("cohere", "cohere2") and (longest := _integer(text.get("model_max_length"))):
        return longest
    return min((length for key in LENGTHS if (length := _integer(text.get(key)))), default=None)


def derived_max_model_len(model: Model, release: Release | None) -> int | None:
    """The context length, in tokens, that vLLM takes where --max-model-len is not given (0.33 config/model.py,
    _get_and_verify_max_len); None where config.json's lengths are not known, or where the release is not and the
    releases disagree."""
    return _agreed(_default_length, model, release)


def longest_max_model_len(model: Model, release: Release | None) -> int | None:
    """The longest --max-model-len, in tokens, that vLLM takes from this config without VLLM_ALLOW_LONG_MAX_MODEL_LEN:
    more than the default for LongRoPE models, and where config.json has a `model_max_length`."""
    return _agreed(_longest_length, model, release)


GENERATIONS = (Release(0, 10), Release(0, 29), Release(0, 33))
"""One release of each generation of the rules below."""


def _agreed(rule: Callable[[Model, Release], int | None], model: Model, release: Release | None) -> int | None:
    lengths = {rule(model, one) for one in ((release,) if release else GENERATIONS)}
    return lengths.pop() if len(lengths) == 1 else None


def _default_length(model: Model, release: Release) -> int | None:
    kinds = {_rope_type(scaling) for scaling in _rope_scalings(model.config)}
    if release >= Release(0, 11) and "longrope" in kinds:  # short prompts get worse answers beyond it
        original = _integer(model.config.get("original_max_position_embeddings"))
        return original or _scaled_length(model, release)
    return _scaled_length(model, release)


def _longest_length(model: Model, release: Release) -> int | None:
    scaled = _scaled_length(model, release)
    stated = _integer(model.config.get("model_max_length"))
    return max(scaled, stated) if scaled and stated else scaled


def _scaled_length(model: Model, release: Release) -> int | None:
    length = model.max_position_embeddings
    if length is None or "gemma3" in (model.model_type or ""):
        return length
    factor = 1.0
    for scaling in _rope_scalings(model.config):
        kind = _rope_type(scaling)
        if kind in NOT_SCALED or (kind in NOT_SCALED_SINCE_0_30 and release >= Release(0, 30)):
            continue
        if kind in ("yarn", "deepseek_yarn") and (
            original := _integer(scaling.get("original_max_position_embeddings"))
        ):
            length = original
        this = scaling.get("factor")
        if isinstance(this, int | float) and not isinstance(this, bool) and 0 < this < 1e6:
            factor = max(factor, float(this))
    return int(length * factor)


def _rope_type(scaling: Mapping[str, Any]) -> str:
    """`rope_type`, in older files `type`."""
    return str(scaling.get("rope_type") or scaling.get("type") or "default")


def _rope_scalings(text: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """`rope_parameters` since transformers 5 (one for each kind of layer where they differ), `rope_scaling` before."""
    for key in ("rope_parameters", "rope_scaling"):
        found = text.get(key)
        if not isinstance(found, Mapping) or not found:
            continue
        inner = [one for one in found.values() if isinstance(one, Mapping)]
        yield from inner or [found]
        return


# ------------------------------------------------------------------------------------------ the built-in catalogue


@cache
def _ids() -> Mapping[str, str]:
    """Lower-case id → the id as its owner writes it."""
    return {name.lower(): name for name in data.rows("models") if name not in ("aliases", "sources", "models")}


@cache
def _aliases() -> Mapping[str, str]:
    found: dict[str, str] = json.loads(data.rows("models")["aliases"])
    return found


@cache
def _sources() -> list[str]:
    found: list[str] = json.loads(data.rows("models")["sources"])
    return found


@cache
def _row(name: str) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(data.rows("models")[name])
    return found


@cache
def _catalogued(name: str) -> Model:
    row = _row(name)
    model = from_config(name, row["config"], complete=row["confidence"] == "file")
    return replace(
        model,
        parameters=row.get("parameters"),
        weights_bytes=row.get("weights_bytes"),
        gated=row.get("gated", False),
        dtype_parameters=row.get("dtype_parameters", {}),
        expert_bytes=row.get("expert_bytes"),
        replicated_bytes=row.get("replicated_bytes"),
    )


WORDS = {"file": "config.json", "table": "a library's table", "documented": "its documentation", "memory": "unverified"}


def by_id(name: str, facts: Facts | None = None) -> Fact[Model] | None:
    """The catalogue's row for `name`, its id or an alias in any case; None where there is none."""
    key = name.strip().lower()
    found = _ids().get(key) or _aliases().get(key)
    if found is None:
        return None
    row = _row(found)
    source = f"built-in catalogue ({WORDS.get(row['confidence'], row['confidence'])})"
    if not row["trusted"]:
        source += f"; doubtful: {row.get('doubts', 'unchecked')}"
    return Fact(_catalogued(found), source, bool(row["trusted"]))


def source(name: str) -> str | None:
    """Where the catalogue has a row from: a file of a repository at a revision, a table of a library's release."""
    found = _ids().get(name.lower()) or _aliases().get(name.lower())
    return _sources()[_row(found)["source"]] if found else None


# ------------------------------------------------------------------------------------------ which model is served

MOUNTS = re.compile(
    r"(/(mnt|data|opt|opt/ml|var|root|workspace|home/\w+))*"
    r"/(models?|model[-_]?(cache|store|dir|repo)|weights|checkpoints?|huggingface|data|mnt|pvc|repository|llm)/?(\d+/?)?"
)
"""Paths where an operator or an image puts whatever model it was told elsewhere (KServe: /mnt/models)."""
ENVIRONMENT = ("HF_MODEL_ID", "MODEL_ID", "MODEL_NAME", "HF_MODEL", "MODEL", "VLLM_MODEL", "MODEL_REPO", "HF_REPO_ID",
               "STORAGE_URI", "MODEL_URI")  # fmt: skip
"""Variables in which images and operators are told the model."""
URI_FIELDS = (
    ("spec", "predictor", "model", "storageUri"),
    ("spec", "predictor", "storageUri"),
    ("spec", "predictor", "model", "storage", "path"),
    ("spec", "model", "uri"),
    ("spec", "model", "name"),
    ("spec", "modelUri"),
)
"""Where KServe's InferenceService and LLMInferenceService name the model."""


def find(args: EngineArgs, workload: Workload, container: Container, facts: Facts) -> Fact[Model] | None:
    """The served model, by the order in `webhook.facts`; None where nothing names one that is known."""
    found = _find(args, workload, container, facts)
    if found is None:
        return None
    changed = _overridden(found.value, args)
    if facts.weights_bytes is not None:
        changed = replace(changed, weights_bytes=facts.weights_bytes)
    return replace(found, value=changed)


def _find(args: EngineArgs, workload: Workload, container: Container, facts: Facts) -> Fact[Model] | None:
    annotation = workload.annotations.get(ANNOTATION)
    if isinstance(annotation, str) and (row := by_id(annotation)):
        return replace(row, source=f"annotation {ANNOTATION}: {row.source}")
    name = args.model or ""
    config = facts.model_configs.get(name or "*", facts.model_configs.get("*"))
    if isinstance(config, Mapping):
        return Fact(_handed_in(name or "model", config), "config.json handed in", True)
    if name and not _elsewhere(name) and ((found := named(name)) or not _is_path(name)):
        return found
    if not name and "model" not in args.unresolved and "args" not in workload.completes:
        return None  # vLLM would serve its own default model
    for hint in _hints(args, workload, container):
        if found := named(hint):
            return Fact(found.value, f"{found.source}, from {hint!r}", may_deny=False)
    return None


def _elsewhere(name: str) -> bool:
    """The name is a mount point or a template's hole: something else says which model is there."""
    return MOUNTS.fullmatch(name) is not None or "{{" in name


def _is_path(name: str) -> bool:
    return name.startswith(("/", ".", "~")) or "://" in name


def _hints(args: EngineArgs, workload: Workload, container: Container) -> Iterator[str]:
    """What else of the object names a model, the most telling first."""
    for parts in URI_FIELDS:
        value: object = workload.object
        for part in parts:
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            yield value
    served = args.given.get("served_model_name")
    yield from (one for one in (served if isinstance(served, list) else [served]) if isinstance(one, str))
    env = container.spec.get("env")
    told = {
        str(one.get("name")): one.get("value")
        for one in (env if isinstance(env, list) else ())
        if isinstance(one, Mapping)
    }
    yield from (value for name in ENVIRONMENT if isinstance(value := told.get(name), str))


def named(name: str) -> Fact[Model] | None:
    """The model that a name tells: an id, a path or URI that ends in one, or one with a quantisation added."""
    if row := by_id(name):
        return row
    parts = _parts(name)
    for start in range(max(0, len(parts) - 2), len(parts)):
        tail = "/".join(parts[start:])
        if found := by_id(tail) or _by_last_part(tail):
            return Fact(found.value, f"the path's last part names {found.value.id}", may_deny=False)
    return next((found for part in reversed(parts[-3:]) if (found := _by_beginning(part))), None)


def _parts(name: str) -> list[str]:
    """The parts of a path or URI from the outside in; a Hugging Face cache's `models--org--name` is two."""
    path = re.sub(r"^[a-z][a-z0-9+.-]*://", "", name.strip(), flags=re.IGNORECASE).partition("?")[0]
    path = re.sub(r"@sha256:\w+$", "", path)
    parts = [part for part in path.split("/") if part.strip()]
    if cached := next((part for part in parts if part.startswith("models--")), None):
        return cached.removeprefix("models--").split("--")
    while len(parts) > 1 and re.fullmatch(
        r"\d{1,4}|v\d+|latest|main|snapshots?|hf|original|[0-9a-f]{40}", parts[-1], re.I
    ):
        parts.pop()
    if parts and name.startswith("oci://"):
        parts[-1] = parts[-1].partition(":")[0]
    return parts


@cache
def _last_parts() -> Mapping[str, tuple[str, ...]]:
    """The last part of an id or alias, as `_key` writes it → the rows that it may mean."""
    found: dict[str, list[str]] = {}
    for name, row in [*_ids().items(), *_aliases().items()]:
        rows = found.setdefault(_key(name.rpartition("/")[2]), [])
        if row not in rows:
            rows.append(row)
    return {key: tuple(rows) for key, rows in found.items()}


def _key(name: str) -> str:
    """Names that people write apart and mean alike: Llama_3.1-8B, llama-3-1-8b-hf."""
    return re.sub(r"[\s_.()-]+", "-", name.lower()).strip("-").removesuffix("-hf")


def _by_last_part(name: str) -> Fact[Model] | None:
    """The one model of that last part: copies by several owners are one where shape and scheme agree."""
    rows = _last_parts().get(_key(name.rpartition("/")[2]), ())
    models = [_catalogued(row) for row in rows]
    if not models or len({_shape(model) for model in models}) != 1:
        return None
    best = min(rows, key=lambda row: (not _row(row)["trusted"], "base" in _row(row), row.lower()))
    return by_id(best)


def _shape(model: Model) -> tuple[object, ...]:
    """What copies of one model agree in; whether it is quantised is part of it, by which scheme is not."""
    return (model.num_hidden_layers, model.hidden_size, model.num_attention_heads, model.num_key_value_heads,
            model.vocab_size, model.num_experts, model.quantization_config is not None)  # fmt: skip


QUANTISED = re.compile(
    r"(?P<gguf>gguf|q[2-8]-[k01])|(?P<awq>awq)|(?P<gptq>gptq|autoround)|(?P<fp8>fp8|float8)|(?P<nvfp4>nvfp4)"
    r"|(?P<bnb>bnb|bitsandbytes)|(?P<w8a8>w8a8|int8|8bit|8-bit)|(?P<w4a16>w4a16|int4|4bit|4-bit)"
    r"|(?P<unknown>mxfp4|fp4|w8a16|quantized?|exl[23]|hqq|aqlm)"
)
SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
    "fp8": {"quant_method": "fp8"},
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "bnb": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "w8a8": {"quant_method": "compressed-tensors", "_scheme": "W8A8"},
    "w4a16": {"quant_method": "compressed-tensors", "format": "pack-quantized", "_scheme": "W4A16"},
}
"""What a name's word usually means, as the catalogue writes schemes; enough to estimate with, not to deny on."""
SIZE = re.compile(r"(?:^|-)((?:\d+x|[ea])?\d+(?:-\d+)?[bm])(?=-|$)")


def _by_beginning(name: str) -> Fact[Model] | None:
    """A published model's name, with its size in it, and then more words: a quantised copy or a fine-tune of it."""
    words = _key(name).split("-")
    for end in range(len(words) - 1, 1, -1):
        beginning, rest = "-".join(words[:end]), "-".join(words[end:])
        sizes = SIZE.findall(beginning)
        if not sizes or not set(SIZE.findall(rest)) <= set(sizes):
            continue
        spellings = (beginning, f"{beginning}-instruct", f"{beginning}-it", f"meta-{beginning}")
        if found := next((row for one in spellings if (row := _by_last_part(one))), None):
            return _variant(found.value, name, rest)
    return None


def _variant(model: Model, name: str, rest: str) -> Fact[Model] | None:
    """`model` as the further words of a name change it; None where they name a format of unknown size."""
    source = f"the name begins with {model.id}'s"
    if scheme := QUANTISED.search(rest):
        if scheme.lastgroup not in SCHEMES:
            return None
        model = replace(model, quantization_config=SCHEMES[scheme.lastgroup])
    if model.quantization_config:
        model = replace(model, weights_bytes=None, dtype_parameters={}, expert_bytes=None, replicated_bytes=None)
    return Fact(replace(model, id=name), source, may_deny=False)


def _handed_in(name: str, config: Mapping[str, Any]) -> Model:
    """The model of a config.json, with the parameters of its row in the catalogue where the shapes agree."""
    model = from_config(name, config)
    row = by_id(name)
    if row is None or _shape(row.value) != _shape(model):
        return model
    known = row.value
    return replace(
        model, parameters=known.parameters, weights_bytes=known.weights_bytes, gated=known.gated,
        dtype_parameters=known.dtype_parameters, expert_bytes=known.expert_bytes,
        replicated_bytes=known.replicated_bytes,
    )  # fmt: skip


def _overridden(model: Model, args: EngineArgs) -> Model:
    """The model with what --hf-overrides (and, before 0.14, --rope-scaling) changes of its config."""
    overrides = {**_json(args.given.get("hf_overrides"))}
    if "rope_scaling" not in overrides and (scaling := _json(args.given.get("rope_scaling"))):
        overrides["rope_scaling"] = scaling
    if not overrides:
        return model
    whole = {"model_type": model.model_type, "architectures": list(model.architectures)}
    config = {**model.config, **_flat(overrides)}
    changed = from_config(model.id, {**config, **{key: value for key, value in whole.items() if value}})
    config["model_type"] = model.config.get("model_type")
    same_shape = _shape(changed)[:-1] == _shape(model)[:-1]
    return replace(
        changed,
        torch_dtype=changed.torch_dtype or model.torch_dtype,
        tie_word_embeddings=model.tie_word_embeddings if same_shape else changed.tie_word_embeddings,
        quantization_config=changed.quantization_config or model.quantization_config,
        vision_config=changed.vision_config or model.vision_config,
        parameters=model.parameters if same_shape else None,
        weights_bytes=model.weights_bytes if same_shape else None,
        gated=model.gated,
        config={**changed.config, "model_type": config["model_type"]},
        dtype_parameters=model.dtype_parameters if same_shape else {},
        expert_bytes=model.expert_bytes if same_shape else None,
        replicated_bytes=model.replicated_bytes if same_shape else None,
    )


def _json(value: object) -> Mapping[str, Any]:
    """An option's JSON object, parsed or not; empty for anything else (a Python function's name, say)."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, Mapping) else {}
