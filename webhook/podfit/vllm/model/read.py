"""Helpers to read a config.json with arbitrary content: invalid values count as absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def integer(value: object) -> int | None:
    """The value if it is a whole number from 0 on, and not a bool; else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def first_integer(config: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """The first of `keys` with a positive number; a list with the same number for every layer counts as one."""
    return next((value for key in keys if (value := integer(_single_value(config.get(key))))), None)


def _single_value(value: object) -> object:
    """A list whose items are all equal as that one item; other values as they are."""
    alike = isinstance(value, list) and value and all(item == value[0] for item in value)
    return value[0] if alike and isinstance(value, list) else value


def text_of(value: object) -> str | None:
    """The value if it is a text with characters; else None."""
    return value if isinstance(value, str) and value else None


def strings(value: object) -> tuple[str, ...]:
    """The texts in a list; empty for anything else."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def mapping(value: object) -> Mapping[str, Any] | None:
    """The value if it is an object with keys; else None."""
    return value if isinstance(value, Mapping) and value else None


def attention_of(block: object) -> Mapping[str, Any]:
    """The `attention` of a block of a NAS model; empty if it has none."""
    value = block.get("attention") if isinstance(block, Mapping) else None
    return value if isinstance(value, Mapping) else {}
