"""The built-in catalog: published models by id, each entry with its source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

from podfit.base import data, near
from podfit.vllm.facts import Fact
from podfit.vllm.model.config import from_config
from podfit.vllm.model.schemes import SCHEMES
from podfit.vllm.model.shape import Model

OTHERS = ("aliases", "last_parts", "relatives", "gated", "sources", "models")
"""Lines of the table that are not entries."""


@cache
def ids() -> Mapping[str, str]:
    """Lower-case id → the id as its owner writes it."""
    return {name.lower(): name for name in data.rows("models") if name not in OTHERS}


@cache
def aliases() -> Mapping[str, str]:
    """Lower-case alias → id of its entry in the catalog."""
    entries: dict[str, str] = json.loads(data.rows("models")["aliases"])
    return entries


@cache
def last_parts() -> Mapping[str, list[str]]:
    """The last part of an id or alias, spelled as `podfit.vllm.model.name` does → the rows that it may mean."""
    entries: dict[str, list[str]] = json.loads(data.rows("models")["last_parts"])
    return entries


@cache
def gated() -> frozenset[str]:
    """Lower-case ids of repositories outside the catalog for which the hub demands a token."""
    return frozenset(json.loads(data.rows("models")["gated"]))


@cache
def _sources() -> list[str]:
    """Where the catalog's entries come from; an entry has an index of this list."""
    names: list[str] = json.loads(data.rows("models")["sources"])
    return names


@cache
def row_of(name: str) -> Mapping[str, Any]:
    """The catalog's entry of that id, as JSON."""
    entries: dict[str, Any] = json.loads(data.rows("models")[name])
    return entries


@cache
def model_of_row(name: str) -> Model:
    """The model of a catalog entry."""
    row = row_of(name)
    model = from_config(name, row["config"], complete=row["confidence"] == "file")
    return replace(
        model,
        length_read=model.length_read and not row.get("length_corrected", False),
        length_scaled=row.get("length_scaled", False),
        dtype_inherited=row.get("dtype_inherited", False),
        parameters=row.get("parameters"),
        weights_bytes=row.get("weights_bytes"),
        storage_known=not row.get("storage_unknown", False),
        kv_heads_known=not row.get("kv_heads_unknown", False),
        sizes_confirmed=not row.get("sizes_unconfirmed", False),
        gated=row.get("gated", False),
        scheme_guessed=row.get("scheme_guessed", False),
        dtype_parameters=row.get("dtype_parameters", {}),
        expert_bytes=row.get("expert_bytes"),
        replicated_bytes=row.get("replicated_bytes"),
    )


SOURCE_IN_WORDS = {
    "file": "config.json",
    "table": "a library's table",
    "documented": "its documentation",
    "memory": "unverified",
}


RENAMED = {"thudm": "zai-org", "cohereforai": "CohereLabs", "neuralmagic": "RedHatAI", "nm-testing": "RedHatAI"}
"""Owners that the hub redirects: old name → new."""
MIRRORS = frozenset({"unsloth", "redhatai", "nousresearch", "lmstudio-community", "mlabonne", "alpindale"})
"""Owners that publish unchanged copies under the original's own name."""


def by_id(name: str) -> Fact[Model] | None:
    """The catalog's model for `name`, an id or an alias in any case; None if there is none.

    Entries and their aliases come first. Next are ids under an owner's older name, then fine-tunes and copies whose
    model card names the base model. Last are mirrors: an id under an owner of `MIRRORS` with the name of exactly one
    original.
    """
    return _by_id(name.strip()) if len(name) <= _LONGEST else None


_LONGEST = 256
"""A hub's names have at most 96 characters per part."""


@lru_cache(512)  # a cluster serves a few models
def _by_id(name: str) -> Fact[Model] | None:
    """The fact for an id or alias; also of an owner that was renamed, of a relative, and of a mirror. None if the
    catalog has none of these."""
    key = name.lower()
    owner, _, last = key.partition("/")
    renamed = f"{RENAMED[owner]}/{last}".lower() if owner in RENAMED else key
    row_id = next((row for model_id in (key, renamed) if (row := ids().get(model_id) or aliases().get(model_id))), None)
    if row_id is not None:
        return _fact_of_row(row_id)
    relative = relatives().get(key) or relatives().get(renamed)
    if relative is not None:
        return _fact_of_relative(relative)
    return _fact_of_mirror(name, last) if owner in MIRRORS else None


def _fact_of_row(name: str) -> Fact[Model]:
    """The fact for a catalog entry; it may deny if the entry is trusted."""
    row = row_of(name)
    source = f"built-in catalog ({SOURCE_IN_WORDS.get(row['confidence'], row['confidence'])})"
    if not row["trusted"]:
        source += f"; doubtful: {row.get('doubts', 'unchecked')}"
    return Fact(model_of_row(name), source, bool(row["trusted"]))


class Relative(NamedTuple):
    """A fine-tune or a quantized copy that has the architecture of a catalog entry."""

    id: str
    base: str
    """The id of the entry."""
    scheme: str | None
    """A key of SCHEMES; None if it is not quantized in another way than the entry."""


@cache
def relatives() -> Mapping[str, Relative]:
    """Lower-case id → the relative (facts/relatives.jsonl)."""
    entries: dict[str, list[Any]] = json.loads(data.rows("models")["relatives"])
    return {name: Relative(*row) for name, row in entries.items()}


def _fact_of_relative(relative: Relative) -> Fact[Model]:
    """The fact for a relative, which never denies."""
    base = relative.base
    model = replace(model_of_row(base), id=relative.id, gated=False, length_read=False)
    if relative.scheme is not None:
        model = replace(
            model, quantization_config=SCHEMES[relative.scheme], scheme_guessed=True, storage_known=True,
            weights_bytes=None, dtype_parameters={}, expert_bytes=None, replicated_bytes=None,
        )  # fmt: skip
    return Fact(model, f"built-in catalog (the architecture of {base}: a fine-tune or copy of it)", may_deny=False)


@cache
def _by_last_part() -> Mapping[str, Sequence[str]]:
    """Lower-case last part of an id, without the owner → the ids with it."""
    entries: dict[str, list[str]] = {}
    for value in ids().values():
        if last := value.lower().partition("/")[2]:
            entries.setdefault(last, []).append(value)
    return entries


def _fact_of_mirror(name: str, last: str) -> Fact[Model] | None:
    """The fact for a model under a mirror's owner; None unless its last part names one original."""
    alike = _by_last_part().get(last, ())
    originals = [text for text in alike if "base" not in row_of(text)] or alike
    if len(originals) != 1:
        return None
    fact = _fact_of_row(originals[0])
    model = replace(fact.value, id=name, gated=False, length_read=False)
    return Fact(model, f"{fact.source}, as a copy of {originals[0]}", fact.may_deny)


def source(name: str) -> str | None:
    """The source of a catalog entry: a file of a repository at a revision, or a table of a library's release."""
    row_id = ids().get(name.lower()) or aliases().get(name.lower())
    return _sources()[row_of(row_id)["source"]] if row_id else None


def nearest(name: str) -> list[str]:
    """Ids similar to `name`, the likeliest first; for "did you mean"."""
    query = name.strip().lower()
    close = near.nearest(query, ids(), 3, 0.75)
    if not close and "/" not in query:
        tails = {text.rpartition("/")[2]: text for text in ids()}
        close = [tails[text] for text in near.nearest(query, tails, 3, 0.75)]
    return [ids()[text] for text in close]


class FoundModel(NamedTuple):
    """One model that a search found."""

    id: str
    parameters: int | None = None
    others: tuple[str, ...] = ()
    """Other ids of the model that match the words."""


def search(words: Sequence[str], given: Iterable[str] = ()) -> list[FoundModel]:
    """The catalog's models and the `given` ids that have all words, in any case, in one of their ids. The best match is
    first: names that begin with the first word, those of an organization of that name before others."""
    names = [word.lower() for word in words]

    def has_all(name: str) -> bool:
        return all(word in name for word in names)

    others: dict[str, list[str]] = {}
    for alias, row in aliases().items():
        if has_all(alias):
            others.setdefault(row, []).append(alias)
    found_models = [
        FoundModel(name, row_of(name).get("parameters"), tuple(others.get(name, ())))
        for key, name in ids().items()
        if has_all(key) or name in others
    ]
    found_models += [FoundModel(relative.id) for key, relative in relatives().items() if has_all(key)]
    found_models += [FoundModel(name) for name in given if has_all(name.lower())]
    return sorted(
        found_models,
        key=lambda found_model: (_distance(found_model.id.lower(), names[0] if names else ""), found_model.id.lower()),
    )


def _distance(name: str, word: str) -> tuple[bool, bool, bool]:
    """How much an id differs from a word: whether its name (or the id) is another one or begins in another way, and
    whether its organization has another name."""
    organization, _, own = name.rpartition("/")
    related = bool(organization) and (word.startswith(organization) or word in organization)
    return word not in (name, own), not (own.startswith(word) or name.startswith(word)), not related


def aliases_of(name: str) -> list[str]:
    """The other ids of a row's model, in lower case."""
    return [alias for alias, row in aliases().items() if row == name]
