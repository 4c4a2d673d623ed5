"""JSON → objects, with the limits that YAML has."""

from __future__ import annotations

from collections.abc import Iterator
from json import JSONDecoder
from typing import Any

from podfit.base import numbers
from podfit.kube.manifest.part import MAX_DEPTH, MAX_NODES, TOO_DEEP, TOO_MANY, BrokenError, Part


def parse(text: str) -> Iterator[Part]:
    """The objects of a JSON text, or of several one after another. Raises ValueError if it is not JSON, or if a key
    occurs twice, since only YAML's parser knows its line. Ends after an object that is too deep or too large."""
    twice = False

    def to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """One JSON object as a dict; notes that a key occurs twice."""
        nonlocal twice
        entries = dict(pairs)
        twice = twice or len(entries) != len(pairs)
        return entries

    decoder = JSONDecoder(
        object_pairs_hook=to_dict, parse_constant=str, parse_int=lambda digits: numbers.bounded(int(digits))
    )
    at = index = line = 0
    while text[at:].strip():
        start = at + len(text[at:]) - len(text[at:].lstrip())
        line += text.count("\n", at, start)
        try:
            value, end = decoder.raw_decode(text, start)
            _measure(value)
        except RecursionError:
            yield Part(index, line + 1, error=TOO_DEEP)
            return
        except BrokenError as error:
            yield Part(index, line + 1, error=error.args[1])
            return
        if twice:
            raise ValueError("read it as YAML, which knows the lines")
        yield Part(index, line + 1, value)
        line += text.count("\n", start, end)
        at, index = end, index + 1


def _measure(value: object) -> None:
    """Raises BrokenError if `value` is too deep or too large."""
    level, nodes, depth = [value], 1, 0
    while level:
        level = [
            inner
            for node in level
            if isinstance(node, dict | list)
            for inner in (node.values() if isinstance(node, dict) else node)
        ]
        nodes, depth = nodes + len(level), depth + 1
        if nodes > MAX_NODES:
            raise BrokenError(0, TOO_MANY)
        if depth > MAX_DEPTH:
            raise BrokenError(0, TOO_DEEP)
