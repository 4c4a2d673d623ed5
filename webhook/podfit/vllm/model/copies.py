"""Quantized copies of a model in the catalog: what could be served instead."""

from __future__ import annotations

import re
from functools import lru_cache

from podfit.vllm.model.catalogue import by_id, ids
from podfit.vllm.model.name import shape, tells_quantisation
from podfit.vllm.model.shape import Model

_ADDED = re.compile(
    r"[-_.](fp8|nvfp4|mxfp4|fp4|awq|gptq|int[48]|w\d+a\d+|bnb|nf4|[48][-_]?bits?|dynamic|block|quantized|kv|unsloth"
    r"|compressed|tensors|g?128g|marlin|autoround|auto[-_]round|mixed|sym|hf)(?=[-_.]|$)",
    re.IGNORECASE,
)
"""Words that makers of copies add to a name."""
_OWNERS = (
    "nvidia",
    "redhatai",
    "neuralmagic",
    "qwen",
    "google",
    "meta-llama",
    "mistralai",
    "unsloth",
    "hugging-quants",
)
"""Owners whose copies are listed first: makers whose copies are known to work with vLLM."""


@lru_cache(256)
def quantised_copies(model: Model) -> tuple[Model, ...]:
    """Trusted catalog entries that are quantized copies of `model`, the best-known makers first. () if `model` is
    quantized itself."""
    if model.quantization_config or tells_quantisation(model.id):
        return ()
    found = []
    for name in _copies(_base_name(model.id)):
        row = by_id(name)
        if row and row.may_deny and row.value.quantization_config and shape(row.value)[:-1] == shape(model)[:-1]:
            found.append(row.value)
    return tuple(sorted(found, key=lambda one: (_owner(one.id), one.id)))


def _owner(name: str) -> int:
    owner = name.partition("/")[0].lower()
    return _OWNERS.index(owner) if owner in _OWNERS else len(_OWNERS)


def _base_name(name: str) -> str:
    """The last part of a model's name without the words that quantized copies add."""
    last = name.rpartition("/")[2].lower().removeprefix("meta-")
    while (shorter := _ADDED.sub("", last)) != last:
        last = shorter
    return last


@lru_cache(256)
def _copies(stem: str) -> tuple[str, ...]:
    """Ids whose name is `stem` with words that makers of copies add."""
    return tuple(name for name in ids() if stem in name and tells_quantisation(name) and _base_name(name) == stem)
