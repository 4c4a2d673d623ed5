"""What a checkpoint's parameter count proves of a collected row: the formulas of `webhook.memory` against the count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.memory import shape, tower
from webhook.model import from_config

EXACT = 0.002
"""Norms and biases, which the formulas leave out, are less."""
OWN = ("own formula", "its own estimate", "of the unquantised architecture")
"""Notes on rows whose count was computed and not counted."""


def counted(row: Mapping[str, Any]) -> int | None:
    """The row's number of parameters, where somebody counted them: nothing is proved by a number made of the shape."""
    if any(word in note for note in row.get("notes") or () for word in OWN):
        return None
    parameters: int | None = row["parameters"]
    return parameters


def misses(config: Mapping[str, Any], parameters: int, *, complete: bool) -> float | None:
    """How far the formulas are off the count, relative; with multi-token-prediction layers or without, whichever the
    checkpoint holds. None where the layers are not described."""
    model = from_config("row", config, complete=complete)
    found = shape.of(model)
    if found is None or not found.known:
        return None
    plain = found.elements + tower.parameters(model)
    return min(abs(one - parameters) / parameters for one in (plain, plain + found.extra))


def proved(row: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether the count settles what is doubtful of the row's sizes. It says nothing of lengths, so what somebody
    remembered stays doubtful; nor of quantised rows, whose words are packed."""
    parameters = counted(row)
    if not parameters or row["confidence"] not in ("file", "table") or row.get("memory_keys"):
        return False
    if any("quantization_config" in one for one in (config, *(v for v in config.values() if isinstance(v, Mapping)))):
        return False
    complete = row["confidence"] == "file"
    off = misses(config, parameters, complete=complete)
    return (
        off is not None
        and off <= EXACT
        and from_config("row", config, complete=complete).max_position_embeddings is not None
    )


def with_ties(row: Mapping[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """The config with `tie_word_embeddings` as the count says, where the collector inferred it without the tower."""
    inferred = any(note.startswith("tie_word_embeddings inferred") for note in row.get("notes") or ())
    parameters = counted(row)
    if not inferred or not parameters:
        return config
    options = [_tied(config, tie) for tie in (True, False)]
    off = [misses(one, parameters, complete=False) for one in options]
    if off[0] is None or off[1] is None or min(off[0], off[1]) > EXACT:
        return config
    return options[0] if off[0] < off[1] else options[1]


def _tied(config: Mapping[str, Any], tie: bool) -> dict[str, Any]:
    nested = {key: {**value, "tie_word_embeddings": tie} for key, value in config.items() if key == "text_config"}
    return {**config, **nested, "tie_word_embeddings": tie}
