"""Bytes per element of a quantized checkpoint on the GPU, and which tensors stay in the model's dtype."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

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
    head: bool = False
    """True if lm_head is quantized too (ModelOpt and GGUF; others leave it in the model's dtype)."""
    embedding: bool = False
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
        """How much of a group (`parts.Group`, "vision") stays in the model's dtype."""
        if group == "rest" or (self.experts_only and group != "experts"):
            return 1.0
        if self.kept is not None:
            return self.kept.get(group, 0.0)
        return 1.0 if group == "vision" else 0.0


def scheme(model: Model, given: str | None) -> Scheme | None:
    """The scheme that vLLM serves with: the checkpoint's own, else the one that `--quantization` applies."""
    return _scheme(model, given if given in METHODS else None)


@lru_cache(256)
def _scheme(model: Model, given: str | None) -> Scheme | None:
    """The checkpoint's own scheme, or the one that `--quantization` applies while loading. None without a known
    scheme."""
    config = model.quantization_config or _named(model)
    if config:
        stored = _stored(model, config, given)
        if stored is None:
            return None
        # plain FP8 and bitsandbytes checkpoints quantize every linear layer except the head
        usual = model.quantization_config is not None and stored.name in ("FP8", "bitsandbytes")
        return replace(stored, is_stated=usual or _kept(model, config) is not None)
    if given in ONLINE_FP8:
        return Scheme("online fp8", 1.0, kept={"vision": 1.0}, online=True, streamed=STREAMED.get(given))
    if given in ONLINE_INT8:
        return Scheme(given, 1.0, experts_only=True, kept=None, online=True)
    if given == "nvfp4_per_token":
        return Scheme(given, 0.5 + 1 / 16, experts_only=True, kept=None, online=True)
    if given in ONLINE_BNB:
        return Scheme("online bitsandbytes", 0.5 + 4 / 64, kept={"vision": 1.0}, online=True)
    if given == "mxfp8":
        return Scheme("online mxfp8", 1 + 1 / 32, kept={"vision": 1.0}, online=True)
    if given in FOUR_BITS:
        return Scheme(given, _integer(4, 128, zero_points=given.startswith("awq")))
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


def _named(model: Model) -> Mapping[str, Any] | None:
    """The quantization config from the id, if config.json has none: a row of a library's table may lack the key, which
    halves a checkpoint's size. Counted bytes overrule a name ("…-unquantized", a file in 16 bits)."""
    name = model.id.rpartition("/")[2]
    if "unquantized" in name.lower():
        return None
    entries = next((config for pattern, config in _NAMED if pattern.search(name)), None)
    if entries and model.weights_bytes and model.parameters and model.weights_bytes > 1.7 * model.parameters:
        return None
    return entries


def _stored(model: Model, config: Mapping[str, Any], given: str | None) -> Scheme | None:
    """The scheme that a checkpoint's quantization config describes; None if unknown."""
    inner = config.get("quantization")
    if isinstance(inner, Mapping):  # ModelOpt's hf_quant_config.json
        config = {**config, **inner}
    method = str(config.get("quant_method") or config.get("quant_algo") or "").lower().replace("_", "-")
    hint = f"{config.get('_scheme', '')} {config.get('format', '')} {config.get('quant_algo', '')}".upper()
    kept = _kept(model, config)
    bits = _int(config.get("bits") or config.get("w_bit"))
    group = _int(config.get("group_size") or config.get("q_group_size"))
    weights = _weights_of(config)
    if weights:
        bits = _int(weights.get("num_bits")) or bits
        group = _int(weights.get("group_size")) or group
    if kept is None:
        kept = _usually_kept(model, eight="FP8" in hint or method == "fp8")
    per_weight = config.get("_bits")
    if method == "gguf" and isinstance(per_weight, int | float) and per_weight > 0:  # from the file's name
        return Scheme(f"GGUF {config.get('_scheme', '')}".strip(), per_weight / 8, head=True, embedding=True)
    if method == "mxfp4" or "MXFP4" in hint:
        return Scheme("MXFP4", 0.5 + 1 / 32, experts_only=model.num_experts is not None, kept=kept)
    if method == "mxfp8" or "MXFP8" in hint:
        return Scheme("MXFP8", 1 + 1 / 32, kept=kept)
    if "NVFP4" in hint or "W4A4" in hint or (weights and weights.get("type") == "float" and bits == 4):
        if _has_fp8_base(model, config):
            return Scheme("NVFP4", 1.0, experts=NVFP4_BYTES)
        return Scheme("NVFP4", NVFP4_BYTES, kept=kept, experts_only="EXPERTS" in hint)
    if method == "bitsandbytes":
        scales = 1 / 64 if config.get("bnb_4bit_use_double_quant") else 4 / 64
        return Scheme("bitsandbytes", 1.0 if config.get("load_in_8bit") is True else 0.5 + scales, kept=kept)
    if method in ("fp8", "fbgemm-fp8", "ptpc-fp8") or "FP8" in hint or (weights and weights.get("type") == "float"):
        block = config.get("weight_block_size")
        square = block[0] * block[1] if isinstance(block, list) and len(block) == 2 and all(map(_int, block)) else 0
        # DeepSeek-V4's config.json: `expert_dtype`
        experts = 0.5 + 1 / 32 if model.config.get("expert_dtype") == "fp4" else None
        each = 1.0 + (4 / square if square else 0.0)
        return Scheme("FP8", each, kept=kept, experts_only="EXPERTS" in hint, experts=experts)
    if "W8A8" in hint or "W8A16" in hint or "INT-QUANTIZED" in hint or bits == 8:
        return Scheme("INT8", 1.0 + (2 / group if group and group > 0 else 0.0), kept=kept)
    if (
        method in ("awq", "gptq", "auto-round", "auto-gptq", "gptq-marlin", "awq-marlin")
        or bits in (2, 3, 4)
        or "W4A16" in hint
    ):
        if given == "compressed-tensors" and method in ("awq", "auto-round") and group is None:
            method, group = given, 32  # AWQ exported by llm-compressor: symmetric groups of 32
        points = method in ("awq", "gptq", "awq-marlin", "gptq-marlin") or config.get("zero_point") is True
        return Scheme(
            f"INT{bits or 4}",
            _integer(bits or 4, group or 128, zero_points=points),
            kept=kept,
            experts_only="EXPERTS" in hint,
        )
    if method in METHODS_WITHOUT_DETAILS:
        return Scheme(method, 1.0, kept=kept)
    return None


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


NVFP4_BYTES = 0.5 + 1 / 16
"""Bytes per element: 4 bits, and an 8-bit scale per 16 elements."""


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
    items = [value.get("weights") for value in groups.values() if isinstance(value, Mapping)]
    return min(
        (item for item in items if isinstance(item, Mapping)),
        key=lambda group: _int(group.get("num_bits")) or 16,
        default=None,
    )


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


def _kept(model: Model, config: Mapping[str, Any]) -> Mapping[str, float] | None:
    """Share of each group that the checkpoint does not quantize, by `ignore` or `modules_to_not_convert`; None if it
    has no such key."""
    names: list[str] = []
    is_stated = False
    for key in ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules", "llm_int8_skip_modules"):
        value = config.get(key)
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list):
            is_stated = True
            names += [item for item in value if isinstance(item, str)]
    if not is_stated:
        return None
    names = [name for name in names if not name.endswith("norm")]  # not post_attention_layernorm
    layers = model.num_hidden_layers or 1
    entries: dict[str, set[str]] = {}
    for name in names:
        group = next((group for group, words in _GROUPS if any(word in name for word in words)), None)
        if group is None:
            continue
        if group == "experts" and "gate" in name and "gate_" not in name:
            continue  # a router
        match = _LAYER.search(name)
        entries.setdefault(group, set()).add(match[1] if match else "*")
    kept: dict[str, float] = {}
    for group, places in entries.items():
        layers_with_group = layers
        if group == "linear" and model.layer_types:
            others = ("full_attention", "sliding_attention", "mlp", "moe")
            layers_with_group = sum(text not in others for text in model.layer_types) or 1
        is_whole = "*" in places or group in ("vision", "head")
        kept[group] = 1.0 if is_whole else min(1.0, len(places) / layers_with_group)
    if config.get("_text_only"):
        kept["vision"] = 1.0
    return kept
