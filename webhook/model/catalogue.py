"""The built-in catalogue: published models by id, each row with its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from webhook import data
from webhook.facts import Fact, Facts
from webhook.model.config import from_config
from webhook.model.shape import Model


@cache
def ids() -> Mapping[str, str]:
    """Lower-case id → the id as its owner writes it."""
    return {name.lower(): name for name in data.rows("models") if name not in ("aliases", "sources", "models")}


@cache
def aliases() -> Mapping[str, str]:
    found: dict[str, str] = json.loads(data.rows("models")["aliases"])
    return found


@cache
def _sources() -> list[str]:
    found: list[str] = json.loads(data.rows("models")["sources"])
    return found


@cache
def row_of(name: str) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(data.rows("models")[name])
    return found


@cache
def catalogued(name: str) -> Model:
    row = row_of(name)
    model = from_config(name, row["config"], complete=row["confidence"] == "file")
    return replace(
        model,
        parameters=row.get("parameters"),
        weights_bytes=row.get("weights_bytes"),
        gated=row.get("gated", False),
        dtype_parameters=row.get("dtype_parameters", {}),
        expert_bytes=row.get("expert_bytes"),
        replicated_bytes=row.get("replicated_bytes"),
    )


WORDS = {"file": "config.json", "table": "a library's table", "documented": "its documentation", "memory": "unverified"}


def by_id(name: str, facts: Facts | None = None) -> Fact[Model] | None:
    """The catalogue's row for `name`, its id or an alias in any case; None where there is none."""
    key = name.strip().lower()
    found = ids().get(key) or aliases().get(key)
    if found is None:
        return None
    row = row_of(found)
    source = f"built-in catalogue ({WORDS.get(row['confidence'], row['confidence'])})"
    if not row["trusted"]:
        source += f"; doubtful: {row.get('doubts', 'unchecked')}"
    return Fact(catalogued(found), source, bool(row["trusted"]))


def source(name: str) -> str | None:
    """Where the catalogue has a row from: a file of a repository at a revision, a table of a library's release."""
    found = ids().get(name.lower()) or aliases().get(name.lower())
    return _sources()[row_of(found)["source"]] if found else None


def nearest(name: str) -> list[str]:
    """Ids that look like `name`, the likeliest first; for "did you mean"."""
    import difflib  # here: only a mistake needs it

    wanted = name.strip().lower()
    close = difflib.get_close_matches(wanted, ids(), 3, 0.75)
    if not close and "/" not in wanted:
        tails = {one.rpartition("/")[2]: one for one in ids()}
        close = [tails[one] for one in difflib.get_close_matches(wanted, tails, 3, 0.75)]
    return [ids()[one] for one in close]


def aliases_of(name: str) -> list[str]:
    """The other ids of a row's model, in lower case."""
    return [alias for alias, row in aliases().items() if row == name]
