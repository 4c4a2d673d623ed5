"""The releases of vLLM that know a model's architecture (data/releases.json, scripts/facts/architectures.py)."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

from podfit.base import data
from podfit.vllm.model.shape import Model
from podfit.vllm.release import Release, parse

ARCHITECTURE_SUFFIXES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
"""Architectures that vLLM looks up by their own name. It may serve others (…ForSequenceClassification, …Model) through
the language model in them (vLLM 0.33 models/registry.py, _normalize_arch)."""
GENERATING_SUFFIXES = ("ForCausalLM", "ForConditionalGeneration")
"""Architectures that generate text."""
OTHER_FORMATS = ("mistral", "ministral", "pixtral", "voxtral")
"""Families whose repositories have a params.json next to config.json: vLLM may name their architecture itself."""
FALLBACK = Release(0, 7)
"""From this release on, Transformers serves the architectures that vLLM does not name."""


class Known(NamedTuple):
    """The releases around the one that added an architecture."""

    name: str
    missing: Release
    """The last release without it, of those whose sources were read."""
    first: Release
    """The first release with it."""


class Removed(NamedTuple):
    """The releases around the one that removed an architecture."""

    name: str
    last: Release
    """The last release, of those whose sources were read, that serves it."""
    gone: Release
    """The first release without it."""


def architecture_of(model: Model) -> Known | None:
    """The model's architecture, if a release is known that lacks it; None also if that is uncertain."""
    return _oldest_architecture(model.architectures, (model.model_type or "").lower())


@lru_cache(256)
def _oldest_architecture(architectures: tuple[str, ...], kind: str) -> Known | None:
    """The one of these architectures that vLLM added first; None unless all are in the table."""
    rows = [row for name in architectures if (row := _architecture_row(name)) is not None]
    if not rows or len(rows) < len(architectures) or kind.startswith(OTHER_FORMATS):
        return None
    oldest = min(rows, key=lambda known_row: known_row.missing)
    return oldest if oldest.name.endswith(ARCHITECTURE_SUFFIXES) else None


def removed_architecture(model: Model, release: Release) -> Removed | None:
    """The model's architecture, if this release no longer serves it; None also if that is uncertain."""
    rows = [_table()["removed"].get(name) for name in model.architectures]
    if not rows or not all(rows) or (model.model_type or "").lower().startswith(OTHER_FORMATS):
        return None
    name, spans = model.architectures[0], [(_release(last), _release(gone)) for last, gone in rows]
    if not name.endswith(ARCHITECTURE_SUFFIXES) or any(gone is None or release < gone for _, gone in spans):
        return None
    last, gone = spans[0]
    return Removed(name, last, gone) if last and gone else None


def is_removed(model: Model, release: Release, *, remote_code: bool) -> bool:
    """True if neither vLLM nor the Transformers of its image serves the model's architecture any more."""
    return removed_architecture(model, release) is not None and not (
        remote_code or _transformers_may_know(model, release)
    )


def is_unserved(model: Model, release: Release, *, remote_code: bool) -> bool:
    """True if both vLLM and the Transformers of its image certainly lack the model's architecture.

    `remote_code`: the checkpoint's own code is trusted, and may add it.
    """
    row = architecture_of(model)
    if row is None or release > row.missing:
        return False
    return release < FALLBACK or not (remote_code or _transformers_may_know(model, release))


def _transformers_may_know(model: Model, release: Release) -> bool:
    """True if the transformers library of this release may know the model's type."""
    types = _table()["model_types"]
    kind = model.model_type
    if kind is None:
        return True
    missing = _release(types[kind]) if kind in types else _release(_table()["releases"][-1])
    return missing is None or release > missing


def _architecture_row(name: str) -> Known | None:
    """The table's entry for an architecture: the last release without it and the first with it."""
    row = _table()["architectures"].get(name)
    missing, first = (_release(item) for item in row) if row else (None, None)
    return Known(name, missing, first) if missing and first else None


@cache
def _table() -> dict[str, Any]:
    """The table of architectures by release, as JSON."""
    entries: dict[str, Any] = data.load("releases")["architectures"]
    return entries


def _release(text: str | None) -> Release | None:
    """The release that a text names; None for none."""
    return parse(text) if text else None


def generates_text(model: Model) -> bool:
    """True if one of the model's architectures generates text, by its name."""
    return any(architecture.endswith(GENERATING_SUFFIXES) for architecture in model.architectures)
