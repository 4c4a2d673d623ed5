"""A name → its model: an id, a path that ends in one, an id with more words added, or only a size."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.vllm.facts import Fact
from podfit.vllm.model.catalogue import Relative, by_id, last_parts, model_of_row, relatives, row_of
from podfit.vllm.model.config import from_config
from podfit.vllm.model.schemes import QUANTISED, scheme_of
from podfit.vllm.model.shape import Model

NAME_BEGINS_WITH = "name: it begins with "
"""How the source of a model begins if only the beginning of the name identifies it."""
_LONGEST_NAME = 256
"""A hub's names have at most 96 characters per part; a longer text is not a name."""


def model_of_name(name: str) -> Fact[Model] | None:
    """The model that a name identifies: an id, a path or URI that ends in one, or an id with a quantization added. None
    if it identifies none."""
    if len(name) > _LONGEST_NAME or re.search(r"^\s|\s--?\w|\s$", name):
        return None
    if row := by_id(name):
        return row
    parts = _path_parts(name)
    for tail in ("/".join(parts[-2:]), parts[-1]) if len(parts) > 1 else parts:  # the longest tail first
        if fact := by_id(tail) or _by_last_part(tail) or _model_of_last_part(tail):
            return Fact(fact.value, f"path: its last part names {fact.value.id}", may_deny=False)
    for part in reversed(parts[-3:]):
        if fact := _by_beginning(part):
            is_hub_id = re.fullmatch(r"[\w.-]+/[\w.:-]+", name) and not name.startswith(".")
            # keep the hub's whole id, with its owner
            return fact._replace(value=replace(fact.value, id=name)) if is_hub_id else fact
    return None


def last_part(name: str) -> str:
    """The part of a path, a URI or an id that names the model, normalized so that different spellings are equal; "" if
    there is none."""
    parts = _path_parts(name) if len(name) <= _LONGEST_NAME else []
    return normalize_name(parts[-1]) if parts else ""


def _path_parts(name: str) -> list[str]:
    """The parts of a path or URI from the outside in, without versions and digests at the end; a Hugging Face cache's
    `models--org--name` is two."""
    path = re.sub(r"^[a-z][a-z0-9+.-]*://", "", name.strip(), flags=re.IGNORECASE).partition("?")[0]
    path = re.sub(r"@sha256:\w+$", "", path)
    parts = [part for part in path.split("/") if part.strip()]
    for part in parts:
        if part.startswith("models--"):
            return part.removeprefix("models--").split("--")
    while len(parts) > 1 and _VERSION.fullmatch(parts[-1]):
        parts.pop()
    if parts and name.startswith("oci://"):
        image, _, tag = parts[-1].partition(":")
        parts[-1] = image.removeprefix(_MODELCAR)
        if re.search(r"[a-z]{3}", tag, re.I) and SIZE.search(normalize_name(tag)):
            parts.append(tag)  # modelcar-catalog:llama-3.1-8b-instruct
    return parts


_VERSION = regex(r"\d{1,4}|v\d+|latest|main|snapshots?|hf|original|[0-9a-f]{40}", re.IGNORECASE)
"""Last parts of a path that name a version or a format, and not the model."""
_MODELCAR = "modelcar-"
"""Begins the names of images that contain a model (KServe, "Serve models with OCI images")."""
_SERVER_WORD = regex(r"(?:(?:vllm|llm|model|modelcar|serve|serving|server|inference|infer|ms|my)[-_])+", re.IGNORECASE)


def without_server_words(name: str) -> str:
    """The name of a workload without words in front of the model's: `vllm-qwen3-8b` → `qwen3-8b`."""
    leading = _SERVER_WORD.match(name)
    return name[leading.end() :] if leading else name


def normalize_name(name: str) -> str:
    """Normalize a name, so that different spellings are equal: Llama_3.1-8B, llama-3-1-8b-hf, llama3.1-8b."""
    joined = re.sub(r"(?<=[a-z])[\s_-](?=\d+(?:\.\d+)?[\s_-])", "", name.lower())
    return re.sub(r"[\s_.()-]+", "-", joined).strip("-").removesuffix("-hf")


def _by_last_part(name: str) -> Fact[Model] | None:
    """The only model with that last part: copies by several owners count as one if shape and scheme are equal. None if
    they differ, or if there is none."""
    rows = last_parts().get(normalize_name(name.rpartition("/")[2]), ())
    if not rows:
        return None
    best = min(rows, key=lambda row: (_row_rank(row), row.lower()))
    best_shape, best_trust = shape(model_of_row(best)), _row_rank(best).trust
    as_trusted = [row for row in rows if _row_rank(row).trust <= best_trust]  # less trusted rows do not count
    return by_id(best) if all(shape(model_of_row(row)) == best_shape for row in as_trusted) else None


def _model_of_last_part(name: str) -> Fact[Model] | None:
    """The only fine-tune or copy with that last part. Else the common shape of the models whose last part begins with
    it (`gemma-3-27b`, `llama-3-70b-instruct`), without quantized copies. None if they differ, or if
    there are none."""
    normalized = normalize_name(name.rpartition("/")[2])
    if not normalized:
        return None
    items = _relatives_by_last_part().get(normalized, [])
    if items and len({(relative.base, relative.scheme) for relative in items}) == 1:
        return by_id(items[0].id)
    if not re.search(r"\d|-", normalized):
        return None  # one word ("tiny", "chat") identifies nothing
    rows = _rows_that_begin(normalized)
    if not rows or len(rows) > _MOST_ALIKE or len({shape(model_of_row(row)) for row in rows}) > 1:
        return None
    return by_id(min(rows, key=lambda row: (_row_rank(row), len(row), row)))


def _rows_that_begin(normalized: str) -> list[str]:
    """The catalog's entries whose last part begins with these words, with or without "meta-" in front of them. Further
    words that name a quantization are left out."""
    rows: list[str] = []
    for start in (normalized, f"meta-{normalized}"):
        for key in _going_on_from(start):
            if not QUANTISED.search(key.removeprefix(start)):
                rows += last_parts()[key]
    return rows


_MOST_ALIKE = 40
"""If more models than that have the same beginning, it is the name of a family (chosen)."""


@cache
def _relatives_by_last_part() -> Mapping[str, list[Relative]]:
    """Normalized last part of a name → the relatives with it."""
    entries: dict[str, list[Relative]] = {}
    for relative in relatives().values():
        entries.setdefault(normalize_name(relative.id.rpartition("/")[2]), []).append(relative)
    return entries


@cache
def _sorted_parts() -> list[str]:
    """The normalized last parts of all ids and aliases, sorted."""
    return sorted(last_parts())


def _going_on_from(start: str) -> list[str]:
    """The last parts that equal `start`, or continue it with another word."""
    parts = _sorted_parts()
    names = parts[bisect_left(parts, f"{start}-") : bisect_left(parts, f"{start}.")]  # "." comes after "-"
    return [start, *names] if start in last_parts() else names


class _Trust(NamedTuple):
    """How sure a catalog entry is: the one that compares less is surer."""

    is_doubtful: bool
    is_of_table: bool
    """It comes from a library's table, not from a config.json."""


class _RowRank(NamedTuple):
    """The order of catalog entries: the one that compares less is better."""

    trust: _Trust
    is_copy: bool


def _row_rank(row_id: str) -> _RowRank:
    """Sort key of catalog entries, the best first."""
    entry = row_of(row_id)
    return _RowRank(_Trust(not entry["trusted"], entry["confidence"] != "file"), is_copy="base" in entry)


class ModelShape(NamedTuple):
    """The properties that copies of one model have in common, to compare two models; None for an unknown size."""

    layers: int | None
    hidden: int | None
    heads: int | None
    key_value_heads: int | None
    vocabulary: int | None
    experts: int | None
    is_quantized: bool
    """By any scheme."""


def shape(model: Model) -> ModelShape:
    """The model's properties that its copies have, too."""
    return ModelShape(
        layers=model.num_hidden_layers,
        hidden=model.hidden_size,
        heads=model.num_attention_heads,
        key_value_heads=model.num_key_value_heads,
        vocabulary=model.vocab_size,
        experts=model.num_experts,
        is_quantized=model.quantization_config is not None,
    )


def have_same_sizes(model: Model, copy: Model) -> bool:
    """True if two models have the same shape, whether they are quantized or not."""
    return shape(model)._replace(is_quantized=False) == shape(copy)._replace(is_quantized=False)


SIZE = regex(r"(?:^|-)((?:\d+x|[ea])?\d+(?:-\d+)?[bm])(?=-|$)")


def tells_quantisation(name: str) -> bool:
    """True if the name says that the weights are quantized (`llama-8b-awq`)."""
    return len(name) <= _LONGEST_NAME and QUANTISED.search(normalize_name(name)) is not None


_MOST_WORDS = 24
"""Most words of a name that are read; no published name has more."""


def _by_beginning(name: str) -> Fact[Model] | None:
    """The model whose published name, with its size, begins this name: it is a quantized copy or a fine-tune of it.
    None if no name does."""
    words = normalize_name(name).split("-")[:_MOST_WORDS]
    for end in range(len(words) - 1, 1, -1):  # the longest beginning first, of at least two words
        beginning, suffix = "-".join(words[:end]), "-".join(words[end:])
        sizes = SIZE.findall(beginning)
        is_scheme_alone = QUANTISED.match(suffix) is not None and not SIZE.search(suffix)
        if not (sizes or is_scheme_alone):
            continue  # the beginning is the name of a family
        if not set(SIZE.findall(suffix)) <= set(sizes):
            continue  # the suffix has another size
        for spelling in (beginning, f"{beginning}-instruct", f"{beginning}-it", f"meta-{beginning}"):
            if fact := _by_last_part(spelling):
                return _model_with_suffix(fact.value, name, suffix)
    return None


def _model_with_suffix(model: Model, name: str, suffix: str) -> Fact[Model] | None:
    """`model` with the changes that the further words of a name (`suffix`) mean: a scheme, or 16 bits. None if they
    name a format of unknown size."""
    source = f"{NAME_BEGINS_WITH}{model.id}'s"
    settings = scheme_of(suffix)  # empty: no word names a scheme
    if settings is None:
        return None
    if settings:
        model = replace(model, quantization_config=settings, scheme_guessed=True, storage_known=True)
    elif re.search(r"(^|-)(bf16|fp16|f16|dequantized)(-|$)", suffix):
        model = replace(
            model, quantization_config=None, storage_known=True, weights_bytes=None, dtype_parameters={},
            expert_bytes=None,
        )  # fmt: skip
    if model.quantization_config:
        # the maker chooses the layers that stay in 16 bits: the list of the published copy does not apply to this one
        scheme = {key: value for key, value in model.quantization_config.items() if key not in LEFT_ALONE}
        model = replace(
            model, quantization_config=scheme, weights_bytes=None, dtype_parameters={}, expert_bytes=None,
            replicated_bytes=None,
        )  # fmt: skip
    return Fact(replace(model, id=name, gated=False), source, may_deny=False)


LEFT_ALONE = ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules", "llm_int8_skip_modules")
"""Keys of a quantization_config that list layers."""


SIZED = regex(
    r"(?:^|[-_\s])(?:(?P<experts>\d{1,3})x)?(?P<size>\d{1,4}(?:[._]\d{1,3})?)(?P<unit>[bmt])(?=[-_\s.:@]|$)",
    re.IGNORECASE,
)


def size_of(name: str) -> Fact[Model] | None:
    """A model with only a known number of parameters, from its name: "70B", "8x7B", "235B-A22B". None if the name has
    no size."""
    if len(name) > _LONGEST_NAME:
        return None
    for part in reversed(_path_parts(name)[-2:]):
        sizes = list(SIZED.finditer(part))
        if not sizes or (settings := scheme_of(normalize_name(part))) is None:
            continue
        match = sizes[0]  # the next sizes are active parameters, or tokens: 235B-A22B, 2B-4T
        if re.match(r"-\d+e(?![a-z])", part[match.end() :], re.IGNORECASE):
            continue  # Llama 4: 17B-16E gives only the active parameters
        unknown = from_config(name, {"quantization_config": settings} if settings else {})
        source = f"name: it says {match[0].strip('-_ ').replace('_', '.').upper()} parameters"
        if active := re.search(r"[-_]a(\d+(?:\.\d+)?[bm])(?=[-_.]|$)", part, re.IGNORECASE):
            source += f", {active[1].upper()} active"
        source += f", {settings['quant_method']}" if settings else ""
        known = bool(settings)
        sized = replace(unknown, parameters=_parameters(match), storage_known=known, kv_heads_known=False)
        return Fact(sized, source, may_deny=False)
    return None


def _parameters(match: re.Match[str]) -> int:
    """Number of parameters that a match of SIZED states: "70B", or "8x7B" for a number of experts."""
    unit = {"m": 10**6, "b": 10**9, "t": 10**12}[match["unit"].lower()]
    parameters = float(match["size"].replace("_", ".")) * unit
    return int(parameters * int(match["experts"]) * OF_ALL_EXPERTS) if match["experts"] else int(parameters)


OF_ALL_EXPERTS = 0.82
"""Parameters of a model named "8x7B", relative to 8 × 7 billion, because its experts share their attention: Mixtral
8x7B has 46.7 billion, 8x22B has 141."""
