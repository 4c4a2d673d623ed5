"""A dataclass of podfit behaves as Python's own."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from podfit.base.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "slots": True, "kw_only": True},
]


def _pair(make: Callable[..., Any], options: dict[str, bool]) -> type[Any]:
    class Pair:
        """Two numbers, a place that is not compared and a text that is not shown."""

        first: int
        second: int = 2
        place: str = dataclasses.field(default="", compare=False)
        text: str = dataclasses.field(default="", repr=False, hash=False)

    cls: type[Any] = make(**options)(Pair)
    return cls


def _single(make: Callable[..., Any], options: dict[str, bool]) -> type[Any]:
    class Single:
        """One number."""

        first: int

    cls: type[Any] = make(**options)(Single)
    return cls


def _hash(value: object) -> int | str:
    try:
        return hash(value)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", [_pair, _single])
def test_behaves_as_pythons_own(shape: Callable[..., type[Any]], options: dict[str, bool]) -> None:
    def behaviour(cls: type[Any]) -> list[object]:
        values = [cls(first=1), cls(first=1), cls(first=3)]
        if shape is _pair:
            values += [cls(first=1, place="here"), cls(first=1, text="a"), cls(first=1, second=5)]
        compared = [left == right for left in values for right in values]
        hashes = [_hash(value) for value in values] if options.get("eq", True) else []  # else of their addresses
        return [repr(values), compared, hashes, values[0] == object(), dataclasses.asdict(values[-1])]

    assert behaviour(shape(dataclass, options)) == behaviour(shape(dataclasses.dataclass, options))


def test_frozen_is_frozen() -> None:
    value = _pair(dataclass, {"frozen": True})(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.first = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del value.first


def test_a_subclass_has_its_fields_and_those_of_its_base() -> None:
    @dataclass(frozen=True)
    class Base:
        """No field."""

    @dataclass(frozen=True)
    class Limit(Base):
        """One field."""

        tokens: int = 5

    assert Base() == Base()
    assert hash(Base()) == hash(())
    assert Limit() != Base()
    assert Limit() == Limit(tokens=5)
    assert "Limit(tokens=5)" in repr(Limit())


def test_a_method_of_the_body_stays() -> None:
    @dataclass(frozen=True)
    class Secret:
        """A value that is not shown."""

        value: str

        def __repr__(self) -> str:
            return "Secret"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Secret)

    assert repr(Secret("hunter2")) == "Secret"
    assert Secret("hunter2") == Secret("password")
    assert hash(Secret("hunter2")) == hash(("hunter2",))  # as in Python: `__eq__` alone leaves it
