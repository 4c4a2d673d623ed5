"""Colors of a terminal: for parts of a text by what they are, and for the finished text of any command."""

from __future__ import annotations

import re
from collections.abc import Callable

from podfit.base.lazy import regex
from podfit.evaluation.denial import HEADINGS

Paint = Callable[[str, str], str]
"""Text and what it is (a level, "rule", "place", "mark", "clean") → the text as the terminal shows it."""


def plain(text: str, _: str) -> str:
    """Return the text without colors: the `Paint` of files and pipes."""
    return text


_COLOURS = {  # ANSI codes (ECMA-48, SGR): 1 bold, 4 underlined, 31 red, 32 green, 33 yellow, 36 cyan
    "denied": "1;31",
    "would_deny": "1;31",
    "likely": "1;33",
    "advice": "33",
    "rule": "1",
    "place": "36",
    "mark": "1;31",
    "clean": "32",
    "file": "1;4",
}


def coloured(text: str, what: str) -> str:
    """Return the text in the ANSI color of `what`: the `Paint` of terminals."""
    return f"\x1b[{_COLOURS[what]}m{text}\x1b[0m" if text and what in _COLOURS else text


_HIGHLIGHTS = regex(
    r"^(?P<indent>\s*)(?:"
    r"(?P<level>denied if enforced|denied|likely to fail|advice)(?P<gap> {2,})(?P<rule>[a-z][a-z0-9-]+)"
    r"|(?P<bad>DENIED|DOES NOT FIT|WILL NOT START|newly denied)\b|(?P<good>FITS)\b|(?P<unsure>UNSURE|warning(?=:))"
    r"|(?P<label>cause|why|remedy|evidence|also|more)(?= {4,}\S))",
    re.MULTILINE,
)
DENIED_NOW = "DENIED NOW"
"""The mark in a comparison of a container that was allowed before."""
_GROUPS = {"bad": "denied", "good": "clean", "unsure": "likely", "label": "place"}


def highlighted(text: str) -> str:
    """Text of any command with its decisions, levels and rules in color."""
    levels = {words: heading for heading, words in HEADINGS.items()}

    def painted(match: re.Match[str]) -> str:
        """The matched text with its level and rule, or its label, in color."""
        if words := match["level"]:
            painted_words = f"{coloured(words, levels[words])}{match['gap']}{coloured(match['rule'], 'rule')}"
        else:
            group = match.lastgroup or "label"
            painted_words = coloured(match[group], _GROUPS[group])
        return match["indent"] + painted_words

    sentence = _HIGHLIGHTS.sub(painted, text)
    return sentence.replace(DENIED_NOW, coloured(DENIED_NOW, "denied"))


_DIFF = (("+++", "rule"), ("---", "rule"), ("@@", "place"), ("+", "clean"), ("-", "mark"))
"""The begin of a line, and the color of the line: the first that matches, so headers before changes."""


def highlighted_diff(text: str) -> str:
    """A unified diff in color."""
    return "\n".join(map(_highlighted_line, text.split("\n")))


def _highlighted_line(line: str) -> str:
    """A line of a unified diff in the color of its sign; the line itself if it is a context line."""
    for sign, what in _DIFF:
        if line.startswith(sign):
            return coloured(line, what)
    return line
