"""One document of a stream: what it is made of, where that stands, and how large it may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.path import FieldPath

MAX_NODES = 1_000_000
"""Scalars, lists and objects of one document, aliases expanded; each 64 characters of a text count as one more."""
MAX_DEPTH = 256
"""Lists and objects in each other. Kubernetes' own objects stay below 50; Python's recursion limit is 1000."""
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
TOO_MANY = f"more than {MAX_NODES:,} values (or {MAX_NODES >> 14} MiB of text), aliases expanded"


class BrokenError(Exception):
    """This document can't be read: `args` are the line (from 0) and the reason."""


@dataclass(frozen=True)
class Mark:
    """Where something stands in a file; lines and columns from 1, columns in characters."""

    line: int
    column: int
    end_line: int
    end_column: int
    """The column after the last character."""


@dataclass(frozen=True)
class Part:
    """One document of a stream, or why it can't be read."""

    index: int
    line: int
    value: Any = None
    duplicates: tuple[tuple[int, FieldPath], ...] = ()
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    """Place → line of its key or, in a list, of the item."""
    keys: Mapping[tuple[str | int, ...], Mark] = field(default_factory=dict)
    values: Mapping[tuple[str | int, ...], Mark] = field(default_factory=dict)
    texts: frozenset[tuple[str | int, ...]] = frozenset()
    """The values that are no lists and no objects."""
    error: str = ""
