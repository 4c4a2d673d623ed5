"""A name → the GPU models that it may mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from podfit.base import near
from podfit.base.lazy import regex
from podfit.vllm.gpu.product import Gpu, all_products, product, products, slices

NOISE = regex(
    r"nvidia|tesla|amd|ati|instinct|radeon|geforce|gtx|intelr?|huawei|google|gpus?|graphics|generation|edition|accelerator"
    r"|datacenter|data|center|series"
)
"""Words that do not distinguish one GPU model from another."""
FORMS = regex(r"sxm\d?|pcie?|nvlink|hbm\de?|oam|hgx|dgxs?|ac|vf|hf|mega|lc|active|ls|fhhl|server|workstation")
"""Words for a GPU's form factor: they choose between GPU models that have them, and are ignored for others."""
MEMORY = regex(r"(\d+)(?:gb?|gib)")
MIG_SUFFIX = regex(r"[-_ ]mig[-_ ](\d+c\.)?(\d+g\.\d+gb[a-z.+-]*)$", re.IGNORECASE)
SHARED_SUFFIX = regex(r"[-_ ]shared$", re.IGNORECASE)


def by_name(text: str, places: Sequence[str] = ()) -> tuple[Gpu, ...]:
    """The GPU models that `text` may mean; several if it is ambiguous, none if no GPU has that name.

    `text` is a name in common use: a GFD label with or without `-SHARED` and `-MIG-1g.10gb`, the name in nvidia-smi, a
    cloud's label, or a short name (`l4`, `a100-80gb`, `mi300x`). Whole words are compared: `l4` does not match an L40S.
    `places` prefers the names in use there ("gfd", "karpenter", "gke" …): Karpenter's `h100` is one GPU model.
    """
    return _known_name(text, tuple(places)) if len(text) <= _LONGEST else ()


_LONGEST = 128
"""Longest name that is looked up, in characters; a label's value has at most 63."""


@lru_cache(512)  # a cluster has a few GPU models
def _known_name(text: str, places: tuple[str, ...]) -> tuple[Gpu, ...]:
    """`_by_name`, cached."""
    return _by_name(text, places)


def _by_name(text: str, places: Sequence[str]) -> tuple[Gpu, ...]:
    """The GPU models with that name in one of the vocabularies `places`; slices for a MIG profile."""
    bare = SHARED_SUFFIX.sub("", text.strip())
    if sliced := MIG_SUFFIX.search(bare):
        return slices(sliced[2], _by_name(bare[: sliced.start()], places))
    if bare.lower().removeprefix("nvidia.com/").startswith("mig-"):
        return slices(bare.lower().removeprefix("nvidia.com/").removeprefix("mig-"), all_products())
    uses = _products_by_name().get(_normalize(bare), ())
    names = [use.gpu for use in uses if use.place in places]
    if not names:
        names = _without_special_cards(use.gpu for use in uses)
        is_official = any(use.gpu in names and use.place in ("smi", "gfd") for use in uses)
        if not is_official or "custom" in names[0]:  # a nickname, which may also mean other GPU models
            names += _models_with_words(_words(bare))
    return tuple(product(name) for name in dict.fromkeys(names))


def nearest(text: str) -> tuple[str, ...]:
    """Up to three short names similar to `text`, for "did you mean"."""
    without_noise = [
        "-".join([word for word in _words(name) if not NOISE.fullmatch(word)]) for name in _products_by_name()
    ]
    short_names = [name for name in dict.fromkeys(without_noise) if name]  # each once
    return tuple(near.nearest(_normalize(text), short_names, 3))


def short(name: str) -> str:
    """A GPU's name in the table without maker and form factor: "A100 80GB" of "NVIDIA A100 80GB SXM4"."""
    words = [word for word in name.split() if not NOISE.fullmatch(word.lower()) and not FORMS.fullmatch(word.lower())]
    return " ".join(words) or name


COMMONEST = (
    "NVIDIA H100 80GB SXM5", "NVIDIA H200 SXM 141GB", "NVIDIA A100 80GB SXM4", "Tesla V100 16GB", "RTX 6000 Ada",
)  # fmt: skip
"""GPU models that clusters have more of than others of the same short name. Machine types of clouds show it
(facts/instances.jsonl). For an A100 it is the size that language models need."""


def commonest(gpus: Sequence[Gpu]) -> Gpu:
    """The GPU model that is most likely meant by a name that several have: else the one with the least memory."""
    return min(gpus, key=lambda gpu: (gpu.name not in COMMONEST, gpu.memory))


def distinct(names: Iterable[str]) -> dict[str, str]:
    """Names in the table → short names; those that several share keep their form factor: "H100 80GB SXM5"."""
    shorts = {name: short(name) for name in names}
    counts = Counter(shorts.values())
    return {name: shorts[name] if counts[shorts[name]] == 1 else _without_noise(name) for name in shorts}


def _without_noise(name: str) -> str:
    """The name without the maker."""
    return " ".join(word for word in name.split() if not NOISE.fullmatch(word.lower())) or name


def _normalize(text: str) -> str:
    """The name in lower case, its words separated by one dash."""
    return re.sub(r"[\s_-]+", "-", text.lower()).strip("-")


class _NameUse(NamedTuple):
    """The use of a name for a GPU model."""

    gpu: str
    """The GPU model's name in the table."""
    place: str
    """The vocabulary that has the name: "smi", "gfd", "karpenter", "gke" …"""


@cache
def _products_by_name() -> Mapping[str, tuple[_NameUse, ...]]:
    """A normalized name → the GPU models that have it. The table's own names belong to nvidia-smi's ("smi")."""
    entries: dict[str, list[_NameUse]] = {}
    for gpu, row in products().items():
        for place, names in row["names"].items():
            for name in (*names, gpu) if place == "smi" else names:
                entries.setdefault(_normalize(name), []).append(_NameUse(gpu, place))
    return {name: tuple(uses) for name, uses in entries.items()}


def _without_special_cards(names: Iterable[str]) -> list[str]:
    """Without the GPUs that were made for one supercomputer only, unless there are no others."""
    every = list(names)
    return [name for name in every if "custom" not in name] or every


class _Vocabulary(NamedTuple):
    core: frozenset[str]
    """The words that every name of the GPU model has: `rtx`, `4070`, `ti`."""
    words: frozenset[str]
    """The words of all its names."""
    sizes: frozenset[int]
    """Its memory sizes in GB, as its names give them."""


@cache
def _vocabularies() -> Mapping[str, _Vocabulary]:
    """GPU model → the words of its names, those that all names share, and its memory sizes."""
    entries = {}
    for gpu, row in products().items():
        names = [*row["names"].get("smi", ()), *row["names"].get("gfd", ())] or [gpu]
        words_of_names = [_words(name) for name in names]
        all_words = {word for words in words_of_names for word in words} | set(_words(gpu))
        sizes = {int(size[1]) for word in all_words if (size := MEMORY.fullmatch(word))} | {row["marketing_gb"] or 0}
        core = frozenset.intersection(*[frozenset(_core(words)) for words in words_of_names])
        entries[gpu] = _Vocabulary(core, frozenset(all_words), frozenset(sizes))
    return entries


def _words(text: str) -> tuple[str, ...]:
    """Lower-case words; a number with its letters is one (`a100`, `80gb`), `rtx4090` is two."""
    words = []
    for word in re.findall(r"[a-z0-9.]+", text.lower()):
        words += re.sub(r"^(rtx|gtx)(?=\d)|(?<=\d)(nvl|ti)$", r"\1 \2", word).split()
    return tuple(words)


def _core(words: Iterable[str]) -> list[str]:
    """The words that identify a GPU model, without words of its form, memory, and others."""
    return [word for word in words if not any(kind.fullmatch(word) for kind in (NOISE, FORMS, MEMORY))]


def _models_with_words(words: tuple[str, ...]) -> list[str]:
    """GPU models that have every significant word of the name; of those the ones with the fewest other words (`rtx
    4070` does not match a 4070 Ti)."""
    significant = set(_core(words))
    if not any(character.isdigit() for word in significant for character in word):
        return []  # "tesla", "ada": the name of a family
    fits = {
        name: vocabulary
        for name, vocabulary in _vocabularies().items()
        if significant <= vocabulary.words | {"rtx"}  # which users add to names that lack it
        and (significant & vocabulary.core or not vocabulary.core)
    }
    if not fits:
        return []
    other_words = {name: len(vocabulary.core - significant) for name, vocabulary in fits.items()}
    fewest = min(other_words.values())
    names = [name for name in fits if other_words[name] == fewest]
    for word in words:
        if memory := MEMORY.fullmatch(word):
            names = _of_size(names, int(memory[1]))
    for form in words:
        if FORMS.fullmatch(form):  # ignored for GPU models of which none has it
            names = [name for name in names if any(word.startswith(form) for word in fits[name].words)] or names
    return _without_special_cards(names)


SIZE_TOLERANCE = 0.08
"""The share by which a size in a name may differ from the GPU's: 192 and 180 GB are 6 % apart (chosen)."""


def _of_size(names: list[str], size: int) -> list[str]:
    """The GPU models whose memory is closest to `size` GB, none if it differs by more than SIZE_TOLERANCE. Users write
    192 or 180 for the same B200."""
    off = {name: min(abs(size - gigabytes) for gigabytes in _vocabularies()[name].sizes) for name in names}
    least = min(off.values(), default=0)
    return [name for name in names if off[name] == least] if least <= size * SIZE_TOLERANCE else []
