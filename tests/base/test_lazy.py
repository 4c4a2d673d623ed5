"""Attributes that are computed when they are first read."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, dataclass
from threading import Barrier, Thread
from typing import Any

import pytest

from podfit.base.lazy import cached_property, regex


def _made() -> Any:
    @dataclass(frozen=True)
    class Word:
        text: str
        computed = 0

        @cached_property
        def length(self) -> int:
            """Characters."""
            Word.computed += 1
            return len(self.text) or 1 // 0

    return Word


def test_a_value_is_computed_once_per_object() -> None:
    word = _made()
    one, other = word("abc"), word("ab")

    assert [one.length, one.length, other.length, one.length] == [3, 3, 2, 3]
    assert word.computed == 2
    assert word.length.__doc__ == "Characters."


def test_an_error_is_not_cached() -> None:
    one = _made()("")

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            _ = one.length
    assert type(one).computed == 2


def test_a_cached_value_is_no_part_of_a_frozen_object() -> None:
    word = _made()
    one, other = word("abc"), word("abc")

    assert one.length == 3
    assert (one, hash(one), repr(one)) == (other, hash(other), repr(other))
    with pytest.raises(FrozenInstanceError):
        one.text = "b"


def test_objects_do_not_wait_for_each_other() -> None:
    """The first two reads meet in the function: with a lock per attribute, one would wait for the other."""
    both = Barrier(2, timeout=10)

    class Slow:
        @cached_property
        def value(self) -> int:
            return both.wait()

    values: list[int] = []
    threads = [Thread(target=lambda: values.append(Slow().value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(values) == [0, 1]


def test_a_regular_expression_is_compiled_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_ = re.compile

    def counted(text: str, flags: int) -> re.Pattern[str]:
        compiled.append(text)
        return compile_(text, flags)

    monkeypatch.setattr(re, "compile", counted)
    word = regex(r"(\w)\w*", re.ASCII)
    assert (word.pattern, compiled) == (r"(\w)\w*", [])
    assert word.findall("a few wörds") == ["a", "f", "w", "r"]
    assert (word.sub(".", "a b"), word.groups, word.match("é"), word.flags) == (". .", 1, None, re.ASCII)
    assert compiled == [r"(\w)\w*"] * 2, "an attribute that is seldom read compiles it again"


def test_a_wrong_regular_expression_raises_at_its_first_use() -> None:
    with pytest.raises(re.error):
        regex("(").search("a")


def test_a_regular_expression_of_bytes() -> None:
    assert regex(rb"\d").findall(b"1 of 12") == [b"1", b"1", b"2"]
