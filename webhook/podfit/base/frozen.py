"""Small immutable values, of which one Pod makes hundreds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar, dataclass_transform, overload

T = TypeVar("T")

GUARDED = False
"""Python itself keeps the objects from change: a test sets it before the first of their classes is made."""


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, slots: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T] | None = None, /, *, slots: bool = True) -> Any:
    """A dataclass with slots whose objects never change and can be hashed; without slots for a class with what is
    `kept`.

    It is frozen for the type checker alone: Python's own guard (`frozen=True`) makes an object go through
    `object.__setattr__` for each field, which takes four times as long.
    """
    made = dataclass(slots=slots, unsafe_hash=True, frozen=GUARDED)
    return made if cls is None else made(cls)


class kept(Generic[T]):  # noqa: N801 - used as `property` is
    """`functools.cached_property` without its lock, which takes most of the time of a first access before Python 3.12.
    Two threads that ask at once may both compute the same value."""

    def __init__(self, of: Callable[[Any], T]) -> None:
        self.of = of
        self.__doc__ = of.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        found = self.of(instance)
        object.__setattr__(instance, self.name, found)  # asking for __dict__ would make one, slower than what it has
        return found
