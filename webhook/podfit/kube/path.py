"""A place in a Kubernetes object, with both of its spellings.

`spec.template.spec.containers[0].args[3]` is how Kubernetes' own errors write it (`k8s.io/apimachinery
pkg/util/validation/field`), `/spec/template/spec/containers/0/args/3` is how JSON Patch does (RFC 6901).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

from podfit.base.lazy import regex

_PLAIN = regex(r"[A-Za-z_][A-Za-z0-9_-]*")
_TOKEN = regex(r"\.?([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+)\]|\[([^\]]+)\]")


class FieldPath(NamedTuple):
    """A path of object keys (`str`) and list indices (`int`); `FieldPath() / "spec" / 0` builds one."""

    parts: tuple[str | int, ...] = ()

    def __truediv__(self, part: str | int) -> FieldPath:
        return FieldPath((*self.parts, part))

    def join(self, *parts: str | int) -> FieldPath:
        """This path, continued by `parts`."""
        return FieldPath((*self.parts, *parts))

    def items(self, count: int) -> Sequence[FieldPath]:
        """The places of the items of a list at this path, the first `count` of them or more. Those of short lists are
        remembered, because most containers are where others are."""
        parts = self.parts
        if count <= _FEW and _is_common(parts):
            return _first_items(parts)
        return [FieldPath((*parts, index)) for index in range(count)]

    def __str__(self) -> str:
        out = ""
        for part in self.parts:
            if isinstance(part, int) or not ((part.isidentifier() and part.isascii()) or _PLAIN.fullmatch(part)):
                out += f"[{part}]"
            else:
                out += f".{part}" if out else part
        return out

    def pointer(self) -> str:
        """The JSON Pointer (RFC 6901) of this place."""
        return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.parts)

    @classmethod
    def parse(cls, text: str) -> FieldPath:
        """Reads a path in Kubernetes' notation; raises ValueError if `text` is not one.

        `[7]` is read as an index: the notation does not distinguish it from a key of digits.
        """
        parts: list[str | int] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"{text!r} is not a field path: unexpected {text[at:]!r}")
            key, index, quoted = match.groups()
            parts.append(int(index) if index is not None else key or quoted)
            at = match.end()
        return cls(tuple(parts))

    def get(self, obj: Any, default: Any = None) -> Any:
        """The value at this place of `obj`, or `default` if the place does not exist."""
        return value_at(obj, self.parts, default)


_FEW, _FIRST, _SHORT = 32, 4, 256
"""Items of a list whose places are remembered; the highest index, and the characters of the keys, on the way to it. A
choice: arguments and containers fit, and no author can fill the memory with long keys."""


def _is_common(parts: Sequence[str | int]) -> bool:
    """True if other objects probably have a list at this path, too: it has short keys and low indices."""
    characters = 0
    for part in parts:
        if isinstance(part, str):
            characters += len(part)
        elif part > _FIRST:
            return False
    return characters <= _SHORT


@lru_cache(256)  # most containers are where others are
def _first_items(parts: tuple[str | int, ...]) -> Sequence[FieldPath]:
    """The places of the first _FEW items of a list at this path."""
    return tuple([FieldPath((*parts, index)) for index in range(_FEW)])


def value_at(obj: Any, parts: Sequence[str | int], default: Any = None) -> Any:
    """The value in `obj` at the place of these parts, or `default` if the place does not exist."""
    for part in parts:
        exists = part in obj if isinstance(obj, dict) else has_child(obj, part)
        if not exists:
            return default
        obj = obj[part]
    return obj


def has_child(value: object, part: str | int) -> bool:
    """True if a list has this index or an object this key; False for other values."""
    if isinstance(value, list):
        return part in range(len(value))
    return is_object(value) and part in value


def is_object(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """True if `value` is a mapping. The abstract class is asked last, since it takes ten times as long to answer."""
    return isinstance(value, dict) or (value is not None and isinstance(value, Mapping))


def group_and_kind(obj: Mapping[Any, Any]) -> tuple[str, str]:
    """The object's API group (empty for the core group) and kind."""
    return str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")


def mappings(value: object) -> list[Mapping[Any, Any]]:
    """The objects in a list; none if the value is not a list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def strings(value: object) -> list[str]:
    """The texts in a list; none if the value is not a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def mapping(value: object) -> Mapping[Any, Any]:
    """`value` if it is an object, otherwise an empty one, since a manifest may contain any value."""
    if isinstance(value, dict):
        return value
    return {} if value is None or not isinstance(value, Mapping) else value
