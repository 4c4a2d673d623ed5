"""A regular expression → words of which every match contains one: most lines need no search at all.

A log of 30 MB has hundreds of thousands of lines, and podfit knows hundreds of texts. `Index` answers which of its
patterns a line can match, from the literal words in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

LEAST = 3
"""Characters of a needle, and of the pieces by which it is looked up: shorter ones are in too many lines."""
_TOKEN = re.compile(
    r"(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?(?:P<\w+>|[:=!]|<[=!])?)?)|(?P<close>\))|(?P<or>\|)|"
    r"(?P<escape>\\[AbBdDsSwWZ\d])|\\(?P<quoted>.)|(?P<wild>[.^$])|(?P<plain>.)",
    re.DOTALL,
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(?P<least>\d*)(?:,\d*)?\})[?+]?")
Needles = frozenset[str] | None
"""Texts without digits; None if a match may contain none of them."""


def needles(pattern: str) -> Needles:
    """Texts of which each match of `pattern` contains at least one."""
    return _alternatives(pattern, 0)[0]


def is_anchored(pattern: str) -> bool:
    """True if each match of `pattern` begins where the text does: `re.match` then finds what `re.search` does, and does
    not try the other places."""
    depth, at = 0, 0
    while (token := _TOKEN.match(pattern, at)) is not None:
        at, kind = token.end(), token.lastgroup
        depth += (kind == "open") - (kind == "close")
        if kind == "or" and not depth:
            return False
    return pattern.startswith("^")


def _alternatives(pattern: str, at: int) -> tuple[Needles, int]:
    """The needles of the alternatives from `at` up to the group's end, and where that is. None as the needles if one of
    the alternatives has none."""
    names: Needles = frozenset()
    while True:
        branch, at, ends = _branch(pattern, at)
        names = None if names is None or branch is None else names | branch
        if ends:
            return names, at


def _branch(pattern: str, at: int) -> tuple[Needles, int, bool]:
    """The best needles of one alternative, where it ends, and whether its group ends there too."""
    candidates: list[frozenset[str]] = []
    run = ""
    while (token := _TOKEN.match(pattern, at)) is not None:
        at = token.end()
        kind, group = token.lastgroup, None
        if kind == "open":
            group, at = _alternatives(pattern, at)
            group = None if token["open"][2:] in ("=", "!", "<=", "<!") else group
        quantifier = _QUANTIFIER.match(pattern, at) if kind not in ("or", "close") else None
        at = quantifier.end() if quantifier else at
        optional = quantifier is not None and (quantifier[0][0] in "*?" or quantifier["least"] in ("", "0"))
        text = token["plain"] or token["quoted"] or ""
        run += text if not optional and not text.isdigit() else ""
        if group and not optional:
            candidates.append(group)
        if quantifier or not text or text.isdigit():
            candidates.append(frozenset({run}))
            run = ""
        if kind in ("or", "close"):
            return _best(candidates), at, kind == "close"
    return _best([*candidates, frozenset({run})]), at, True


def _best(candidates: Sequence[frozenset[str]]) -> Needles:
    """The candidate whose shortest needle is the longest."""
    best = max(candidates, key=lambda needles: min(map(len, needles)), default=frozenset({""}))
    return best if min(map(len, best)) >= LEAST else None


class Index:
    """An index of many patterns that finds those that a line can match."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """`patterns`: regular expressions without flags."""
        self._places: dict[str, list[int]] = {}
        self._always: list[int] = []
        for place, pattern in enumerate(patterns):
            words = needles(pattern)
            if words is None:
                self._always.append(place)
            for word in words or ():
                self._places.setdefault(word, []).append(place)
        counts = Counter(gram for word in self._places for gram in _grams(word))
        self._words: dict[tuple[str, str, str], list[str]] = {}
        for word in self._places:
            self._words.setdefault(min(sorted(_grams(word)), key=counts.__getitem__), []).append(word)

    def candidates(self, text: str) -> list[int]:
        """The places of the patterns that `text` may match, in their order: all others it does not match."""
        places = set(self._always)
        for gram in self._words.keys() & _grams(text):
            for word in self._words[gram]:
                if word in text:
                    places.update(self._places[word])
        return sorted(places)


def _grams(text: str) -> set[tuple[str, str, str]]:
    """The pieces of `LEAST` characters, each as a tuple of them."""
    return set(zip(text, text[1:], text[2:], strict=False))
