"""The objects of one kind, within a limit of bytes. An object above it is unknown: it exists, and no more is known.

Unknown objects are counted per namespace. If all objects together exceed the limit of their kind, those of the largest
namespace become unknown. So an author of many objects hides no others.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from podfit.kube.path import mapping
from podfit.kube.snapshot import JSON, Key, WatchedKind, key

ENTRY = 256
"""Bytes of an object's key and of its places in dictionaries, about (sys.getsizeof)."""
MAX_INTERNED = 128
"""Characters: only shorter texts are kept once. Names and values of labels have at most 63."""

log = logging.getLogger(__name__)


class Store:
    """The reduced objects of one kind. Not safe for threads."""

    def __init__(self, kind: WatchedKind) -> None:
        self._kind = kind
        self.objects: dict[Key, JSON] = {}
        """The known objects, reduced."""
        self.unknown_objects = set[Key]()
        """Objects that are too large, or can't be read; without those of namespaces that do not fit."""
        self.digest = 0
        """Equal for equal objects, in whatever order they came."""
        self._bytes = Counter[str]()
        """Namespace ("" if the kind has none) → bytes of its objects with their keys."""
        self._total = 0
        """Bytes of all namespaces."""
        self._dropped = Counter[str]()
        """Namespace that does not fit → number of its objects."""

    @property
    def is_dropped(self) -> bool:
        """True if nothing is known of the kind: its objects have no namespace and are too many together."""
        return not self._kind.namespaced and bool(self._dropped)

    @property
    def unknown(self) -> Mapping[str, int]:
        """Namespace ("" if the kind has none) → number of its unknown objects."""
        return Counter(namespace for namespace, _ in self.unknown_objects) + self._dropped

    def add(self, obj: JSON, *, is_new: bool = True, previous: Mapping[Key, JSON] | None = None) -> bool:
        """Keeps the used fields of an object, or counts it as unknown. Returns True if anything changed, even if only
        a count did.

        `is_new`: False for a change of an object that was added before. `previous`: objects of another store; an equal
        one is used again, so that a new list takes no memory for it.
        """
        name = key(obj)
        try:
            kept = _interned(self._kind.keep(obj))
            text = _text(self._kind, name, kept)
        except Exception as error:  # nested too deep, or a bug: one odd object makes only itself unknown
            log.debug("%s %s: %s", self._kind.name, name, type(error).__name__)
            return self.add_unknown(mapping(obj.get("metadata")), is_new=is_new)
        if len(text) > self._kind.max_object:
            return self.add_unknown(mapping(obj.get("metadata")), is_new=is_new)
        if self.objects.get(name) == kept:
            return False
        if self._counts_only(name, is_new):
            return True
        self._discard(name)
        earlier = previous.get(name) if previous else None
        self.objects[name] = earlier if earlier is not None and earlier == kept else kept
        self.digest ^= _digest(text)  # XOR, so that the order does not matter, and a removal undoes it
        self._charge(name[0], size_of(self.objects[name]))
        return True

    def add_unknown(self, metadata: JSON, *, is_new: bool = True) -> bool:
        """Counts an object, of which `metadata` is known, as unknown. Returns True if anything changed.

        `is_new`: False for a change of an object that was added before."""
        name = key({"metadata": metadata})
        if name in self.unknown_objects:
            return False
        if self._counts_only(name, is_new):
            return True
        self._discard(name)
        self.unknown_objects.add(name)
        self._charge(name[0], 0)
        return True

    def remove(self, metadata: JSON) -> bool:
        """Forgets a deleted object. Returns True if anything changed; False if it was not here."""
        name = key({"metadata": metadata})
        if name[0] in self._dropped:
            self._dropped[name[0]] -= 1
            return True
        return self._discard(name)

    def _counts_only(self, name: Key, is_new: bool) -> bool:
        """True if the object's namespace does not fit, so that it is not stored; a new one is then counted."""
        namespace, _ = name
        if namespace not in self._dropped:
            return False
        if is_new:
            self._dropped[namespace] += 1
        return True

    def _discard(self, name: Key) -> bool:
        """Removes a known or unknown object with its bytes and its part of the digest. True if it was there."""
        if name in self.unknown_objects:
            self.unknown_objects.remove(name)
            self._count(name[0], -ENTRY)
            return True
        kept = self.objects.pop(name, None)
        if kept is None:
            return False
        self.digest ^= _digest(_text(self._kind, name, kept))
        self._count(name[0], -size_of(kept) - ENTRY)
        return True

    def _count(self, namespace: str, size: int) -> None:
        """Adds bytes to those of a namespace; a negative `size` subtracts."""
        self._bytes[namespace] += size
        self._total += size

    def _charge(self, namespace: str, size: int) -> None:
        """Counts `size` bytes of an object, and those of its key; above the limit of the kind, the objects of the
        largest namespaces become unknown. A kind without namespaces has one, named ""."""
        self._count(namespace, size + ENTRY)
        while self._total > self._kind.max_bytes:
            largest = max(self._bytes, key=self._bytes.__getitem__)
            names = [name for name in (*self.objects, *self.unknown_objects) if name[0] == largest]
            for name in names:
                self._discard(name)
            self._total -= self._bytes.pop(largest)  # nothing is left of it
            self._dropped[largest] = len(names)
            log.warning(
                "%s take more than %d MiB: the %d%s are not known until the next list",
                self._kind.name, self._kind.max_bytes >> 20, len(names), f" of namespace {largest}" if largest else "",
            )  # fmt: skip


def size_of(value: Any) -> int:
    """Bytes of a JSON value in memory, with all values in it. A text that several values share is counted for each."""
    size = sys.getsizeof(value)
    if isinstance(value, Mapping):
        return size + sum(size_of(name) + size_of(inner) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return size + sum(map(size_of, value))
    return size


def _text(kind: WatchedKind, name: Key, kept: JSON) -> str:
    """An object as JSON, for its digest and its length: equal for equal objects, whatever the order of their fields."""
    return json.dumps([kind.name, name, kept], sort_keys=True, default=list)


def _digest(text: str) -> int:
    """64 bits of SHA-256. Unlike `hash`, it is the same in every process, so that replicas agree."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _interned(value: Any) -> Any:
    """A copy of the value with each short text kept once: labels and names repeat on every node."""
    if isinstance(value, str):
        return sys.intern(value) if len(value) < MAX_INTERNED else value
    if isinstance(value, Mapping):
        return {_interned(name): _interned(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_interned, value))
    return value
