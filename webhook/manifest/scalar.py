"""What a scalar of YAML 1.1 means to kubectl."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_PREFIX = "tag:yaml.org,2002:"


@cache
def reader() -> Callable[[Any], Any]:
    """Reads a scalar as YAML 1.1 does, but for what JSON has no word for: dates and infinities stay text. So does
    `12:30`, which is a number in base 60 to YAML 1.1 and text to kubectl."""
    import yaml

    resolvers = {
        first: [(tag.removeprefix(_PREFIX), pattern) for tag, pattern in found]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    nothing: list[tuple[str, Any]] = []

    def read_scalar(event: Any) -> Any:
        text: str = event.value
        if event.tag is not None:
            return _typed(event.tag.removeprefix(_PREFIX), text)
        if event.style:
            return text
        for tag, pattern in resolvers.get(text[:1], nothing):
            if pattern.match(text):
                return _typed(tag, text)
        return text

    return read_scalar


def _typed(tag: str, text: str) -> Any:
    """The scalar's value by its tag; the text itself where it has no such value."""
    if tag == "null":
        return None
    if tag == "bool":
        return _BOOLEANS.get(text.lower(), text)
    if tag in ("int", "float"):
        return _numeral(text.replace("_", ""), tag, text)
    return text


def _numeral(digits: str, tag: str, text: str) -> Any:
    try:
        if tag == "float":
            value = float(digits)
            return value if abs(value) < float("inf") else text
        sign = -1 if digits.startswith("-") else 1
        digits = digits.lstrip("+-")
        octal = digits.startswith("0") and digits.isdigit() and len(digits) > 1
        return sign * int(digits, 8 if octal else 0)
    except ValueError:
        return text
