"""A model's shape, with the field names of config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_LAYERS = 2048
"""Layers that are described one by one; the deepest published model has 128. Later ones only count as the least that a
layer of the model has, so that the cost of a plan is bounded and its minimum remains true."""


@dataclass(frozen=True, eq=False)
class Model:
    """A model's shape. Field names are config.json's; None means that config.json (and transformers' default) has none.

    Two models are equal only if they are the same object: results are cached by identity, and each catalog entry is
    built only once.
    """

    id: str
    model_type: str | None
    """The type of the whole model. A language model in it may have its own: `config["model_type"]`."""
    architectures: tuple[str, ...]
    torch_dtype: str | None
    """The dtype in config.json ("bfloat16", "float16", "float32"); vLLM serves float32 checkpoints in half under
    auto."""
    num_hidden_layers: int | None
    hidden_size: int | None
    num_attention_heads: int | None
    num_key_value_heads: int | None
    head_dim: int | None
    intermediate_size: int | None
    vocab_size: int | None
    tie_word_embeddings: bool
    max_position_embeddings: int | None
    """The context length that vLLM derives if --max-model-len is not set (0.33 config/model.py), before the rope rules
    that depend on the release; see `derived_max_model_len`."""
    revision: str | None = None
    """The commit whose files were read, if --revision names it; None: those of the default branch, or none."""
    length_read: bool = False
    """The length comes from the config.json of this very id, not from a library's table, a copy or a default."""
    length_scaled: bool = False
    """The length may be several times that of config.json, because only a library's table, which multiplies by the rope
    factor, has it, or because sources dispute it."""
    dtype_inherited: bool = False
    """torch_dtype was copied from the base model: this model is a fine-tune or a quantized copy by another owner."""
    storage_known: bool = True
    """How the weights are stored is known: from the checkpoint's index, its size or its own config.json. Otherwise each
    may take 4 to 16 bits."""
    kv_heads_known: bool = True
    """num_key_value_heads is known. Otherwise the model has from one to that many."""
    sizes_confirmed: bool = True
    """The formulas give the counted parameters of this model, or of one of its family. Otherwise its layers may have
    parts that no formula describes, or lack some."""
    sliding_window: int | None = None
    """Tokens; None if the model has no window or does not use it. If `layer_types` is empty, every layer has it."""
    layer_types: tuple[str, ...] = ()
    """Per layer one of "full_attention", "sliding_attention", "chunked_attention", "linear_attention", "mamba", "conv";
    "mlp" and "moe" are layers without state. Empty: all layers are alike, or the types are unknown."""
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
    scheme_guessed: bool = False
    """The quantization_config was derived from the words of an id: enough for an estimate, without the file's keys."""
    vision_config: Mapping[str, Any] | None = None
    parameters: int | None = None
    """All parameters of the checkpoint, unpacked."""
    weights_bytes: int | None = None
    """Bytes of the checkpoint's tensors, if known exactly."""
    files: int | None = None
    """Files that the checkpoint is spread over, if its index was read."""
    gated: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    """The whole text config with transformers' defaults, for values that have no field here."""
    dtype_parameters: Mapping[str, int] = field(default_factory=dict)
    """Stored elements by safetensors dtype ("BF16", "F8_E4M3", "I32"), if the checkpoint's index was read."""
    expert_bytes: int | None = None
    """Bytes of the routed experts' tensors, if the checkpoint's index was read."""
    replicated_bytes: int | None = None
    """Bytes of the tensors that every rank has whole, if the checkpoint's index was read."""

    @property
    def unknown(self) -> str | None:
        """The reason why its size is unknown, for people; None if nothing is."""
        if not self.storage_known:
            return "how the weights are stored (4 to 16 bits each)"
        if not self.sizes_confirmed:
            return "its number of parameters (no counted model of its family confirms the formulas)"
        return None if self.kv_heads_known else "the number of key-value heads"

    @property
    def described_layers(self) -> int:
        """Number of layers that are described one by one; 0 if it is unknown."""
        return min(self.num_hidden_layers or 0, MAX_LAYERS)

    @property
    def is_minimum(self) -> bool:
        """True if it has more layers than are described, so that only the minimum of its memory is known."""
        return max(self.num_hidden_layers or 0, self.num_nextn_predict_layers) > MAX_LAYERS
