"""The known properties of one model: as text for people, as JSON for machines."""

from __future__ import annotations

from typing import Any

from podfit.kube.quantity import human
from podfit.vllm.args import EngineArgs
from podfit.vllm.facts import Fact
from podfit.vllm.memory import kv_cache, settings, shape, tower, weights
from podfit.vllm.model import Model, aliases_of, derived_max_model_len, source
from podfit.vllm.release import newest_read

_SIZES = (
    "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "vocab_size", "num_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "kv_lora_rank",
    "qk_rope_head_dim", "index_head_dim", "sliding_window", "max_position_embeddings", "num_nextn_predict_layers",
)  # fmt: skip


def tree(fact: Fact[Model]) -> dict[str, Any]:
    """The model's facts and what follows from them, as plain JSON values; what is not known is null."""
    model = fact.value
    resolved = settings.resolve(EngineArgs(release=None, given={}), model, None, 0, newest_read(), {}).settings
    counted = shape.of(model)
    loaded = weights.checkpoint(model, resolved)
    layout = kv_cache.layout(model, resolved)
    formula = None
    if counted is not None and counted.known:
        plain = counted.elements + tower.parameters(model)
        stated = model.parameters or plain  # with multi-token-prediction layers, where the checkpoint has them
        formula = min(plain, plain + counted.extra, key=lambda number: abs(number - stated))
    layers = model.layer_types
    return {
        "id": model.id,
        "aliases": aliases_of(model.id),
        "source": fact.source,
        "found_in": source(model.id),
        "may_deny": fact.may_deny,
        "architectures": list(model.architectures),
        "model_type": model.model_type,
        "dtype": model.torch_dtype,
        **{name: getattr(model, name) or None for name in _SIZES},
        "layer_types": {kind: layers.count(kind) for kind in dict.fromkeys(layers)},
        "quantization_config": dict(model.quantization_config) if model.quantization_config else None,
        "scheme": resolved.types.scheme.name if resolved.types.scheme else None,
        "gated": model.gated,
        "parameters": model.parameters,
        "parameters_by_formula": formula,
        "weights_bytes": model.weights_bytes,
        "weights_bytes_loaded": int(loaded.total) if loaded else None,
        "kv_cache_bytes_per_token": layout.bytes_per_token if layout else None,
        "kv_cache_known": bool(layout and layout.known),
        "derived_max_model_len": derived_max_model_len(model, None),
    }


def text(fact: Fact[Model]) -> str:
    """The model's properties as lines of text; unknown ones are marked."""
    entries = tree(fact)
    rows = [
        ("source", entries["source"]),
        ("found in", entries["found_in"]),
        ("may deny", "yes" if entries["may_deny"] else "no: it informs only"),
        ("architecture", _architecture(entries)),
        ("layers", _layers(entries)),
        ("experts", _experts(entries)),
        ("parameters", _parameters(entries)),
        ("quantized", entries["scheme"] or "no"),
        ("weights", _weights(entries)),
        ("KV cache", _cache(entries)),
        (
            "context",
            f"{entries['derived_max_model_len']:,} tokens" if entries["derived_max_model_len"] else "not known",
        ),
        ("gated", "on Hugging Face: needs a token" if entries["gated"] else None),
        ("also", ", ".join(entries["aliases"]) or None),
    ]
    return "\n".join([entries["id"], *(f"  {name:<13} {value}" for name, value in rows if value)]) + "\n"


def _architecture(obj: dict[str, Any]) -> str:
    name = ", ".join(obj["architectures"]) or "not known"
    return f"{name} ({obj['model_type']})" if obj["model_type"] else name


def _layers(obj: dict[str, Any]) -> str | None:
    """Layers, hidden size and heads, with the number of layers of each kind."""
    if not obj["num_hidden_layers"]:
        return "not known"
    kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in obj["layer_types"].items())
    heads = ""
    if obj["num_attention_heads"] and obj["kv_lora_rank"]:
        heads = f", {obj['num_attention_heads']} heads over latents of {obj['kv_lora_rank']}"
    elif obj["num_attention_heads"]:
        heads = f", {obj['num_attention_heads']} heads, {obj['num_key_value_heads']} of keys and values"
        heads += f" × {obj['head_dim']}" if obj["head_dim"] else ""
    width = f" × {obj['hidden_size']:,}" if obj["hidden_size"] else ""
    return f"{obj['num_hidden_layers']}{width}{heads}" + (f" ({kinds})" if kinds else "")


def _experts(obj: dict[str, Any]) -> str | None:
    """Experts, and how many each token takes; None for a dense model."""
    if not obj["num_experts"]:
        return None
    return f"{obj['num_experts']}, {obj['num_experts_per_tok'] or '?'} for each token"


def _parameters(obj: dict[str, Any]) -> str:
    """The number of parameters in billions; with the formula's number if it differs by more than 2%."""
    stated, formula = obj["parameters"], obj["parameters_by_formula"]
    if not stated:
        return f"{formula / 1e9:.2f} billion, from the architecture" if formula else "not known"
    off = f"; the architecture has {formula / 1e9:.2f}" if formula and abs(formula - stated) > 0.02 * stated else ""
    return f"{stated / 1e9:.2f} billion{off}"


def _weights(obj: dict[str, Any]) -> str:
    """Bytes of weights on the GPUs, and of the checkpoint."""
    if not obj["weights_bytes_loaded"]:
        return "not known"
    counted = f", the checkpoint has {human(obj['weights_bytes'])}" if obj["weights_bytes"] else ", computed"
    return f"{human(obj['weights_bytes_loaded'])} on the GPUs{counted}"


def _cache(obj: dict[str, Any]) -> str:
    """Bytes of KV cache per token."""
    if not obj["kv_cache_bytes_per_token"]:
        return "none" if obj["kv_cache_known"] else "not known"
    partly = "" if obj["kv_cache_known"] else ", only partly known"
    return f"{human(obj['kv_cache_bytes_per_token'])} a token in 16 bits, before it is cut over GPUs{partly}"
