"""Small immutable values, of which one Pod makes hundreds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")

GUARDED = False
"""Python itself keeps the objects from change: a test sets it before the first of their classes is made."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """A dataclass with slots whose objects never change and can be hashed.

    It is frozen for the type checker alone: Python's own guard (`frozen=True`) makes an object go through
    `object.__setattr__` for each field, which takes four times as long.
    """
    return dataclass(slots=True, unsafe_hash=True, frozen=GUARDED)(cls)
