"""Whole numbers from outside, bounded where they come in, so that no later arithmetic or text of them can fail.

Python's integers have no bound, but conversion to float (from 309 digits) and to text (from 4,301) raise.
"""

from __future__ import annotations

import json
from typing import Any

from podfit.base.lazy import regex

LARGEST = (1 << 63) - 1
"""The value of larger numbers: none is intended, and a number that is too large stays too large."""
MAX_DIGITS = 4_300
"""Python's limit for the conversion of text (sys.int_info.default_max_str_digits)."""


def bounded(value: int) -> int:
    """The number, within int64."""
    return max(-LARGEST - 1, min(value, LARGEST))


def of_digits(text: str) -> int | None:
    """The number of a text of ASCII digits, within int64; None if it is another text."""
    if not (text.isascii() and text.isdigit()):
        return None
    return bounded(int(text)) if len(text) <= MAX_DIGITS else LARGEST


def from_json(text: str) -> Any:
    """`json.loads` with bounded numbers; raises ValueError as that does, also for more than 4,300 digits."""
    return json.loads(text, parse_int=lambda digits: bounded(int(digits)))


_LONG = regex(r"\d[\d,_]{15,}\d")


def without_long_numbers(text: str) -> str:
    """Return a log's text with "…" for each number of more than 16 digits: no count, size or time has so many."""
    return _LONG.sub("…", text) if _LONG.search(text) else text
