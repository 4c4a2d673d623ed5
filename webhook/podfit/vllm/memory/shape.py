"""A model's tensors, counted from its config.json: the tensors of each layer, and how each is cut over ranks.

Counts are elements. Formulas follow the modules in vLLM's model_executor/models. A model whose layers are not described
here has `known = False`, and its layers share the rest of the checkpoint evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
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
    """The shape; None if layers, hidden size or vocabulary are unknown. Layers that are not described have no
    tensors."""
    layers, hidden, vocab = model.num_hidden_layers, model.hidden_size, model.vocab_size
    if not layers or not hidden or not vocab:
        return None
    variant_of: dict[_LayerKind, int] = {}  # in the order of their first layers
    order = [variant_of.setdefault(layer_kind, len(variant_of)) for layer_kind in _layer_kinds(model, layers)]
    described = [_layer(model, hidden, layer_kind) for layer_kind in variant_of]
    variants = tuple(layer or () for layer in described)
    if layers > len(order):
        variants = (*variants, layer_tensors.least(variants))
    last_layer = sum(part.elements for part in variants[order[-1]])
    return Shape(
        variants=variants,
        order=tuple(order),
        layers=layers,
        embedding=_embedding(model, layers, hidden, vocab),
        head=0 if model.tie_word_embeddings else vocab * hidden,
        extra=_prediction_layers(model, last_layer, hidden, vocab),
        known=all(layer is not None for layer in described),
    )


def _layer_kinds(model: Model, layers: int) -> Iterator[_LayerKind]:
    """The kind of each layer, up to MAX_LAYERS of them. `layers`: all layers of the model."""
    first_shared = layers - (number(model.config, "num_kv_shared_layers") or 0)
    is_double_wide = model.config.get("use_double_wide_mlp") is True  # in layers that share keys and values
    ratios = numbers(model.config, "compress_ratios")
    for index in range(model.described_layers):
        yield _LayerKind(
            kind=kind(model, index),
            moe=is_moe(model, index),
            block=layer_tensors.block(model, index),
            double=is_double_wide and index >= first_shared,
            compression=ratios[index] if index < len(ratios) else 0,
        )


def _prediction_layers(model: Model, last_layer: int, hidden: int, vocab: int) -> int:
    """Elements of all layers of multi-token prediction; 0 without them. Each is like the last layer (`last_layer`
    elements), with a projection of two hidden states, and in some families with an embedding and a head."""
    tables = 2 * vocab * hidden if _model_types(model) & OWN_TABLES else 0
    return model.num_nextn_predict_layers * (last_layer + 2 * hidden * hidden + tables)


def _embedding(model: Model, layers: int, hidden: int, vocab: int) -> int:
    """Elements of the tables of tokens and positions, and of an encoder."""
    elements = vocab * hidden
    if per_layer := number(
        model.config, "hidden_size_per_layer_input"
    ):  # Gemma 3n, Gemma 4 E: a table and a projection
        elements += (number(model.config, "vocab_size_per_layer_input") or vocab) * layers * per_layer
        elements += hidden * layers * per_layer
    if copies := number(model.config, "altup_num_inputs"):  # Gemma 3n: projections to and from the further copies
        elements += 2 * (copies - 1) * hidden * hidden
    if _model_types(model) & POSITIONS:
        positions = number(model.config, "max_position_embeddings", "n_positions", "max_target_positions") or 0
        elements += hidden * positions
    return elements + layer_tensors.encoder(model, hidden)


def kind(model: Model, index: int) -> str:
    """The kind of the layer: one of the words of `Model.layer_types`. Without them, every layer of a model with a
    window has it."""
    if index < len(model.layer_types):
        return model.layer_types[index]
    return "sliding_attention" if model.sliding_window and not model.layer_types else "full_attention"


def is_moe(model: Model, index: int) -> bool:
    """True if the layer has routed experts: if the model has any, and unless one of the fields excludes the layer.

    DeepSeek `first_k_dense_replace` and `moe_layer_freq` (a step, or a list of 0 and 1), Qwen `decoder_sparse_step` and
    `mlp_only_layers`, Llama 4 `moe_layers` and `interleave_moe_layer_step`, Jamba `expert_layer_period`. A family has
    only some of them; the first that config.json has decides.
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
    is_mixer_or_mlp = any(kind in STATELESS for kind in model.layer_types)  # Nemotron-H
    if is_mixer_or_mlp or _model_types(model) & PURE_MAMBA:
        return mixer
    mlp = _mlp(model, hidden, moe=layer.moe)
    if mlp is None:
        return None
    second_mlp = mlp if layer.double else ()
    return (*mixer, *mlp, *second_mlp, *layer_tensors.additional_tensors(model, hidden))


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
    if kind == "linear_attention":
        return _linear_mixer(model, hidden)
    if kind == "mamba":
        return _mamba(model, hidden)
    if kind == "conv":
        kernel = number(model.config, "conv_L_cache") or CONVOLUTION
        return (LayerTensors(4 * hidden * hidden, "column", "linear"), LayerTensors(hidden * kernel, "column", "rest"))
    return None


CONVOLUTION, SSM_CONVOLUTION = 3, 4
"""Tokens of the convolution if config.json does not state them: of LFM2, and of Mamba and linear attention
(transformers' class defaults)."""


def _linear_mixer(model: Model, hidden: int) -> Layer | None:
    """The tensors of linear attention: Gated DeltaNet, Kimi Delta Attention, else lightning attention. None if the
    config lacks a size."""
    net = delta_net(model)
    if net is not None:
        # queries and keys have one width, values and the gate another; `rest`: two gates per head, the convolution
        projections = hidden * (2 * net.keys + 2 * net.values) + net.values * hidden
        unquantized = hidden * 2 * net.value_heads + (2 * net.keys + net.values) * net.kernel
        return (LayerTensors(projections, "column", "linear"), LayerTensors(unquantized, "column", "rest"))
    kda = delta_attention(model)
    if kda is not None:
        has_full_rank_gate = _linear_attention(model.config).get("use_full_rank_gate") is True  # Kimi-K3
        # queries, keys, values, output, and a gate that is either a matrix of full rank or two of low rank
        low_rank_gates, projections = (1, 5) if has_full_rank_gate else (2, 4)
        column = projections * hidden * kda.width + 3 * kda.width * kda.kernel
        head_dim = kda.width // kda.heads
        replicated = low_rank_gates * (hidden + kda.width) * head_dim + hidden * kda.heads
        return (LayerTensors(column, "column", "linear"), LayerTensors(replicated, "whole", "linear"))
    if model.kv_lora_rank is None and model.num_attention_heads and model.head_dim:
        # lightning attention: queries, keys, values, a gate and the output
        return (LayerTensors(5 * hidden * model.num_attention_heads * model.head_dim, "column", "linear"),)
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
    kernel = number(config, "linear_conv_kernel_dim") or SSM_CONVOLUTION
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
    kernel = number(nested, "short_conv_kernel_size") or number(config, "linear_conv_kernel_dim") or SSM_CONVOLUTION
    return DeltaAttention(width=heads * width, heads=heads, kernel=kernel)


def _linear_attention(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The nested `linear_attn_config` of Kimi models; empty if there is none."""
    nested = config.get("linear_attn_config")
    return nested if isinstance(nested, Mapping) else {}


class Mamba(NamedTuple):
    """Sizes of a Mamba mixer."""

    inner: int
    """Width between its two projections."""
    state: int
    """Elements of the recurrent state per element of that width."""
    kernel: int
    """Tokens of the convolution."""
    groups: int
    """Groups of heads that share the projections of their states."""
    heads: int
    """0 for Mamba 1, which has none."""
    head_dim: int


def mamba(model: Model) -> Mamba | None:
    """The sizes, which Nemotron-H, Bamba, Granite 4, Falcon-H1 and Jamba name differently. None for other models, or
    without the size of a state."""
    config = model.config
    state = number(config, "ssm_state_size", "mamba_d_state", "state_size")
    heads = number(config, "mamba_num_heads", "mamba_n_heads", "num_heads") or 0
    head_dim = number(config, "mamba_head_dim", "mamba_d_head") or 0
    inner = number(config, "mamba_d_ssm", "intermediate_size" if model.model_type == "falcon_mamba" else "mamba_inner")
    if not inner:  # the heads' width, else the hidden size times a factor, 2 by default
        expand = number(config, "mamba_expand", "expand") or 2
        inner = heads * head_dim or expand * (model.hidden_size or 0)
    if not state or not inner:
        return None
    if heads and not head_dim:
        head_dim = inner // heads
    return Mamba(
        inner=inner,
        state=state,
        kernel=number(config, "conv_kernel", "mamba_d_conv", "conv_kernel_size") or SSM_CONVOLUTION,
        groups=number(config, "n_groups", "mamba_n_groups") or 1,
        heads=heads,
        head_dim=head_dim,
    )


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
    the dense MLP. None if a size is unknown; empty if only the width of that additional MLP is."""
    inner = _intermediate(model)
    matrices = 2 if is_ungated(model) else 3
    if not moe:
        dense = number(model.config, "intermediate_size_mlp") or inner  # Llama 4: its dense layers
        return (LayerTensors(matrices * hidden * dense, "column", "mlp"),) if dense else None
    has_dense_mlp = bool(model.config.get("enable_moe_block"))
    if has_dense_mlp and not inner:
        return ()
    experts, width = model.num_experts, model.moe_intermediate_size or inner
    if not experts or not width:
        return None
    latent = layer_tensors.latent_width(model.config)
    router_and_projections = hidden * experts + 2 * hidden * (latent or 0)
    items = [LayerTensors(matrices * hidden * inner, "column", "mlp")] if has_dense_mlp and inner else []
    items.append(LayerTensors(experts * matrices * (latent or hidden) * width, "experts", "experts"))
    items.append(LayerTensors(router_and_projections, "whole", "rest"))
    shared = _shared_width(model, width)
    if shared:
        items.append(LayerTensors(matrices * hidden * shared, "column", "shared"))
    return tuple(items)


def _shared_width(model: Model, width: int) -> int:
    """Width of all shared experts of a layer together; 0 without them. `width`: of a routed expert."""
    stated = number(model.config, "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                    "shared_intermediate_size")  # fmt: skip
    if model.n_shared_experts:
        return model.n_shared_experts * (stated or width)
    if model.model_type and model.model_type.startswith("llama4"):  # one, which config.json does not state
        return width
    return stated or 0


def _intermediate(model: Model) -> int | None:
    """Width of the dense MLP. Qwen 1 states twice the width; LFM2 uses two thirds, rounded up to `block_multiple_of`.
    None if unknown."""
    inner = model.intermediate_size
    if not inner:
        is_fourfold = bool(_model_types(model) & FOURFOLD)
        return 4 * model.hidden_size if is_fourfold and model.hidden_size else inner
    if model.model_type == "qwen":
        return inner // 2
    if "lfm2" in _model_types(model) and model.config.get("block_auto_adjust_ff_dim"):
        multiple = number(model.config, "block_multiple_of") or 256  # transformers' class default
        return -(-(2 * inner // 3) // multiple) * multiple
    return inner


def routed_width(model: Model) -> int:
    """Width of the hidden states that reach the routed experts: Nemotron-3-Super projects them to a latent first. 0 if
    unknown."""
    latent = model.config.get("moe_latent_size")
    return latent if isinstance(latent, int) and latent > 0 else model.hidden_size or 0


def is_ungated(model: Model) -> bool:
    """True if the MLP has two matrices instead of gate, up and down."""
    return bool(_model_types(model) & NOT_GATED)


def _model_types(model: Model) -> set[str]:
    """The model's type as read, and as its config.json states it."""
    own = model.config.get("model_type")
    return {model.model_type or "", own if isinstance(own, str) else ""}
