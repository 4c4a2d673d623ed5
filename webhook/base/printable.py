"""Text that can be shown to people: inert in a terminal, and of bounded length."""

from __future__ import annotations

LONGEST = 1000
"""Characters of a line for people; a value that is quoted in it may have millions."""


def clean(text: str) -> str:
    """`text` without control characters and without others that have no shape, such as marks that reverse the direction
    of what follows: the words of a manifest must not reach a terminal as escape sequences. Line breaks stay."""
    if text.isprintable():
        return text
    return "".join([character if character.isprintable() or character == "\n" else " " for character in text])


def one_line(text: str) -> str:
    """Clean and without line breaks."""
    return " ".join(clean(text).split())


def shortened(text: str, most: int = LONGEST) -> str:
    """`text` with its middle left out where it has more than `most` characters, and how many it has."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}… ({len(text):,} characters) …{text[-half:]}"
