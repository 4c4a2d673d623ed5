"""Attributes that are computed when they are first read, and regular expressions that are compiled then."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, AnyStr, Generic, Self, TypeVar, cast, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - as functools has it
    """`functools.cached_property` without the lock of Python 3.11, which all instances of a class share: the review of
    a large object would hold up those of all others. Python 3.12's has none."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """The value, computed at the first access and then an attribute of the instance; on the class, this object."""
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled at its first use, not at import: a command uses few of the 300."""
    return cast("re.Pattern[AnyStr]", _Regex(pattern, flags))


class _Regex:
    """A regular expression until it is used; then its attributes are those of the compiled one."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile at the first access; from then on the pattern's methods are attributes of this object."""
        compiled = re.compile(self.pattern, self._flags)
        for attribute in ("match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn", "groups"):
            self.__dict__[attribute] = getattr(compiled, attribute)
        return getattr(compiled, name)
