"""Decodes what an API server sends, an object at a time, because an author of objects chooses their size and shape.

A decoded text takes up to forty times its size (a list in a list: two characters, 88 bytes). So a page is not decoded
whole: each object is reduced before the next one is decoded, and one thread decodes at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar

from podfit.kube.path import mapping

MAX_BYTES = 4 << 20
"""Bytes of a page or an event that are read. An object of 1.5 MiB (etcd's limit) with only `<` has 9 MiB of JSON."""
UNUSED = frozenset(("managedFields", "images", "conditions", "volumesAttached", "volumesInUse"))
"""Unused lists, most of a Node: dropped while the text is parsed."""

_SPACE = re.compile(r"[ \t\n\r]*")
_TURN = Lock()
"""One thread decodes at a time: the memory for it is needed once."""

JSON = Mapping[str, Any]
Taken = TypeVar("Taken")


class UnreadableError(Exception):
    """A page or an event that is too large or too deep. What its beginning says can be used."""

    def __init__(self, fields: JSON, metadata: JSON) -> None:
        super().__init__("too large or too deep to be decoded")
        self.fields = fields
        """The text's fields before its first object: `metadata` of a list, `type` of an event."""
        self.metadata = metadata
        """The first object's own; empty if it does not begin with it."""


def without_unused(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without the lists that nothing reads (`object_pairs_hook`)."""
    return {key: value for key, value in pairs if not (key in UNUSED and isinstance(value, list))}


def page(text: bytes, take: Callable[[JSON], object]) -> JSON:
    """The `metadata` of a list, empty if it has none; `take` gets each of its objects.

    Raises UnreadableError, after `take` may have had some of the objects; ValueError if the text is not a list. What
    `take` raises counts as an error of the text if it is a ValueError, RecursionError or MemoryError."""

    def read(cursor: _Cursor, _: JSON) -> None:
        for obj in cursor.values():
            take(mapping(obj))

    return mapping(_fields(text, "items", "metadata", read).get("metadata"))


def event(text: bytes, take: Callable[[str, JSON], Taken]) -> Taken | None:
    """The result of `take` for the type and the object of a watch's line; None without an object. Raises as `page`.

    `text`: {"type": "ADDED", "object": {…}}; API servers write the fields in this order."""

    def read(cursor: _Cursor, fields_before: JSON) -> Taken:
        return take(str(fields_before.get("type")), mapping(cursor.value()))

    taken: Taken | None = _fields(text, "object", "type", read).get("object")
    return taken


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a watch, without empty ones. A last line without a line break is left out: the connection broke.

    Of a longer line than MAX_BYTES, the first MAX_BYTES + 1 bytes are returned, so that `event` sees that it is too
    large."""
    longest = MAX_BYTES + 1
    line = bytearray()
    for chunk in chunks:
        *line_ends, beginning = chunk.split(b"\n")
        for line_end in line_ends:
            line += line_end[: longest - len(line)]
            if line.strip():
                yield bytes(line)
            line.clear()
        line += beginning[: longest - len(line)]


def _fields(text: bytes, large: str, first: str, read: Callable[[_Cursor, JSON], Any]) -> JSON:
    """The fields of the JSON object in `text`. Of the field named `large`, the value is what `read` returns.

    `read` gets the cursor before the value of `large`, which it must read, and the fields before it. Raises
    UnreadableError if the text is too large or can't be decoded, but has the field `first` before `large`. Without
    that field the text is not from an API server: raises ValueError."""
    fields: dict[str, Any] = {}
    with _TURN:
        try:
            if len(text) > MAX_BYTES:
                raise ValueError("too large")
            cursor = _Cursor(text)
            for key in cursor.keys():  # noqa: SIM118 - not a dict
                fields[key] = read(cursor, fields) if key == large else cursor.value()
        except (ValueError, RecursionError, MemoryError) as error:
            fields, metadata = _beginning(text, large)
            if first not in fields:
                raise ValueError("not the JSON of an API server") from error
            raise UnreadableError(fields, metadata) from None
    return fields


def _beginning(text: bytes, large: str) -> tuple[dict[str, Any], JSON]:
    """The fields before the one named `large`, and the `metadata` of the first object in that one.

    Reads until the text can't be decoded, and returns what came before: no metadata is {}."""
    fields: dict[str, Any] = {}
    with suppress(ValueError, RecursionError, MemoryError):
        cursor = _Cursor(text[:MAX_BYTES])
        for key in cursor.keys():  # noqa: SIM118 - not a dict
            if key != large:
                fields[key] = cursor.value()
                continue
            cursor.passes("[")  # a list of objects; the object of an event has no bracket
            for name in cursor.keys():  # noqa: SIM118 - not a dict
                value = cursor.value()
                if name == "metadata":
                    return fields, mapping(value)
    return fields, {}


class _Cursor:
    """A place in a JSON text, which moves over one value at a time. Its methods raise ValueError if the text at the
    place is not what they read."""

    def __init__(self, text: bytes) -> None:
        self._text, self._at = text.decode("utf-8", "replace"), 0
        self._decode = json.JSONDecoder(object_pairs_hook=without_unused).raw_decode

    def passes(self, char: str) -> bool:
        """True if the character comes next, after any white space; then moves over it."""
        self._pass_space()
        comes_next = self._text.startswith(char, self._at)
        if comes_next:
            self._at += len(char)
        return comes_next

    def value(self) -> Any:
        """Read the next JSON value of any type."""
        self._pass_space()
        value, self._at = self._decode(self._text, self._at)
        return value

    def keys(self) -> Iterator[str]:
        """The keys of an object. The caller must read the value after each, with `value` or `values`, before the next
        key."""
        self._expect("{")
        if self.passes("}"):
            return
        while True:
            key = self.value()
            self._expect(":")
            yield str(key)
            if not self.passes(","):
                break
        self._expect("}")

    def values(self) -> Iterator[Any]:
        """The values of a list; none for null, because Go writes an empty list so."""
        if not self.passes("["):
            if self.value() is not None:
                raise ValueError("not a list")
            return
        if self.passes("]"):
            return
        while True:
            yield self.value()
            if not self.passes(","):
                break
        self._expect("]")

    def _expect(self, char: str) -> None:
        """Moves over the character; raises ValueError if another one comes next."""
        if not self.passes(char):
            raise ValueError(f"no {char} at {self._at}")

    def _pass_space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
