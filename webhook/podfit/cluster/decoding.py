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
T = TypeVar("T")


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
    """The `metadata` of a list; `take` gets each of its objects.

    Raises UnreadableError, after `take` may have had some of the objects; ValueError if the text is not a list.
    """

    def read(cursor: _Cursor, _: JSON) -> None:
        for obj in cursor.values():
            take(mapping(obj))

    return mapping(_fields(text, "items", "metadata", read).get("metadata"))


def event(text: bytes, take: Callable[[str, JSON], T]) -> T | None:
    """The result of `take` for the type and the object of a watch's line; None without an object. Raises as `page`."""

    def read(cursor: _Cursor, text_before: JSON) -> T:
        return take(str(text_before.get("type")), mapping(cursor.value()))

    taken: T | None = _fields(text, "object", "type", read).get("object")
    return taken


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a watch, each with at most one byte more than can be decoded. A line without an end is left out:
    the connection broke."""
    line = bytearray()
    for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for piece in ends:
            line += piece[: MAX_BYTES + 1 - len(line)]
            if line.strip():
                yield bytes(line)
            line.clear()
        line += rest[: MAX_BYTES + 1 - len(line)]


def _fields(text: bytes, large: str, first: str, read: Callable[[_Cursor, JSON], Any]) -> JSON:
    """The fields of an object. `read` gets those before the one named `large`, among them `first`, and reads it. Raises
    ValueError if the object has no field `first`, UnreadableError if the large one cannot be read whole."""
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
    """The fields before the one named `large`, and the `metadata` of the first object in that one."""
    fields: dict[str, Any] = {}
    with suppress(ValueError, RecursionError, MemoryError):
        cursor = _Cursor(text[:MAX_BYTES])
        for key in cursor.keys():  # noqa: SIM118 - not a dict
            if key != large:
                fields[key] = cursor.value()
                continue
            cursor.passes("[")
            for name in cursor.keys():  # noqa: SIM118 - not a dict
                value = cursor.value()
                if name == "metadata":
                    return fields, mapping(value)
    return fields, {}


class _Cursor:
    """A place in a JSON text, which moves over a value at a time. Raises ValueError where another one is expected."""

    def __init__(self, text: bytes) -> None:
        self._text, self._at = text.decode("utf-8", "replace"), 0
        self._decode = json.JSONDecoder(object_pairs_hook=without_unused).raw_decode

    def passes(self, char: str) -> bool:
        """Moves over the character, if it comes next."""
        self._pass_space()
        there = self._text.startswith(char, self._at)
        self._at += there
        return there

    def value(self) -> Any:
        """Read the next JSON value of any type."""
        self._pass_space()
        value, self._at = self._decode(self._text, self._at)
        return value

    def keys(self) -> Iterator[str]:
        """The keys of an object; the caller reads the value after each."""
        self._expect("{")
        more = not self.passes("}")
        while more:
            key = self.value()
            self._expect(":")
            yield str(key)
            if not (more := self.passes(",")):
                self._expect("}")

    def values(self) -> Iterator[Any]:
        """The values of a list; Go writes an empty one as null."""
        if not self.passes("["):
            if self.value() is not None:
                raise ValueError("not a list")
            return
        more = not self.passes("]")
        while more:
            yield self.value()
            if not (more := self.passes(",")):
                self._expect("]")

    def _expect(self, char: str) -> None:
        if not self.passes(char):
            raise ValueError(f"no {char} at {self._at}")

    def _pass_space(self) -> None:
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space else self._at
