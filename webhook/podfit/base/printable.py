"""Make text safe to print: without control characters, and of bounded length."""

from __future__ import annotations

LONGEST = 1000
"""Maximum characters of a line for people. A quoted value can have millions."""


def clean(text: str) -> str:
    """Replace characters that are not printable by blanks, such as escape sequences and marks that change the direction
    of text. Line breaks stay."""
    if text.isprintable():
        return text
    return "".join([character if character.isprintable() or character == "\n" else " " for character in text])


def one_line(text: str) -> str:
    """Return `text` clean and without line breaks."""
    return " ".join(clean(text).split())


def shortened(text: str, most: int = LONGEST) -> str:
    """Return `text`; if it has more than `most` characters, its beginning, its length and its end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}… ({len(text):,} characters) …{text[-half:]}"
