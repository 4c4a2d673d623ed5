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
    has_duplicate = False

    def to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """One JSON object as a dict; notes that a key occurs twice."""
        nonlocal has_duplicate
        fields = dict(pairs)
        has_duplicate = has_duplicate or len(fields) != len(pairs)
        return fields

    decoder = JSONDecoder(
        object_pairs_hook=to_dict, parse_constant=str, parse_int=lambda digits: numbers.bounded(int(digits))
    )
    end = index = line = 0  # end of the last object, in characters; its index; its last line, from 0
    while text[end:].strip():
        start = len(text) - len(text[end:].lstrip())
        line += text.count("\n", end, start)
        try:
            value, next_end = decoder.raw_decode(text, start)
            _check_size(value)
        except RecursionError:
            yield Part(index, line + 1, error=TOO_DEEP)
            return
        except BrokenError as error:
            yield Part(index, line + 1, error=error.args[1])
            return
        if has_duplicate:
            raise ValueError("read it as YAML, which knows the lines")
        yield Part(index, line + 1, value)
        line += text.count("\n", start, next_end)
        end, index = next_end, index + 1


def _check_size(value: object) -> None:
    """Raises BrokenError if `value` is nested more than MAX_DEPTH deep, or has more than MAX_NODES values in it."""
    level, nodes, depth = [value], 1, 0
    while level:  # all values of one depth after those of the one before, since recursion has a limit of its own
        next_level: list[object] = []
        for node in level:
            if isinstance(node, dict):
                next_level += node.values()
            elif isinstance(node, list):
                next_level += node
        level, nodes, depth = next_level, nodes + len(next_level), depth + 1
        if nodes > MAX_NODES:
            raise BrokenError(0, TOO_MANY)
        if depth > MAX_DEPTH:
            raise BrokenError(0, TOO_DEEP)
