"""The value of a scalar in kubectl: neither YAML 1.1 as written nor 1.2, but go-yaml 2's reading of both.

Source: sigs.k8s.io/yaml 1.6, the library of kubectl and the Go programs around Kubernetes. It reads YAML as in
go.yaml.in/yaml/v2 resolve.go, and then converts it to JSON. `y` is true, `0o17` and `017` are fifteen, `1e3` is a
thousand, and dates and base 60 (`12:30`) are text. It rejects an infinity, which JSON can't represent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.manifest.part import BrokenError

_PREFIX = "tag:yaml.org,2002:"
_SPELLINGS: dict[str, Any] = {
    spelling: value
    for value, words in (
        (True, ("y", "yes", "true", "on")),
        (False, ("n", "no", "false", "off")),
        (None, ("", "~", "null")),
    )
    for word in words
    for spelling in (word, word.capitalize(), word.upper())
}
_NO_NUMBERS = frozenset(
    {".nan", ".NaN", ".NAN", *(sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF"))}
)
_NUMERIC = frozenset("0123456789+-.")
_INTEGER = regex(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = regex(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
"""Go's int64 and uint64: a larger number is a float."""
_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def read(event: Any) -> Any:
    """The value of libyaml's event of a scalar; raises BrokenError if kubectl rejects it."""
    text: str = event.value
    try:
        if event.tag is not None:
            return _parse_tagged(event.tag.removeprefix(_PREFIX), text)
        return text if event.style else parse_plain(text)
    except ValueError as error:
        subject = text if text in _NO_NUMBERS else "this value"  # another one may be a secret
        raise BrokenError(event.start_mark.line, f"kubectl rejects {subject}: {error}") from error


def parse_plain(text: str) -> Any:
    """The value of a scalar without quotes and tag; raises ValueError for one that JSON can't represent."""
    if text[:1] in _NUMERIC and text:
        return _parse_number(text)
    return _SPELLINGS.get(text, text)


def is_text(text: str) -> bool:
    """True if YAML without quotes around this text is the text itself, and not a number, a boolean or null."""
    try:
        return parse_plain(text) is text
    except ValueError:
        return False


def _parse_number(text: str) -> Any:
    """The number that kubectl reads; the text itself if it is none, or out of range. Whole numbers in any notation
    (`1.0`, `1e3`) are integers, since JSON does not distinguish them. Raises ValueError for .inf and .nan."""
    if text in _NO_NUMBERS:
        raise ValueError("JSON has no such number; quote what is text")
    digits = text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match is not None:
        integer = _parse_int(*match.groups())
        if integer is not None and _LEAST <= integer <= _MOST:
            return integer
    if not _FLOAT.fullmatch(digits):
        return text
    number = float(digits)
    if abs(number) == float("inf"):  # out of a float's range
        return text
    return int(number) if number.is_integer() and abs(number) < -_LEAST else number


def _parse_int(sign: str, digits: str) -> int | None:
    """The number of a match of `_INTEGER`: its sign ("+", "-" or empty) and its digits with a prefix. None if it has
    more digits than Python reads."""
    is_octal_without_o = digits[:1] == "0" and digits.isdigit() and len(digits) > 1  # 017, which Python rejects
    try:
        value = int(digits, 8 if is_octal_without_o else 0)
    except ValueError:
        return None
    return -value if sign == "-" else value


def _parse_tagged(tag: str, text: str) -> Any:
    """The value of a scalar with a tag (`!!int 1`): the text itself if the tag is not of a type that podfit knows.
    Raises ValueError if the text is not of the type."""
    fits = _TYPES.get(tag)
    if fits is None:
        return text
    value = parse_plain(text)
    if not fits(value):
        raise ValueError(f"it is not a valid !!{tag}")
    return value
