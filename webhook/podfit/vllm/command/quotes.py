"""Backslashes and `$'…'` in a word of a script."""

from __future__ import annotations

import re

_C_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.|\n)")
_C_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


def unescape(text: str, quoted: bool) -> str:
    """Remove backslashes outside of quotes, or between double ones."""
    if "\\" not in text:
        return text
    return re.sub(r'\\([$`"\\\n])' if quoted else r"\\(.|\n)", lambda m: "" if m[1] == "\n" else m[1], text)


def ansi_c(text: str) -> str:
    """`$'…'`: the escapes of C."""
    return _C_ESCAPE.sub(_c_character, text)


def _c_character(match: re.Match[str]) -> str:
    body = match[1]
    if body[0] in "xuU":
        code = int(body[1:] or "110000", 16)
        return chr(code) if code < 0x110000 else match[0]
    if body[0] in "01234567":
        return chr(int(body, 8) & 0xFF)
    return _C_LETTERS.get(body, body)
