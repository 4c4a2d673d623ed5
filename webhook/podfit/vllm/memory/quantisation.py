"""Bytes per element of a quantized checkpoint on the GPU, and which tensors stay in the model's dtype."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.model import Model
from podfit.vllm.release import Release

DTYPE_BYTES = {
    "auto": 2, "half": 2, "float16": 2, "bfloat16": 2, "float": 4, "float32": 4, "float64": 8,
}  # fmt: skip
STORED_BYTES = {
    "F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "BF16": 2, "F16": 2, "I16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
    "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1, "F4": 1,
}  # fmt: skip
"""Bytes per element of safetensors dtypes; packed 4-bit weights are I32 or U8 words."""


@dataclass(frozen=True, eq=False)
class Scheme:
    """A way to store linear layers. Equal only to itself, like the model that it was read from."""

    name: str
    bytes: float
    """Per element of a quantized linear layer, scales included."""
    experts_only: bool = False
    """Only the routed experts are quantized."""
    head: bool = False
    """True if lm_head is quantized too (ModelOpt and GGUF; others leave it in the model's dtype)."""
    embedding: bool = False
    """The embedding is quantized too (GGUF)."""
    kept: Mapping[str, float] | None = None
    """Group of tensors → share that stays in the model's dtype. None: the checkpoint does not say."""
    online: bool = False
    """Quantized while it loads: the checkpoint is not."""
    streamed: Release | None = None
    """Before this release, all weights are on the GPU in 16 bits until vLLM quantizes them (`memory.loading`). None if
    no release does that."""
    experts: float | None = None
    """Per element of the routed experts, if they are stored in another way."""
    is_stated: bool = True
    """True if the checkpoint's config lists the unquantized layers; else those usual for checkpoints of its kind."""

    def share_kept(self, group: str) -> float:
        """The share of a group (`layer_tensors.Group`, or "vision") that stays in the model's dtype, 0 to 1.

        If the checkpoint does not say, all of the vision tower and nothing else."""
        if group == "rest" or (self.experts_only and group != "experts"):
            return 1.0
        if self.kept is not None:
            return self.kept.get(group, 0.0)
        return 1.0 if group == "vision" else 0.0


def scheme(model: Model, given: str | None) -> Scheme | None:
    """The scheme that vLLM serves with: the checkpoint's own, else the one that `--quantization` (`given`) applies.
    None for a model that is not quantized, and for a scheme that is not described."""
    return _scheme(model, given if given in METHODS else None)


@lru_cache(256)
def _scheme(model: Model, given: str | None) -> Scheme | None:
    """`scheme`, cached. `given`: one of METHODS, or None."""
    config = model.quantization_config or _named(model)
    if not config:
        return _applied(given)
    stored = _stored(model, config, given)
    if stored is None:
        return None
    # plain FP8 and bitsandbytes checkpoints quantize every linear layer except the head
    usual = model.quantization_config is not None and stored.name in ("FP8", "bitsandbytes")
    return replace(stored, is_stated=usual or _kept(model, config) is not None)


MXFP4_BYTES, MXFP8_BYTES, NVFP4_BYTES = 0.5 + 1 / 32, 1 + 1 / 32, 0.5 + 1 / 16
"""Bytes per element: 4 or 8 bits, and an 8-bit scale per 32 elements, or per 16 (NVFP4)."""
BNB_BYTES, BNB_BYTES_TWICE = 0.5 + 4 / 64, 0.5 + 1 / 64
"""Bytes per element of bitsandbytes in 4 bits: a float32 scale per 64 elements, or an 8-bit one if the scales are
quantized, too (`bnb_4bit_use_double_quant`)."""
USUAL_GROUP = 128
"""Elements per scale of integers if the config does not state them: the usual number in AWQ and GPTQ checkpoints."""


def _applied(given: str | None) -> Scheme | None:
    """The scheme that `--quantization` applies to a checkpoint in 16 bits, mostly while it loads. None without one."""
    if given in ONLINE_FP8:
        return Scheme("online fp8", 1.0, kept={"vision": 1.0}, online=True, streamed=STREAMED.get(given))
    if given in ONLINE_INT8:
        return Scheme(given, 1.0, experts_only=True, kept=None, online=True)
    if given == "nvfp4_per_token":
        return Scheme(given, NVFP4_BYTES, experts_only=True, kept=None, online=True)
    if given in ONLINE_BNB:
        return Scheme("online bitsandbytes", BNB_BYTES, kept={"vision": 1.0}, online=True)
    if given == "mxfp8":
        return Scheme("online mxfp8", MXFP8_BYTES, kept={"vision": 1.0}, online=True)
    if given in FOUR_BITS:
        return Scheme(given, _integer(4, USUAL_GROUP, zero_points=given.startswith("awq")))
    if given in CONFIGURED:
        return Scheme(given, 1.0)
    return None


CONFIGURED = ("compressed-tensors", "modelopt", "auto_round", "gguf")
"""Methods whose bits are in the checkpoint's config: if they are missing there, 8 are likely and 4 are possible."""
ONLINE_FP8 = ("fp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel", "ptpc_fp8")
STREAMED = {"fp8": Release(0, 16), "ptpc_fp8": Release(0, 15)}
"""Method → the first release that does not load all weights in 16 bits first. The other methods are newer (vLLM 0.15
and 0.16 model_executor/layers/quantization/fp8.py, ptpc_fp8.py)."""
ONLINE_INT8 = ("experts_int8", "int8_per_channel_weight_only")
ONLINE_BNB = ("bitsandbytes", "inflight_bnb")
FOUR_BITS = ("awq", "awq_marlin", "gptq", "gptq_marlin", "modelopt_fp4")
METHODS = frozenset({
    *ONLINE_FP8, *ONLINE_INT8, *ONLINE_BNB, *FOUR_BITS, *CONFIGURED, "nvfp4_per_token", "mxfp8",
})  # fmt: skip
"""Values of `--quantization` that change the loaded weights; any other value has no effect."""


METHODS_WITHOUT_DETAILS = ("modelopt", "compressed-tensors", "quark", "gguf", "torchao", "experts-int8", "hqq", "aqlm")
"""Methods of checkpoints whose bits are assumed to be 8 if their config does not say; AQLM has 2."""


def is_known(model: Model, given: str | None) -> bool:
    """True if this module describes the bytes of this checkpoint with `--quantization` (`given`). Other methods may
    quantize it while it loads (`rtn`, `online`, `torchao` …), so 16 bits per weight can't support a denial."""
    known_scheme = scheme(model, given)
    if known_scheme is None:
        return not given and not model.quantization_config
    return known_scheme.name not in (*METHODS_WITHOUT_DETAILS, *CONFIGURED)


_NAMED = (
    (regex(r"nvfp4|fp4", re.I), {"quant_method": "compressed-tensors", "_scheme": "NVFP4"}),
    (regex(r"w4a16|int4|4[-_]?bit|autoround|auto-round", re.I), {"quant_method": "compressed-tensors", "bits": 4}),
    (regex(r"(?<![a-z])awq", re.I), {"quant_method": "awq", "bits": 4}),
    (regex(r"gptq", re.I), {"quant_method": "gptq", "bits": 4}),
    (regex(r"(?<![a-z])(bnb|nf4)", re.I), {"quant_method": "bitsandbytes"}),
    (regex(r"(?<![a-z])fp8", re.I), {"quant_method": "fp8"}),
    (regex(r"w8a8|w8a16|int8|8[-_]?bit", re.I), {"bits": 8}),
)


BYTES_IN_16_BITS = 1.7
"""Bytes per parameter from which on a checkpoint is taken for one in 16 bits (chosen: 16 bits are 2 bytes, 8 bits with
their scales little more than 1)."""


def _named(model: Model) -> Mapping[str, Any] | None:
    """The quantization config from the id, if config.json has none: a row of a library's table may lack the key, which
    halves a checkpoint's size. None if the name says nothing of it.

    Counted bytes overrule a name ("…-unquantized", a file in 16 bits)."""
    name = model.id.rpartition("/")[2]
    if "unquantized" in name.lower():
        return None
    if model.weights_bytes and model.parameters and model.weights_bytes > BYTES_IN_16_BITS * model.parameters:
        return None
    for pattern, config in _NAMED:
        if pattern.search(name):
            return config
    return None


class _Description(NamedTuple):
    """The parts of a checkpoint's quantization config from which its scheme follows."""

    config: Mapping[str, Any]
    """The config, with that of ModelOpt's hf_quant_config.json merged over it."""
    method: str
    """`quant_method`, else `quant_algo`, in lower case with dashes; "" if there is neither."""
    hint: str
    """Words that name the scheme, in upper case: of the id, of compressed-tensors' format, of ModelOpt's algorithm."""
    bits: int | None
    """Bits per element of a quantized weight."""
    group: int | None
    """Elements per scale."""
    is_float: bool
    """The weights are floating-point numbers, by compressed-tensors' config groups."""
    experts_only: bool
    """Only the routed experts are quantized."""


def _described(config: Mapping[str, Any]) -> _Description:
    """The parts of a quantization config; None for numbers that it does not have."""
    inner = config.get("quantization")
    if isinstance(inner, Mapping):  # ModelOpt's hf_quant_config.json
        config = {**config, **inner}
    hint = f"{config.get('_scheme', '')} {config.get('format', '')} {config.get('quant_algo', '')}".upper()
    weights = _weights_of(config) or {}
    bits, group = config.get("bits") or config.get("w_bit"), config.get("group_size") or config.get("q_group_size")
    return _Description(
        config=config,
        method=str(config.get("quant_method") or config.get("quant_algo") or "").lower().replace("_", "-"),
        hint=hint,
        bits=_int(weights.get("num_bits")) or _int(bits),
        group=_int(weights.get("group_size")) or _int(group),
        is_float=weights.get("type") == "float",
        experts_only="EXPERTS" in hint,
    )


def _stored(model: Model, config: Mapping[str, Any], given: str | None) -> Scheme | None:
    """The scheme that a checkpoint's quantization config describes; None if unknown. `given`: one of METHODS, or None.

    A config may fit several schemes, so their order counts: the most specific first."""
    about = _described(config)
    config, method, hint = about.config, about.method, about.hint
    kept = _kept(model, config)
    if kept is None:
        kept = _usually_kept(model, eight="FP8" in hint or method == "fp8")
    per_weight = config.get("_bits")
    if method == "gguf" and isinstance(per_weight, int | float) and per_weight > 0:  # from the file's name
        return Scheme(f"GGUF {config.get('_scheme', '')}".strip(), per_weight / 8, head=True, embedding=True)
    if method == "mxfp4" or "MXFP4" in hint:
        return Scheme("MXFP4", MXFP4_BYTES, experts_only=model.num_experts is not None, kept=kept)
    if method == "mxfp8" or "MXFP8" in hint:
        return Scheme("MXFP8", MXFP8_BYTES, kept=kept)
    if "NVFP4" in hint or "W4A4" in hint or (about.is_float and about.bits == 4):
        if _has_fp8_base(model, config):
            return Scheme("NVFP4", 1.0, experts=NVFP4_BYTES)
        return Scheme("NVFP4", NVFP4_BYTES, kept=kept, experts_only=about.experts_only)
    if method == "bitsandbytes":
        in_4_bits = BNB_BYTES_TWICE if config.get("bnb_4bit_use_double_quant") else BNB_BYTES
        return Scheme("bitsandbytes", 1.0 if config.get("load_in_8bit") is True else in_4_bits, kept=kept)
    if method in ("fp8", "fbgemm-fp8", "ptpc-fp8") or "FP8" in hint or about.is_float:
        experts = MXFP4_BYTES if model.config.get("expert_dtype") == "fp4" else None  # DeepSeek-V4
        return Scheme("FP8", _fp8_bytes(config), kept=kept, experts_only=about.experts_only, experts=experts)
    if "W8A8" in hint or "W8A16" in hint or "INT-QUANTIZED" in hint or about.bits == 8:
        scale = 2 / about.group if about.group and about.group > 0 else 0.0
        return Scheme("INT8", 1.0 + scale, kept=kept)
    if method in INTEGER_METHODS or about.bits in (2, 3, 4) or "W4A16" in hint:
        bits = about.bits or 4
        has_zero_points = method in WITH_ZERO_POINTS or config.get("zero_point") is True
        group = about.group or USUAL_GROUP
        if given == "compressed-tensors" and method in ("awq", "auto-round") and about.group is None:
            # exported by llm-compressor: symmetric groups of 32
            has_zero_points, group = config.get("zero_point") is True, 32
        size = _integer(bits, group, zero_points=has_zero_points)
        return Scheme(f"INT{bits}", size, kept=kept, experts_only=about.experts_only)
    if method in METHODS_WITHOUT_DETAILS:
        return Scheme(method, 1.0, kept=kept)
    return None


WITH_ZERO_POINTS = ("awq", "gptq", "awq-marlin", "gptq-marlin")
"""Methods whose groups of integers have a zero point."""
INTEGER_METHODS = (*WITH_ZERO_POINTS, "auto-round", "auto-gptq")
"""Methods that store packed integers, in 4 bits if their config does not state others."""


def _fp8_bytes(config: Mapping[str, Any]) -> float:
    """Bytes per element in FP8, with a float32 scale per block of `weight_block_size` if there is one. Scales of whole
    rows or tensors count nothing."""
    sides = config.get("weight_block_size")
    has_blocks = isinstance(sides, list) and len(sides) == 2 and all(map(_int, sides))
    return 1.0 + (4 / (sides[0] * sides[1]) if has_blocks and isinstance(sides, list) else 0.0)


ROUTED_ALONE = {"attention": 1.0, "linear": 1.0, "shared": 1.0, "mlp": 1.0, "vision": 1.0}
"""Only the routed experts are quantized."""


def _usually_kept(model: Model, *, eight: bool) -> Mapping[str, float] | None:
    """The layers that makers leave in 16 bits in families of which several checkpoints were read or measured. None for
    other families."""
    if not model.num_experts:
        return None
    if "linear_attention" in model.layer_types:
        return ROUTED_ALONE  # all Qwen 3.5 MoE checkpoints read, of all makers
    if not eight:
        return None
    if model.model_type in ("llama4", "llama4_text"):
        return ROUTED_ALONE  # Maverick in FP8 over 8 GPUs: 48.9 GiB printed, 48.9 with this, 47.3 without
    if model.model_type == "nemotron_h":
        if model.config.get("moe_latent_size"):
            return ROUTED_ALONE  # Nemotron-3-Super in FP8 over 2 GPUs: 59.9 GiB printed, 57.3 without
        # Nemotron-3-Nano in FP8: attention, and the Mamba layer before each; 30.5 GiB printed, 30.1 without
        return {"attention": 1.0, "linear": 0.26}
    return None


def _has_fp8_base(model: Model, config: Mapping[str, Any]) -> bool:
    """True if an NVFP4 checkpoint was made from one that is stored in FP8, so that `ignore` means FP8, not 16 bits.

    All checkpoints of DeepSeek-V4 are: only their routed experts are in 4 bits (vLLM 0.27 models/deepseek_v4).
    """
    return model.model_type == "deepseek_v4" or (
        config.get("quant_method") == "fp8" and config.get("weight_block_size") is not None
    )


def _integer(bits: int, group: int, *, zero_points: bool) -> float:
    """Bytes per element of packed integers with a half-precision scale per group, and optionally a zero point. `group`:
    elements; without groups (0 or -1), the scales count nothing."""
    per_group = 2 + (bits / 8 if zero_points else 0.0)
    return bits / 8 + (per_group / group if group > 0 else 0.0)


def _int(value: object) -> int | None:
    """The value if it is an integer; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _weights_of(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """compressed-tensors and newer ModelOpt: the weights of the config group with the fewest bits, which usually has
    the most elements (nvidia/Qwen3.6-35B-A3B-NVFP4: linear layers in 8 bits, the experts in 4). None without config
    groups."""
    groups = config.get("config_groups")
    if not isinstance(groups, Mapping):
        return None
    weights = [group.get("weights") for group in groups.values() if isinstance(group, Mapping)]
    described = [item for item in weights if isinstance(item, Mapping)]
    return min(described, key=lambda item: _int(item.get("num_bits")) or 16, default=None)  # 16: not quantized


_GROUPS = (
    ("vision", ("visual", "vision", "multi_modal", "mm_proj", "audio", "embed_vision", "projector")),
    ("head", ("lm_head",)),
    ("linear", ("linear_attn", "mamba", "mixer", "conv")),
    ("shared", ("shared_expert",)),
    ("experts", ("experts",)),
    ("attention", ("attn", "attention", "q_proj", "o_proj", "kv_b_proj")),
    ("mlp", ("mlp.(gate|up", r"mlp\.(gate|up", "up_proj", "down_proj", "gate_up", "mlp.*", "mlp$")),
)
_LAYER = regex(r"layers?[.\\]+(\d+)")


_LISTS = ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules", "llm_int8_skip_modules")
"""Keys of a quantization config, by its method, that list the modules which are not quantized."""
_EVERY_LAYER = "*"
_WITHOUT_LINEAR = ("full_attention", "sliding_attention", "mlp", "moe")
"""Kinds of layers that have no linear attention, Mamba or convolution."""


def _kept(model: Model, config: Mapping[str, Any]) -> Mapping[str, float] | None:
    """Group of tensors → the share of it, 0 to 1, that the checkpoint does not quantize, by one of _LISTS. Groups that
    are not listed are missing. None if the config has no list."""
    lists = [value for key in _LISTS if isinstance(value := config.get(key), str | list)]
    if not lists:
        return None
    layers_of_group: dict[str, set[str]] = {}  # group → numbers of the layers in which it is kept, or _EVERY_LAYER
    for modules in lists:
        for module in [modules] if isinstance(modules, str) else modules:
            group = _group_of_module(module) if isinstance(module, str) else None
            if group is not None:
                layer = _LAYER.search(module)
                layers_of_group.setdefault(group, set()).add(layer[1] if layer else _EVERY_LAYER)
    kept = {group: _kept_share(model, group, layers) for group, layers in layers_of_group.items()}
    if config.get("_text_only"):
        kept["vision"] = 1.0
    return kept


def _group_of_module(module: str) -> str | None:
    """The group of tensors that a module's name, or a pattern of names, belongs to. None for norms and for the routers
    of experts, which are not counted, and for unknown names."""
    if module.endswith("norm"):  # post_attention_layernorm is not attention
        return None
    for group, words in _GROUPS:
        if any(word in module for word in words):
            is_router = group == "experts" and "gate" in module and "gate_" not in module
            return None if is_router else group
    return None


def _kept_share(model: Model, group: str, layers: Collection[str]) -> float:
    """The share of a group that is kept if it is kept in these layers (their numbers, or _EVERY_LAYER)."""
    if _EVERY_LAYER in layers or group in ("vision", "head"):  # towers have layers of their own
        return 1.0
    layers_with_group = model.num_hidden_layers or 1
    if group == "linear" and model.layer_types:
        layers_with_group = sum(kind not in _WITHOUT_LINEAR for kind in model.layer_types) or 1
    return min(1.0, len(layers) / layers_with_group)
