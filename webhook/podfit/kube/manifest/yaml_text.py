"""A YAML stream → its documents: libyaml's events put together with a stack instead of recursion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.manifest import scalar
from podfit.kube.manifest.part import MAX_DEPTH, MAX_NODES, TOO_DEEP, TOO_MANY, BrokenError, Part, Path
from podfit.kube.path import FieldPath

MAX_ERRORS = 20
"""After so many broken documents the rest of a file is not looked at."""
_LINE_END = regex(r"\r\n?|\n|\x85|\u2028|\u2029")
"""The ends of a line in YAML, as PyYAML and libyaml count them."""
_SEPARATOR = regex(r"^---(?=\s|$)", re.MULTILINE)


def parse(text: str, lines: bool) -> Iterator[Part]:
    """The documents of a YAML stream. After a broken one, reading goes on at the next `---`, for at most MAX_ERRORS
    broken ones. `lines`: with the positions of all keys and values."""
    import yaml

    # Where libyaml begins (in characters, and its line from 0), the index of the document there, and broken documents.
    at = first = index = errors = 0
    while at <= len(text):
        builder = _Builder(index, first, lines)
        try:
            yield from builder.documents(yaml.parse(text[at:] if at else text, Loader=_loader()))
            return
        except BrokenError as error:
            line, reason = error.args
        except yaml.MarkedYAMLError as error:
            # A quote that is not closed is reported where it was opened, not at the end of the text.
            open_quote = error.context_mark if "quoted scalar" in str(error.context) else None
            mark = open_quote or error.problem_mark or error.context_mark
            line = mark.line if mark else 0
            reason = _explain_error(error, text[at:], line)
        except yaml.reader.ReaderError as error:
            line = text.count("\n", at, at + error.position)
            reason = f"not YAML: {error.reason}"
        yield Part(builder.index, first + line + 1, error=reason)
        errors += 1
        after = _next_separator(text, at, builder.start)
        if after is None:
            return
        first += text.count("\n", at, after)
        if errors >= MAX_ERRORS:
            yield Part(builder.index, first + 1, error=f"not read from here on: {errors} documents are broken before")
            return
        at, index = after, builder.index + 1


def _next_separator(text: str, at: int, line: int) -> int | None:
    """Where the first `---` after a line is, in characters; None if there is none. `line`: counted from 0 at the place
    `at`; it begins a document, so a separator in it is not the next one."""
    for separator in _SEPARATOR.finditer(text, at):
        if text.count("\n", at, separator.start()) > line:
            return separator.start()
    return None


def line_start(text: str, line: int) -> int:
    """Where a line begins, in characters. `line`: from 0; the end of the text for a line beyond it."""
    if line == 0:
        return 0
    ends_before = islice(_LINE_END.finditer(text), line - 1, line)  # the one line end before the line, if it is there
    return next((match.end() for match in ends_before), len(text))


def _explain_error(error: Any, text: str, line: int) -> str:
    """Why PyYAML can't read a document, in one line for people."""
    problem = str(error.problem or error)
    if re.compile(r" *\t").match(text, line_start(text, line)):
        return "not YAML: a tab in the indentation, where YAML wants spaces"
    if "quoted scalar" in str(error.context):
        return f"not YAML: a quote that is not closed: {problem}"
    return f"not YAML: {problem}"


@cache
def _loader() -> Any:
    """PyYAML's safe loader, or libyaml's if it is installed."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Frame:
    """A list or an object that is being read."""

    __slots__ = ("event", "key", "merges", "merging", "nodes", "own", "path", "value", "waits")

    def __init__(self, value: dict[str, Any] | list[Any], event: Any, path: Path) -> None:
        self.value = value
        self.event = event
        """The event that began it."""
        self.path = path
        """Its place in the document."""
        self.nodes = 1
        """Values in it, itself included, as MAX_NODES counts them."""
        self.key: str = ""
        """The last key of an object that was read."""
        self.waits = False
        """True in an object that has read a key and waits for its value."""
        self.merging = False
        """True if the key was `<<`, unquoted: the value's own fields go in here."""
        self.merges: list[Any] = []
        """The values of `<<`."""
        self.own: set[str] = set()
        """Keys that were read, without those of merges, which they override."""


class _Builder:
    """libyaml's events → objects, with a stack instead of recursion."""

    def __init__(self, index: int, first: int, lines: bool) -> None:
        self.index = index - 1
        self.first = first
        self.start = 0
        """Line (from 0, in what was given to libyaml) of the document that is being read."""
        self.with_lines = lines

    def documents(self, events: Iterable[Any]) -> Iterator[Part]:
        """Each document as soon as it has ended; raises BrokenError, or PyYAML's errors."""
        from yaml.events import (
            AliasEvent,
            DocumentEndEvent,
            DocumentStartEvent,
            MappingEndEvent,
            MappingStartEvent,
            ScalarEvent,
            SequenceEndEvent,
            SequenceStartEvent,
        )

        read = scalar.read
        for event in events:
            kind = type(event)
            if kind is ScalarEvent:
                self._add(read(event), 1 + (len(event.value) >> 6), event)
            elif kind is MappingStartEvent:
                self._open({}, event)
            elif kind is SequenceStartEvent:
                self._open([], event)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._close(event)
            elif kind is AliasEvent:
                if event.anchor not in self.anchors:
                    is_open = any(frame.event.anchor == event.anchor for frame in self.stack)
                    why = "contains itself" if is_open else "is not defined"
                    raise BrokenError(event.start_mark.line, f"not YAML: the anchor {event.anchor!r} {why}")
                value, nodes = self.anchors[event.anchor]
                self._add(value, nodes, event, alias=True)
            elif kind is DocumentStartEvent:
                self._begin(event)
            elif kind is DocumentEndEvent:
                yield self._part()

    def _part(self) -> Part:
        """The document that has ended."""
        return Part(
            self.index,
            self.root_line + self.first + 1,
            self.root,
            tuple(self.duplicates),
            self.first,
            self.keys,
            self.values,
        )

    def _begin(self, event: Any) -> None:
        """Start a document at its first event."""
        self.index += 1
        self.start = event.start_mark.line
        self.root: Any = None
        self.root_line = self.start
        self.stack: list[_Frame] = []
        """The open lists and objects, the outermost first."""
        self.anchors: dict[str, tuple[Any, int]] = {}
        """Name of an anchor → its value, and the number of values in it, as MAX_NODES counts them."""
        self.duplicates: list[tuple[int, FieldPath]] = []
        """As in Part, like the next two."""
        self.keys: dict[Path, Any] = {}
        self.values: dict[Path, tuple[Any, Any]] = {}

    def _path(self) -> Path:
        """The place of the next value in the document; of a key's value, once the key was read."""
        if not self.stack:
            return ()
        top = self.stack[-1]
        return (*top.path, top.key if isinstance(top.value, dict) else len(top.value))

    def _open(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        """Start an object or a list; raises BrokenError if it is nested too deep or is a key."""
        if len(self.stack) >= MAX_DEPTH:
            raise BrokenError(event.start_mark.line, TOO_DEEP)
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and not top.waits:
            raise BrokenError(event.start_mark.line, "not an object: a key is a list or an object, not text")
        if top is None:
            self.root_line = event.start_mark.line
        self.stack.append(_Frame(value, event, self._path()))

    def _close(self, event: Any) -> None:
        """End an object or a list: merge what `<<` names, note its anchor, and put it into its parent."""
        frame = self.stack.pop()
        for merged in frame.merges:
            for item in merged if isinstance(merged, list) else [merged]:
                if not isinstance(item, dict):
                    why = "not YAML: the merge key << wants an object or a list of objects"
                    raise BrokenError(frame.event.start_mark.line, why)
                for key, value in item.items():
                    frame.value.setdefault(key, value)  # type: ignore[union-attr]  # only objects have merges
        if frame.event.anchor is not None:
            self.anchors[frame.event.anchor] = (frame.value, frame.nodes)
        if self.with_lines:
            self.values[frame.path] = (frame.event, event)
        self._put(frame.value, frame.nodes, event)

    def _add(self, value: Any, nodes: int, event: Any, *, alias: bool = False) -> None:
        """Take a scalar or an alias as the next key or value. `nodes`: number of values in it, as MAX_NODES counts
        them. `alias`: True for an alias; the anchor of its event is that of another value."""
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and not top.waits:
            self._key(top, value, event)
            return
        if top is None:
            self.root_line = event.start_mark.line
        if self.with_lines:
            self.values[self._path()] = (event, event)
        if not alias and event.anchor is not None:
            self.anchors[event.anchor] = (value, nodes)
        self._put(value, nodes, event)

    def _key(self, top: _Frame, value: Any, event: Any) -> None:
        """Take a scalar as the next key of an object, as kubectl spells it; raises BrokenError for null, lists and
        objects."""
        if value is None or isinstance(value, dict | list):
            what = "null" if value is None else "a list or an object"
            raise BrokenError(event.start_mark.line, f"not an object: a key is {what}, not text")
        if isinstance(value, bool):
            value = "true" if value else "false"
        top.key = str(value)
        top.waits = True
        top.merging = top.key == "<<" and not getattr(event, "style", None)
        if top.merging:
            return
        if top.key in top.own:
            self.duplicates.append((event.start_mark.line + self.first + 1, FieldPath(self._path())))
        top.own.add(top.key)
        if self.with_lines:
            self.keys[self._path()] = event

    def _put(self, value: Any, nodes: int, event: Any) -> None:
        """Puts a finished value into its list or object."""
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        top.nodes += nodes
        if top.nodes > MAX_NODES:
            raise BrokenError(event.start_mark.line, TOO_MANY)
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.merging:
            top.merges.append(value)
            top.waits = False
        else:
            top.value[top.key] = value
            top.waits = False
