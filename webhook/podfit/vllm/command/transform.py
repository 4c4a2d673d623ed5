"""The results of `${X#…}`, backslashes and `$'…'` for a known text."""

from __future__ import annotations

import fnmatch
import re

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}

_UNLIKE_PYTHON = re.compile(r"\[\^|\[\[?[:.=]|[?*+@!]\(|\\[*?\[\]\\]")
"""Patterns that a shell reads in another way than `fnmatch`."""
_PATTERN = re.compile(r"(/?(?:\\.|[^/\\])*)(?:/(.*))?", re.DOTALL)
"""`${X/find/replacement}`; in `find`, a slash is written as `\\/`, or is the first character."""


def apply(text: str, operator: str, argument: str) -> str | None:
    """`${X#…}`, `${X%…}`, `${X/…/…}`, `${X^^}`, `${X:1:2}` of a known text; None if it is not understood."""
    if len(text) > 512 or len(argument) > 64 or (operator[0] in "^," and not text.isascii()):
        return None
    if operator[0] in "#%/" and _UNLIKE_PYTHON.search(argument) is not None:
        return None
    if operator in ("#", "##", "%", "%%"):
        pattern = re.compile(fnmatch.translate(argument), re.DOTALL)
        cuts = range(len(text) + 1)
        if operator in ("#", "##"):
            order = cuts if operator == "#" else reversed(cuts)
            return next((text[i:] for i in order if pattern.match(text[:i])), text)
        order = reversed(cuts) if operator == "%" else cuts
        return next((text[:i] for i in order if pattern.match(text[i:])), text)
    if operator in ("/", "//"):
        find, replacement = _PATTERN.match(argument).groups()  # type: ignore[union-attr]  # it matches anything
        if any(c in find for c in "*?["):
            return None
        find, replacement = (re.sub(r"\\(.)", r"\1", one or "") for one in (find, replacement))
        return text.replace(find, replacement, -1 if operator == "//" else 1) if find else text
    if operator in ("^^", ",,") and not argument:
        return text.upper() if operator == "^^" else text.lower()
    if operator in ("^", ",") and not argument:
        return (text[:1].upper() if operator == "^" else text[:1].lower()) + text[1:]
    if operator == ":":
        match = re.fullmatch(r"\s*(\d+|\s-\d+)\s*(?::\s*(-?\d+)\s*)?", argument)
        if match is None:
            return None
        rest = text[int(match[1]) :]
        return rest if match[2] is None else rest[: int(match[2])]
    return None


def unescape(text: str, quoted: bool) -> str:
    """Backslashes outside of quotes, or between double ones."""
    if "\\" not in text:
        return text
    return re.sub(r'\\([$`"\\\n])' if quoted else r"\\(.|\n)", lambda m: "" if m[1] == "\n" else m[1], text)


def ansi_c(text: str) -> str:
    """`$'…'`: the escapes of C."""

    def one(match: re.Match[str]) -> str:
        body = match[1]
        if body[0] in "xuU":
            code = int(body[1:] or "110000", 16)
            return chr(code) if code < 0x110000 else match[0]
        if body[0] in "01234567":
            return chr(int(body, 8) & 0xFF)
        return _ESCAPES.get(body, body)

    pattern = r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.|\n)"
    return re.sub(pattern, one, text)
