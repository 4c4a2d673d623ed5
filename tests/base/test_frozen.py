"""Values that never change, and what is kept of them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from podfit.base import frozen


def _made() -> Any:
    @frozen.frozen(slots=False)
    class Word:
        text: str
        asked = 0

        @frozen.kept
        def length(self) -> int:
            """Characters."""
            Word.asked += 1
            return len(self.text) or 1 // 0

    return Word


def test_what_is_kept_is_asked_once_of_each() -> None:
    word = _made()
    one, other = word("abc"), word("ab")

    assert [one.length, one.length, other.length, one.length] == [3, 3, 2, 3]
    assert word.asked == 2
    assert word.length.__doc__ == "Characters."


def test_an_error_is_not_kept() -> None:
    one = _made()("")

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            _ = one.length
    assert type(one).asked == 2


def test_what_is_kept_is_no_part_of_the_value() -> None:
    word = _made()
    one, other = word("abc"), word("abc")

    assert one.length == 3
    assert (one, hash(one), repr(one)) == (other, hash(other), repr(other))


def test_a_guarded_value_keeps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "GUARDED", True)
    one = _made()("abc")

    with pytest.raises(FrozenInstanceError):
        one.text = "b"
    assert one.length == one.length == 3
