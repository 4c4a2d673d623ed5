"""The words that a mistaken word was probably meant to be: "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 100
"""Characters of a word that is compared: difflib takes a microsecond for each, and no name that is known has more."""


def nearest(word: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """At most so many of the known words, the likeliest first (`difflib.get_close_matches`); none for a longer word
    than any of them."""
    if len(word) > LONGEST:
        return []
    from difflib import get_close_matches  # here, because only a mistake needs it, and a start would wait for it

    return get_close_matches(word, list(known), most, cutoff)
