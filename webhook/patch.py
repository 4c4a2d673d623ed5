"""Edits as rules yield them → one JSON Patch (RFC 6902)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from webhook.path import FieldPath


@dataclass(frozen=True)
class Edit:
    """A change as data: `set` a field (creating what is above it), `append` to a list (created where absent),
    `remove` a field."""

    path: FieldPath
    value: Any = None
    op: Literal["set", "append", "remove"] = "set"


def json_patch(obj: Any, edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """The smallest JSON Patch that makes `edits` on `obj`: missing parents are created once, an edit that changes
    nothing leaves nothing. A parent is created as a list where the next part is an int or the op is "append"."""
    raise NotImplementedError


def apply(obj: Any, patch: Iterable[dict[str, Any]]) -> Any:
    """`obj` with `patch` applied, as a new object; `obj` is not changed."""
    raise NotImplementedError
