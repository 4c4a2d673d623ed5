"""Words of an object that a text about it must not quote. The origin of a word decides, not its look."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from podfit.base.lazy import cached_property, regex

Span = tuple[int, int]
_WORD = regex(r"\w+(?:[-.+~%^]+\w+)*")
"""A word, or several joined as in `config.json`, `flash-attn`, `a.b-c`."""
_PART = regex(r"[a-z0-9]+")
_ORDINARY = regex(r"[A-Za-z]?[a-z]{0,15}|[A-Z]{1,6}s?|[vV]?\d[\d.,]*[A-Za-z]{0,3}")
"""A word of prose, an abbreviation, a number with its unit, or a version: a text may have it by itself."""
_COMMON = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null", "auto", "default"})
_NUMBER = regex(r"\d[\d.,]*")
_QUANTITY = regex(r"v?\d[\d.,]*[a-z]{0,2}")
_ESCAPE = regex(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[abfnrtv0]")
"""The characters after the backslash of a control character in a quoted text."""
_ESCAPED = regex(rf"(?<=\\)(?:{_ESCAPE.pattern})(\w*(?:[-.+~%^]+\w+)*)")
"""The rest of a word that begins with such a character."""
_OPENING = regex(r"(?<![\w\\])['\"`]|\bValue (?=\S)")
"""A quotation mark before a word. argparse quotes the value of a JSON argument without marks."""
_VALUE_END = " cannot be converted to "
_VERBATIM = regex(
    r"[$<>]\((?:[^()]|\([^()]*\))*+|\$\{[^}]*|(?<=unrecognized arguments: )(?:(?!\. )[^\n;])+"  # of argparse
)
"""Text of the object as it is: what a shell substitutes, and what argparse prints without quotation marks."""
_SHORTEST = 4
"""Characters from which a part of a word is recognized outside of quotation marks."""
_CANONICAL = str.maketrans({**{chr(code): chr(code + 32) for code in range(65, 91)}, "_": "-"})


def canonical(text: str) -> str:
    """Return `text` of the same length in lower case with dashes for underscores, as programs print names."""
    return text.lower().replace("_", "-") if text.isascii() else text.translate(_CANONICAL)


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of all texts and their parts, in canonical form."""
    text = "\0".join(set(texts))  # the keys of a Pod repeat
    words = set(canonical("\0".join(_matches(_WORD, text))).split("\0"))
    words |= _matches(_PART, "\0".join([word for word in words if not (word.isalnum() and word.isascii())]))
    if "\\" in text:
        words.update(map(canonical, _matches(_ESCAPED, text)))
    words.discard("")
    return frozenset(words)


def _matches(pattern: re.Pattern[str], text: str) -> set[str]:
    """Return the different matches, of the group if there is one. A list of all in 3 MiB would take 100 MiB."""
    return set(map(itemgetter(pattern.groups), pattern.finditer(text)))


@dataclass(frozen=True)
class Quotable:
    """The words that may be quoted of an object, and those that must not be."""

    private: frozenset[str] = frozenset()
    """The words of scripts, headers, annotations and of all other texts. Some may be public, too."""
    make_public: Callable[[], frozenset[str]] = frozenset
    """Make `public`, which a text without private words does not need."""

    @cached_property
    def public(self) -> frozenset[str]:
        """The words of names, paths, label values and of what else may be quoted. Such a word is never hidden."""
        return self.make_public()

    @cached_property
    def _hidden(self) -> frozenset[str]:
        """The private words that are not public, and not made of public parts alone."""
        candidates = self.private - self.public - _COMMON
        return frozenset([word for word in candidates if not self.public.issuperset(_PART.findall(word) or (word,))])

    @cached_property
    def _sorted(self) -> tuple[list[str], list[str]]:
        """The hidden words in their order, and reversed ones in theirs, to find the beginning and the end of one."""
        return sorted(self._hidden), sorted([word[::-1] for word in self._hidden])

    def spans(self, text: str, *, is_value: bool = False) -> list[Span]:
        """Return the places of hidden words in a text of podfit.

        An ordinary word ("model") is one of the text's own, unless it is in a quotation or in other text of the object.
        `is_value`: the text is a value of the object.
        """
        if not self._has_private(text) or not self._hidden:
            return []
        spans = self._quotations(text)
        for verbatim in _VERBATIM.finditer(text):
            for match in _WORD.finditer(text, *verbatim.span()):
                spans += self._in_word(text, match, strict=True)
        for match in _WORD.finditer(text):
            assigned = text[match.start() - 1 : match.start()] == "="
            spans += self._in_word(text, match, strict=is_value or assigned)
        return spans

    def _has_private(self, text: str) -> bool:
        """Return whether the text may contain a hidden word, which is not a number, or next to "…" a part of one."""
        words = (words_of((text,)) & self.private) - _COMMON
        return "…" in text or any(_NUMBER.fullmatch(word) is None for word in words)

    def _quotations(self, text: str) -> list[Span]:
        """Return the places of hidden words in quotations that the object has and podfit does not.

        Such a quotation has no white space, or most of its words are hidden, or one that is not ordinary."""
        spans: list[Span] = []
        for start, end in _quotations(text):
            words = list(_WORD.finditer(text, start, end))
            hidden = [match for match in words if self._is_hidden(match[0], strict=True)]
            numbers = sum(_NUMBER.fullmatch(match[0]) is not None for match in words)
            is_value = 2 * len(hidden) + numbers > len(words) or len(text[start:end].split(None, 1)) < 2
            if is_value or any(self._is_hidden(match[0]) for match in hidden):
                spans += [match.span() for match in hidden]
        return spans

    def _in_word(self, text: str, match: re.Match[str], *, strict: bool) -> Iterator[Span]:
        """The hidden spans of one word: all of it, or those of its parts that are hidden; never an escape."""
        start, end = match.span()
        escaped = text[start - 1 : start] == "\\" and canonical(match[0]) not in self._hidden
        if escaped and (escape := _ESCAPE.match(match[0])):
            start += escape.end()
        word = text[start:end]
        if self._is_hidden(word, strict=strict) or self._is_cut(text, start, end):
            yield start, end
        elif not word.isalnum() or not word.isascii():
            for part in _PART.finditer(canonical(word)):
                if len(part[0]) >= _SHORTEST and self._is_hidden(text[start + part.start() : start + part.end()]):
                    yield start + part.start(), start + part.end()

    def _is_hidden(self, word: str, *, strict: bool = False) -> bool:
        """Return whether the word is a hidden one. Numbers are not, and ordinary words only if `strict`."""
        if canonical(word) not in self._hidden or _NUMBER.fullmatch(word):
            return False
        return strict or _ORDINARY.fullmatch(word) is None

    def _is_cut(self, text: str, start: int, end: int) -> bool:
        """Return whether the word is the beginning or the end of a hidden one, which a long quotation leaves."""
        word = canonical(text[start:end])
        if len(word) < _SHORTEST or word in self.public:
            return False
        is_cut_after, is_cut_before = text[end : end + 1] == "…", text[start - 1 : start] == "…"
        if not is_cut_after and not is_cut_before:  # sorting takes time
            return False
        words, reversed_words = self._sorted
        if is_cut_after and _begins(words, word):
            return True
        return is_cut_before and _begins(reversed_words, word[::-1])

    def spans_of_source(self, line: str) -> list[Span]:
        """Return the places of all words in a line of a file that may not be quoted; numbers may."""
        return [match.span() for match in _WORD.finditer(line) if not self._may_show(canonical(match[0]))]

    def _may_show(self, word: str) -> bool:
        """Return whether a line of a file may quote the word: public, common, a number, or made of public parts."""
        if word in self.public or word in _COMMON or _QUANTITY.fullmatch(word):
            return True
        return not word.isalnum() and self.public.issuperset(_PART.findall(word))


def _quotations(text: str, start: int = 0, end: int | None = None, outer: str = "") -> Iterator[Span]:
    """Yield the places between quotation marks, also of others within; up to the end of the text if the closing mark
    is cut off. `start`, `end`: the searched part of the text; None: to its end. `outer`: the marks around it."""
    end, at = len(text) if end is None else end, start
    while opening := _OPENING.search(text, at, end):
        mark = opening[0] if len(opening[0]) == 1 else _VALUE_END
        at = opening.end()
        if mark in outer:
            continue
        closing = text.find(mark, at, end)
        if closing >= 0:
            yield at, closing
            yield from _quotations(text, at, closing, outer + mark)
            at = closing + 1
        elif len(mark) == 1 and not outer:
            yield at, end


def _begins(words: list[str], beginning: str) -> bool:
    """Return whether one of the sorted words begins so."""
    at = bisect_left(words, beginning)
    return at < len(words) and words[at].startswith(beginning)
