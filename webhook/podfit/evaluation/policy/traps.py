"""Texts that YAML parses into another value than their author intends. Each is a mistake in a policy.

YAML 1.1 reads `off` and `no` as false, YAML 1.2 as text, kubectl `n` as false too (`manifest/scalar.py`). `010` is
eight or ten. `1e3` is a number or text. An anchor takes a value from a line far away. kubectl, editors and others do
not read them alike, so a policy may not have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from podfit.base.lazy import regex
from podfit.kube.manifest import scalar

_BOOLEANS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_LETTERS = {"y": "true", "n": "false"}
_OCTAL = regex(r"[-+]?0[0-7_]+")
_GROUPED = regex(r"[-+]?(0b[01_]+|(0x[0-9a-fA-F]+|[0-9]+)_[0-9a-fA-F_]*(\.[0-9_]*)?)")
_ONLY_SOME = regex(
    r"[-+]?(0[oO][0-7]+|0X[0-9a-fA-F]+|0B[01]+|0[0-9]*[89][0-9]*(\.[0-9]*)?|[0-9]+[eE][-+]?[0-9]+"
    r"|([0-9]+\.[0-9]*|\.[0-9]+)[eE][0-9]+)|[-+]\.[0-9]+([eE][-+]?[0-9]+)?"
)
"""Numbers to kubectl that are text to YAML 1.1 (PyYAML's resolver: no `0o`, an exponent needs a dot and a sign)."""
_SIXTY = regex(r"[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")


class Trap(NamedTuple):
    """A text that YAML readers read differently."""

    document: int
    """The index of its document in the stream."""
    line: int
    path: tuple[str | int, ...]
    """Its place in the document."""
    message: str


def find(text: str) -> Iterator[Trap]:
    """Yield the traps in the order of the text, which must be readable YAML."""
    import yaml
    from yaml.events import (
        AliasEvent,
        CollectionEndEvent,
        CollectionStartEvent,
        DocumentStartEvent,
        MappingStartEvent,
        NodeEvent,
        ScalarEvent,
    )

    index, stack = -1, list[_Frame]()
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, DocumentStartEvent):
            index += 1
        elif isinstance(event, CollectionEndEvent):
            stack.pop()
            _end_value(stack)
        elif isinstance(event, NodeEvent):
            is_key = bool(stack) and stack[-1].waits_for_key
            value = event.value if isinstance(event, ScalarEvent) else ""
            if is_key:
                stack[-1].place = value
            for message in _trap_messages(event, is_key):
                yield Trap(index, _line(event), tuple(frame.place for frame in stack), message)
            if isinstance(event, CollectionStartEvent):
                stack.append(_Frame(mapping=isinstance(event, MappingStartEvent)))
            elif isinstance(event, ScalarEvent | AliasEvent):
                _end_value(stack)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


class _Frame:
    """A list or an object that is being read."""

    def __init__(self, *, mapping: bool) -> None:
        self.mapping = mapping
        self.waits_for_key = mapping
        self.place: str | int = "" if mapping else 0
        """The key, or the index, of what comes next."""


def _end_value(stack: list[_Frame]) -> None:
    """Move to what comes next in the innermost list or object: its next key, value or item. At the end of a document
    there is none."""
    if not stack:
        return
    frame = stack[-1]
    if frame.mapping:
        frame.waits_for_key = not frame.waits_for_key
    elif isinstance(frame.place, int):
        frame.place += 1


def _trap_messages(event: Any, is_key: bool) -> Iterator[str]:
    """The problems of one YAML event that YAML readers read differently: anchors, tags, merge keys, plain scalars that
    are not text."""
    if getattr(event, "anchor", None) is not None:
        sign = "*" if type(event).__name__ == "AliasEvent" else "&"
        yield f"{sign}{event.anchor}: a policy has no anchors and aliases; write it out where it holds"
    if getattr(event, "tag", None) is not None:
        yield f"{event.tag}: a policy has no tags; quote what is text"
    plain = getattr(event, "value", None)
    if plain is None or event.style:
        return
    if is_key and plain == "<<":
        yield "<<: a policy has no merge keys; write it out where it holds"
    elif plain.lower() in _BOOLEANS:
        word = _BOOLEANS[plain.lower()]
        yield f"YAML 1.1 reads an unquoted `{plain}` as {word}, YAML 1.2 as text: write {word}, or quote it"
    elif plain.lower() in _LETTERS:
        word = _LETTERS[plain.lower()]
        yield f"kubectl reads an unquoted `{plain}` as {word}, other readers as text: write {word}, or quote it"
    elif _ONLY_SOME.fullmatch(plain):
        read = scalar.parse_plain(plain)
        yield f"kubectl reads {plain} as {read}, YAML 1.1 as text: write it in decimal digits, or quote it"
    elif _OCTAL.fullmatch(plain):
        read = int(plain.replace("_", ""), 8)
        yield f"YAML 1.1 reads {plain} as {read}, YAML 1.2 as decimal: leave the leading zero out"
    elif _GROUPED.fullmatch(plain):
        yield f"YAML 1.1 reads {plain} as a number, YAML 1.2 as text: write it in decimal digits, or quote it"
    elif _SIXTY.fullmatch(plain):
        yield f"YAML 1.1 reads {plain} as a number to the base of 60: quote it"
