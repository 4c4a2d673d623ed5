"""A model's tensors, counted from its config.json: the tensors of each layer, and how each is cut over ranks.

Counts are elements. Formulas follow the modules in vLLM's model_executor/models. A model whose layers are not described
here has `known = False`, and its layers share the rest of the checkpoint evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from podfit.vllm.memory import layer_tensors
from podfit.vllm.memory.layer_tensors import Layer, LayerTensors, number, numbers
from podfit.vllm.memory.remembered import remembered
from podfit.vllm.model import Model

__all__ = [
    "Mamba",
    "Shape",
    "delta_attention",
    "delta_net",
    "head_dims",
    "is_moe",
    "kind",
    "mamba",
    "number",
    "of",
    "routed_width",
]

NOT_GATED = frozenset({
    "RefinedWeb", "RefinedWebModel", "apertus", "bart", "bert", "bloom", "camembert", "codegen", "distilbert",
    "electra", "ernie", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "mbart", "mpnet", "mpt",
    "nemotron", "nemotron_h", "opt", "persimmon", "phi", "phi-msft", "roberta", "starcoder2", "whisper", "xlm-roberta",
})  # fmt: skip
"""Families whose MLP has two matrices instead of gate, up and down."""
FOURFOLD = frozenset({
    "RefinedWeb", "RefinedWebModel", "bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gptj", "mpt",
    "phi-msft",
})  # fmt: skip
"""Families whose MLP is four times the hidden size if config.json does not set it."""
POSITIONS = frozenset({
    "bart", "bert", "camembert", "distilbert", "electra", "ernie", "gpt2", "gpt_bigcode", "gpt_neo", "mbart", "mpnet",
    "opt", "roberta", "whisper", "xlm-roberta",
})  # fmt: skip
"""Families that learn an embedding of each position."""
OWN_TABLES = frozenset({"deepseek_v3", "deepseek_v32", "glm4_moe"})
"""Families whose checkpoints contain embedding and head once more for the multi-token-prediction layer."""
PURE_MAMBA = frozenset({"falcon_mamba", "mamba", "mamba2"})
"""Families whose layers are only a Mamba mixer."""
STATELESS = ("mlp", "moe")


@dataclass(frozen=True, eq=False)
class Shape:
    """The tensors of a checkpoint's language model."""

    variants: tuple[Layer, ...]
    """The different kinds of layers."""
    order: tuple[int, ...]
    """Per layer, up to MAX_LAYERS: the index of its variant."""
    layers: int
    """Number of layers. Those after `order` are of the last variant, the least of all."""
    embedding: int
    """Tables of tokens and positions; for an encoder-decoder, with the encoder."""
    head: int
    """0 if it is tied to the embedding."""
    extra: int
    """Multi-token-prediction layers: in the checkpoint, loaded only for speculative decoding."""
    known: bool
    """False if a size is missing or the kind of layer is not described."""

    def count(self, first: int = 0, last: int | None = None) -> tuple[int, ...]:
        """Number of layers of each variant, from `first` up to, but without, `last`."""
        described = Counter(self.order[first:last])
        counts = [described[variant] for variant in range(len(self.variants))]
        past = self.layers if last is None else min(last, self.layers)
        counts[-1] += max(0, past - max(first, len(self.order)))
        return tuple(counts)

    @cached_property
    def body(self) -> int:
        """Elements of all layers."""
        return sum(
            count * sum(part.elements for part in layer)
            for layer, count in zip(self.variants, self.count(), strict=True)
        )

    @property
    def elements(self) -> int:
        """The number of weights of the layer, without `extra`."""
        return self.embedding + self.head + self.body


@remembered(256)
def of(model: Model) -> Shape | None:
    """The shape; None if layers, hidden size or vocabulary are unknown."""
    layers, hidden, vocab = model.num_hidden_layers, model.hidden_size, model.vocab_size
    if not layers or not hidden or not vocab:
        return None
    variant_of: dict[_LayerKind, int] = {}
    double = layers - (number(model.config, "num_kv_shared_layers") or 0)
    wide = model.config.get("use_double_wide_mlp") is True  # Gemma 4 E2B: in layers that share keys and values
    compressed = numbers(model.config, "compress_ratios")  # DeepSeek-V4
    order = tuple(
        variant_of.setdefault(
            _LayerKind(
                kind=kind(model, index),
                moe=is_moe(model, index),
                block=layer_tensors.block(model, index),
                double=wide and index >= double,
                compression=compressed[index] if index < len(compressed) else 0,
            ),
            len(variant_of),
        )
        for index in range(model.described_layers)
    )
    described = [_layer(model, hidden, layer_kind) for layer_kind in variant_of]
    variants = tuple(layer or () for layer in described)
    if layers > len(order):
        variants = (*variants, layer_tensors.least(variants))
    extra = 0
    if model.num_nextn_predict_layers:
        extra = model.num_nextn_predict_layers * (
            sum(part.elements for part in variants[order[-1]])
            + 2 * hidden * hidden
            + (2 * vocab * hidden if _model_types(model) & OWN_TABLES else 0)
        )
    embedding = vocab * hidden
    if per_layer := number(model.config, "hidden_size_per_layer_input"):  # Gemma 3n, Gemma 4 E
        embedding += (number(model.config, "vocab_size_per_layer_input") or vocab) * layers * per_layer
        embedding += hidden * layers * per_layer
    if copies := number(model.config, "altup_num_inputs"):  # Gemma 3n
        embedding += 2 * (copies - 1) * hidden * hidden
    if _model_types(model) & POSITIONS:
        embedding += hidden * (
            number(model.config, "max_position_embeddings", "n_positions", "max_target_positions") or 0
        )
    embedding += layer_tensors.encoder(model, hidden)
    return Shape(
        variants=variants,
        order=order,
        layers=layers,
        embedding=embedding,
        head=0 if model.tie_word_embeddings else vocab * hidden,
        extra=extra,
        known=all(layer is not None for layer in described),
    )


def kind(model: Model, index: int) -> str:
    """The kind of the layer: one of the words of `Model.layer_types`."""
    if index < len(model.layer_types):
        return model.layer_types[index]
    return "sliding_attention" if model.sliding_window and not model.layer_types else "full_attention"


def is_moe(model: Model, index: int) -> bool:
    """True if the layer has routed experts.

    DeepSeek `first_k_dense_replace` and `moe_layer_freq`, Qwen `decoder_sparse_step` and `mlp_only_layers`, Llama 4
    `interleave_moe_layer_step`, Jamba `expert_layer_period`.
    """
    if not model.num_experts:
        return False
    config = model.config
    if index in numbers(config, "mlp_only_layers"):
        return False
    first, last = config.get("moe_layer_start_index"), config.get("moe_layer_end_index")
    if isinstance(first, int) and isinstance(last, int):  # ERNIE 4.5; -1 is the last layer
        every = number(config, "moe_layer_interval") or 1
        return first <= index and (index <= last or last < 0) and (index + 1) % every == 0
    if (frequencies := numbers(config, "moe_layer_freq")) and index < len(frequencies):
        return bool(frequencies[index])
    if chosen := numbers(config, "moe_layers"):
        return index in chosen
    if index < model.first_k_dense_replace:
        return False
    if step := number(config, "expert_layer_period"):
        return index % step == (number(config, "expert_layer_offset") or 0)
    step = number(config, "decoder_sparse_step", "interleave_moe_layer_step")
    if step and step > 1:
        return (index + 1) % step == 0
    step = number(config, "moe_layer_freq")
    return not step or index % step == 0


class _LayerKind(NamedTuple):
    """The properties by which layers of one model differ."""

    kind: str
    moe: bool
    """Its MLP has routed experts."""
    block: layer_tensors.Block | None
    """The layer of a NAS model; None for any other."""
    double: bool
    """Its MLP is twice as wide (Gemma 4 E2B)."""
    compression: int
    """Tokens per state of a compressed KV cache (DeepSeek-V4), else 0."""


def _layer(model: Model, hidden: int, layer: _LayerKind) -> Layer | None:
    """The tensors of one layer; None if the config lacks a size or the kind is not described."""
    if layer.block is not None:
        return layer_tensors.nas_layer(model, hidden, layer.block)
    grouped = layer_tensors.grouped_output_attention(model, hidden, layer.compression)
    mixer = grouped or _mixer(model, hidden, layer.kind)
    if mixer is None:
        return None
    if layer.kind in STATELESS:
        return _mlp(model, hidden, moe=layer.kind == "moe")
    if any(text in STATELESS for text in model.layer_types) or _model_types(model) & PURE_MAMBA:
        return mixer  # Nemotron-H: a layer is either a mixer or an MLP
    mlp = _mlp(model, hidden, moe=layer.moe)
    if mlp is None:
        return None
    return (*mixer, *mlp, *(mlp if layer.double else ()), *layer_tensors.additional_tensors(model, hidden))


def _mixer(model: Model, hidden: int, kind: str) -> Layer | None:
    """The tensors of a layer's attention, linear attention or Mamba part; empty for a layer that has none. None if the
    config lacks a size, or the kind is not described."""
    if kind in STATELESS:
        return ()
    if kind in ("full_attention", "sliding_attention", "chunked_attention"):
        own = layer_tensors.latent_attention(model, hidden) if model.kv_lora_rank else _attention(model, hidden, kind)
        if model.model_type != "falcon_h1" or own is None:
            return own
        second = _mamba(model, hidden)  # each layer has both parts
        return None if second is None else (*own, *second)
    config = model.config
    if kind == "linear_attention":
        if (sizes := delta_net(model)) is not None:
            keys, values, heads, kernel = sizes
            return (
                LayerTensors(hidden * (2 * keys + 2 * values) + values * hidden, "column", "linear"),
                LayerTensors(hidden * 2 * heads + (2 * keys + values) * kernel, "column", "rest"),
            )
        if (delta := delta_attention(model)) is not None:
            wide, heads, kernel = delta
            full_rank = _linear_attention(config).get("use_full_rank_gate") is True  # Kimi-K3
            low_rank_gates, projections = (1, 5) if full_rank else (2, 4)
            return (
                LayerTensors(projections * hidden * wide + 3 * wide * kernel, "column", "linear"),
                LayerTensors(low_rank_gates * (hidden + wide) * (wide // heads) + hidden * heads, "whole", "linear"),
            )
        if model.kv_lora_rank is None and model.num_attention_heads and model.head_dim:  # lightning attention
            return (LayerTensors(5 * hidden * model.num_attention_heads * model.head_dim, "column", "linear"),)
        return None
    if kind == "mamba":
        return _mamba(model, hidden)
    if kind == "conv":
        kernel = number(config, "conv_L_cache") or 3
        return (LayerTensors(4 * hidden * hidden, "column", "linear"), LayerTensors(hidden * kernel, "column", "rest"))
    return None


class HeadDims(NamedTuple):
    """The sizes of an attention layer's keys and values, over all ranks."""

    heads: int
    """Key-value heads."""
    keys: int
    """Width of a key."""
    values: int
    """Width of a value."""


def head_dims(model: Model, kind: str) -> HeadDims | None:
    """The sizes of one attention layer; Gemma 4's full-attention layers have other ones. None if unknown."""
    config, heads, width = model.config, model.num_key_value_heads, model.head_dim
    if kind == "full_attention" and "sliding_attention" in model.layer_types:
        heads = number(config, "num_global_key_value_heads") or heads
        width = number(config, "global_head_dim") or width
    if kind == "sliding_attention":
        heads = number(config, "swa_num_key_value_heads") or heads
        width = number(config, "swa_head_dim") or width
    if not heads or not width:
        return None
    values = model.v_head_dim if model.v_head_dim and not model.kv_lora_rank else width
    if kind == "sliding_attention":
        values = number(config, "swa_v_head_dim") or values
    return HeadDims(heads, keys=width, values=values)


def _attention(model: Model, hidden: int, kind: str) -> Layer | None:
    """The projections of queries, keys, values and output. None if a size is unknown. With `attention_k_eq_v`,
    full-attention layers have no projection of values (Gemma 4)."""
    sizes, heads = head_dims(model, kind), model.num_attention_heads
    if sizes is None or not heads:
        return None
    groups, width, value_width = sizes
    if kind == "sliding_attention":
        heads = number(model.config, "swa_num_attention_heads") or heads
    queries = hidden * heads * width * (2 if model.config.get("attn_output_gate") else 1)
    shared = kind == "full_attention" and bool(model.config.get("attention_k_eq_v"))
    values = 0 if shared and number(model.config, "num_global_key_value_heads") else hidden * groups * value_width
    return (
        LayerTensors(queries + heads * value_width * hidden, "column", "attention"),
        LayerTensors(hidden * groups * width + values, "key-value", "attention"),
    )


class DeltaNet(NamedTuple):
    """Sizes of a Gated DeltaNet."""

    keys: int
    """Width of the keys of all heads."""
    values: int
    """Width of the values of all heads."""
    value_heads: int
    kernel: int
    """Tokens of the convolution."""


def delta_net(model: Model) -> DeltaNet | None:
    """The sizes of Gated DeltaNet. None for other models."""
    config = model.config
    key_heads, key = number(config, "linear_num_key_heads"), number(config, "linear_key_head_dim")
    value_heads, value = number(config, "linear_num_value_heads"), number(config, "linear_value_head_dim")
    if not key_heads or not key or not value_heads or not value:
        return None
    kernel = number(config, "linear_conv_kernel_dim") or 4
    return DeltaNet(keys=key_heads * key, values=value_heads * value, value_heads=value_heads, kernel=kernel)


class DeltaAttention(NamedTuple):
    """Sizes of a Kimi Delta Attention."""

    width: int
    """Width over all heads."""
    heads: int
    kernel: int
    """Tokens of the convolution."""


def delta_attention(model: Model) -> DeltaAttention | None:
    """The sizes of Kimi Delta Attention (vLLM 0.33 layers/kda.py). None for other models."""
    config = model.config
    nested = _linear_attention(config)
    heads = number(nested, "num_heads") or number(config, "linear_num_heads")
    width = number(nested, "head_dim") or number(config, "linear_head_dim")
    if not heads or not width:
        return None
    kernel = number(nested, "short_conv_kernel_size") or number(config, "linear_conv_kernel_dim") or 4
    return DeltaAttention(heads * width, heads, kernel)


def _linear_attention(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The nested `linear_attn_config` of Kimi models; empty if there is none."""
    nested = config.get("linear_attn_config")
    return nested if isinstance(nested, Mapping) else {}


class Mamba(NamedTuple):
    """Sizes of a Mamba mixer; `heads` is 0 for Mamba 1."""

    inner: int
    state: int
    kernel: int
    groups: int
    heads: int
    head_dim: int


def mamba(model: Model) -> Mamba | None:
    """The sizes, which Nemotron-H, Bamba, Granite 4, Falcon-H1 and Jamba name differently. None for other models, or
    without the size of a state."""
    config = model.config
    state = number(config, "ssm_state_size", "mamba_d_state", "state_size")
    kernel = number(config, "conv_kernel", "mamba_d_conv", "conv_kernel_size") or 4
    heads = number(config, "mamba_num_heads", "mamba_n_heads", "num_heads") or 0
    width = number(config, "mamba_head_dim", "mamba_d_head") or 0
    inner = number(config, "mamba_d_ssm", "intermediate_size" if model.model_type == "falcon_mamba" else "mamba_inner")
    if not inner:
        expand = number(config, "mamba_expand", "expand") or 2
        inner = heads * width or expand * (model.hidden_size or 0)
    if not state or not inner:
        return None
    if heads and not width:
        width = inner // heads
    return Mamba(inner, state, kernel, number(config, "n_groups", "mamba_n_groups") or 1, heads, width)


def _mamba(model: Model, hidden: int) -> Layer | None:
    """The tensors of a Mamba or Mamba 2 part. None if a size is unknown."""
    sizes = mamba(model)
    if sizes is None:
        return None
    if sizes.heads:
        convolved = sizes.inner + 2 * sizes.groups * sizes.state
        return (
            LayerTensors(hidden * (sizes.inner + convolved + sizes.heads) + sizes.inner * hidden, "column", "linear"),
            LayerTensors(convolved * sizes.kernel, "column", "rest"),
        )
    rank = number(model.config, "mamba_dt_rank", "time_step_rank") or -(-hidden // 16)
    return (
        LayerTensors(3 * hidden * sizes.inner + sizes.inner * (2 * rank + 2 * sizes.state), "column", "linear"),
        LayerTensors(sizes.inner * (sizes.state + sizes.kernel), "column", "rest"),
    )


def _mlp(model: Model, hidden: int, *, moe: bool) -> Layer | None:
    """The tensors of a dense MLP, or of router, experts and shared experts (`moe`), to which `enable_moe_block` adds
    the dense MLP. None if a size is unknown."""
    config, inner = model.config, _intermediate(model)
    matrices = 2 if is_ungated(model) else 3
    dense = inner
    if not moe:
        dense = number(config, "intermediate_size_mlp") or inner
    if not moe or config.get("enable_moe_block"):
        if not dense:
            return None if not moe else ()
        plain: Layer = (LayerTensors(matrices * hidden * dense, "column", "mlp"),)
        if not moe:
            return plain
    else:
        plain = ()
    experts, width = model.num_experts, model.moe_intermediate_size or inner
    if not experts or not width:
        return None
    latent = layer_tensors.latent_width(config)
    items = [
        *plain,
        LayerTensors(experts * matrices * (latent or hidden) * width, "experts", "experts"),
        LayerTensors(hidden * experts + 2 * hidden * (latent or 0), "whole", "rest"),
    ]
    shared = number(config, "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                    "shared_intermediate_size")  # fmt: skip
    if model.n_shared_experts:
        shared = model.n_shared_experts * (shared or width)
    elif model.model_type and model.model_type.startswith("llama4"):
        shared = width
    if shared:
        items.append(LayerTensors(matrices * hidden * shared, "column", "shared"))
    return tuple(items)


def _intermediate(model: Model) -> int | None:
    """Width of the dense MLP. Qwen 1 states twice the width; LFM2 uses two thirds, rounded up to `block_multiple_of`.
    None if unknown."""
    inner = model.intermediate_size
    if inner and model.model_type == "qwen":
        return inner // 2
    if not inner and _model_types(model) & FOURFOLD:
        return 4 * (model.hidden_size or 0) or None
    if inner and "lfm2" in _model_types(model) and model.config.get("block_auto_adjust_ff_dim"):
        multiple = number(model.config, "block_multiple_of") or 256
        return -(-(2 * inner // 3) // multiple) * multiple
    return inner


def routed_width(model: Model) -> int:
    """Width of the hidden states that reach the routed experts: Nemotron-3-Super projects them to a latent first."""
    latent = model.config.get("moe_latent_size")
    return latent if isinstance(latent, int) and latent > 0 else model.hidden_size or 0


def is_ungated(model: Model) -> bool:
    """True if the MLP has two matrices instead of gate, up and down."""
    return bool(_model_types(model) & NOT_GATED)


def _model_types(model: Model) -> set[str]:
    """The model's type as read, and as its config.json states it."""
    own = model.config.get("model_type")
    return {model.model_type or "", own if isinstance(own, str) else ""}
