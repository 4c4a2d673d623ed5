"""One document of a stream: its keys and values, their positions, and how large it may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podfit.kube.path import FieldPath

Path = tuple[str | int, ...]
MAX_NODES = 1_000_000
"""Scalars, lists and objects of one document, aliases expanded; each 64 characters of a text count as one more."""
MAX_DEPTH = 256
"""Lists and objects in each other. Kubernetes' own objects stay below 50; Python's recursion limit is 1000."""
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
TOO_MANY = f"more than {MAX_NODES:,} values (or {MAX_NODES >> 14} MiB of text), aliases expanded"


class BrokenError(Exception):
    """This document can't be read: `args` are the line (from 0) and the reason."""


class Mark(NamedTuple):
    """A position in a file; lines and columns from 1, columns in characters."""

    line: int
    column: int
    end_line: int
    end_column: int
    """The column after the last character."""


@dataclass(frozen=True)
class Part:
    """One document of a stream, or why it can't be read."""

    index: int
    """Its place in the stream, from 0; empty documents count."""
    line: int
    """The line at which it begins, or at which its error is; from 1."""
    value: Any = None
    """None for an empty or a broken document."""
    duplicates: tuple[tuple[int, FieldPath], ...] = ()
    """(line from 1, path) of each key that occurs again in its object."""
    first: int = 0
    """The line (from 0) of the file from which libyaml counted, where it read on behind a broken document."""
    keys: Mapping[Path, Any] = field(default_factory=dict)
    """Place → libyaml's event of its key."""
    values: Mapping[Path, tuple[Any, Any]] = field(default_factory=dict)
    """Place → the events that begin and end the value; both are the same if it is neither a list nor an object."""
    error: str = ""
    """Why it can't be read, in one line; empty if it can."""
    has_placeholders: bool = False
    """True if it is YAML only after envsubst has replaced its `${NAME}`."""

    def line_of(self, path: Path) -> int | None:
        """The line of the key or, in a list, of the item at `path`; None if nothing is there."""
        key = self.keys.get(path)
        if key is None:
            key, _ = self.values.get(path, (None, None))
        return None if key is None else self._mark(key, key).line

    def key_at(self, path: Path) -> Mark | None:
        """The position of the key of `path`, if it has one."""
        key = self.keys.get(path)
        return None if key is None else self._mark(key, key)

    def value_at(self, path: Path) -> Mark | None:
        """The position of the value of `path`; None if nothing is there."""
        return self._mark(*self.values[path]) if path in self.values else None

    def is_text(self, path: Path) -> bool:
        """True if the value at `path` is neither a list nor an object; False if nothing is there."""
        begins, ends = self.values.get(path, (None, None))
        return begins is not None and begins is ends

    def _mark(self, begins: Any, ends: Any) -> Mark:
        """The position in the file from the begin of one libyaml event to the end of another. libyaml counts from 0 and
        from the line `first`."""
        start, end, first = begins.start_mark, ends.end_mark, self.first + 1
        return Mark(start.line + first, start.column + 1, end.line + first, end.column + 1)
