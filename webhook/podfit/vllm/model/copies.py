"""Quantized copies of a model in the catalog: what could be served instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.model.catalogue import MIRRORS, by_id, ids
from podfit.vllm.model.name import have_same_sizes, tells_quantisation
from podfit.vllm.model.shape import Model

_ADDED = regex(
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
    models = []
    for name in _copies(_base_name(model.id)):
        fact = by_id(name)
        if fact is None or not fact.may_deny:
            continue
        if fact.value.quantization_config and have_same_sizes(fact.value, model):
            models.append(fact.value)
    return tuple(sorted(models, key=lambda copy: (_owner_rank(copy.id), copy.id)))


def _owner_rank(name: str) -> int:
    """Sort key: preferred owners first, by their position in `_OWNERS`."""
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


class CatalogIds(NamedTuple):
    """The ids of the catalog, each list in alphabetical order."""

    originals: Sequence[str]
    copies: Sequence[str]
    """Quantized copies, and what mirrors publish under the name of another owner's model."""


@cache
def catalog_ids() -> CatalogIds:
    """All ids: originals, and copies of them."""
    names = sorted(ids().values(), key=str.lower)
    published = {_last_part(name) for name in names if not _is_of_mirror(name)}
    copies = {
        name for name in names if tells_quantisation(name) or (_is_of_mirror(name) and _last_part(name) in published)
    }
    return CatalogIds([name for name in names if name not in copies], [name for name in names if name in copies])


def _is_of_mirror(name: str) -> bool:
    """True if the owner of the id publishes unchanged copies (MIRRORS)."""
    return name.partition("/")[0].lower() in MIRRORS


def _last_part(name: str) -> str:
    """The lower-case name without the owner, and without "meta-", which mirrors leave out."""
    return name.rpartition("/")[2].lower().removeprefix("meta-")
