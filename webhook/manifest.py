"""Text → Kubernetes objects: YAML streams, JSON, Lists and OpenShift Templates, with lines for what is said of them.

YAML 1.1 as `kubectl` reads it (sigs.k8s.io/yaml): `on` is true, dates stay text, every key is text, the last of two
equal keys counts. Hostile input costs bounded time and memory: the events of libyaml are put together without
recursion, aliases are counted at their expanded size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from webhook.path import FieldPath

MAX_NODES = 1_000_000
"""Scalars, lists and objects of one document, aliases expanded; each 64 characters of a text count as one more."""
MAX_DEPTH = 256
"""Lists and objects in each other. Kubernetes' own objects stay below 50; Python's recursion limit is 1000."""
MAX_ERRORS = 20
"""After so many broken documents the rest of a file is not looked at."""

_HERE = FieldPath()


@dataclass(frozen=True)
class Note:
    """Something worth saying about a file that was read all the same (or left out on purpose)."""

    file: str
    line: int | None
    message: str
    path: FieldPath = _HERE

    def __str__(self) -> str:
        return _located(self.file, self.line, self.message)


@dataclass(frozen=True)
class ReadError:
    """Why a file, or one document of it, can't be read: one line."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        return _located(self.file, self.line, self.message)


def _located(file: str, line: int | None, message: str) -> str:
    return f"{file}: {message}" if line is None else f"{file}:{line}: {message}"


@dataclass(frozen=True)
class Mark:
    """Where something stands in a file; lines and columns from 1, columns in characters."""

    line: int
    column: int
    end_line: int
    end_column: int
    """The column after the last character."""


@dataclass(frozen=True)
class Document:
    """One object of a file."""

    object: dict[str, Any]
    line: int
    """Where the object starts, from 1."""
    index: int = 0
    """Which document of the stream it is in, from 0; empty ones count."""
    root: FieldPath = _HERE
    """Where it stands in that document: `items[2]` of a List, else empty."""
    notes: tuple[Note, ...] = ()
    """Duplicate keys."""
    text: str = field(default="", repr=False)
    """The whole file's text."""

    def line_of(self, path: FieldPath) -> int:
        """The line of `path` in the file, or of the nearest place above it that is there."""
        lines = _marked(self.text).get(self.index, _NOWHERE).lines
        parts = (*self.root.parts, *path.parts)
        for length in range(len(parts), len(self.root.parts), -1):
            if (line := lines.get(parts[:length])) is not None:
                return line
        return self.line

    def mark_of(self, path: FieldPath) -> Mark:
        """The value at `path`, where it stands there on its lines; else its key, or the nearest key above it."""
        part = _marked(self.text).get(self.index, _NOWHERE)
        parts = (*self.root.parts, *path.parts)
        value = part.values.get(parts)
        if value is not None and (value.end_line == value.line or parts in part.texts):
            return value
        for length in range(len(parts), len(self.root.parts), -1):
            if (found := part.keys.get(parts[:length])) is not None:
                return found
            if (found := part.values.get(parts[:length])) is not None:
                return self._rest(found.line, found.column)
        return self._rest(self.line, 1)

    def _rest(self, line: int, column: int) -> Mark:
        """From there to the end of the line."""
        end = len(self.text.split("\n", line)[line - 1].rstrip()) + 1
        return Mark(line, column, line, max(end, column + 1))


@dataclass(frozen=True)
class Manifests:
    """What a file holds."""

    documents: tuple[Document, ...]
    errors: tuple[ReadError, ...] = ()
    notes: tuple[Note, ...] = ()
    """What is not about one document: a Helm template that was skipped, a document that is no object."""


def read(text: str | bytes, name: str) -> Manifests:
    """The objects in `text`, the contents of the file `name` (which is only used in messages). Never raises.

    A broken document is an error and does not hide the others. Lists and OpenShift Templates are taken apart. Helm
    templates, and documents that are no objects, are left out with a note.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            return Manifests((), (ReadError(name, line, f"not UTF-8: byte 0x{error.object[error.start]:02x}"),))
    text = text.removeprefix("\ufeff")
    parts = list(_parse(text))
    if any(part.error for part in parts) and (action := _template_line(text)) is not None:
        why = "skipped: a Helm template; check what `helm template` prints instead"
        return Manifests((), notes=(Note(name, action, why),))
    documents: list[Document] = []
    errors: list[ReadError] = []
    notes: list[Note] = []
    for part in parts:
        if part.error:
            errors.append(ReadError(name, part.line, part.error))
            continue
        said = tuple(
            Note(name, line, f"duplicate key {path}: the last one counts", path) for line, path in part.duplicates
        )
        found, rest = _take_apart(part, said, name, text)
        documents += found
        notes += rest
    return Manifests(tuple(documents), tuple(errors), tuple(notes))


def load(text: str) -> Any:
    """The first document of `text`, None where there is none or it can't be read: for YAML inside of an object."""
    part = next(iter(_parse(text)), None)
    return None if part is None or part.error else part.value


def items(obj: Mapping[str, Any]) -> list[tuple[FieldPath, Any]] | None:
    """What a List (or DeploymentList …) or an OpenShift Template holds, with its place; None for other kinds."""
    kind = str(obj.get("kind") or "")
    if kind == "Template" and isinstance(held := obj.get("objects"), list):
        return [(FieldPath(("objects", index)), item) for index, item in enumerate(held)]
    if kind.endswith("List") and isinstance(held := obj.get("items"), list):
        own = {"apiVersion": obj.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
        return [
            (FieldPath(("items", index)), {**own, **item} if own and isinstance(item, Mapping) else item)
            for index, item in enumerate(held)
        ]
    return None


# ── Documents → objects ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Part:
    """One document of a stream, or why it can't be read."""

    index: int
    line: int
    value: Any = None
    duplicates: tuple[tuple[int, FieldPath], ...] = ()
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict)
    """Place → line of its key or, in a list, of the item."""
    keys: Mapping[tuple[str | int, ...], Mark] = field(default_factory=dict)
    values: Mapping[tuple[str | int, ...], Mark] = field(default_factory=dict)
    texts: frozenset[tuple[str | int, ...]] = frozenset()
    """The values that are no lists and no objects."""
    error: str = ""


_NOWHERE = _Part(0, 1)


def _take_apart(part: _Part, said: tuple[Note, ...], file: str, text: str) -> tuple[list[Document], list[Note]]:
    """The objects of one document, and the notes that belong to none of them."""
    documents: list[Document] = []
    notes: list[Note] = []
    if part.value is None:
        return documents, notes
    queue: list[tuple[FieldPath, Any]] = [(FieldPath(), part.value)]
    if isinstance(part.value, list):
        queue = [(FieldPath((index,)), item) for index, item in enumerate(part.value)]
    for root, value in queue:  # grows while it is walked: a List may hold Lists
        if not isinstance(value, dict):
            place = f"{root}: " if root.parts else ""
            notes.append(Note(file, part.line, f"{place}skipped: {_named(value)} is no Kubernetes object", root))
        elif (held := items(value)) is not None:
            queue += [(root.join(*place.parts), item) for place, item in held]
        else:
            mine = tuple(note for note in said if note.path.parts[: len(root.parts)] == root.parts)
            line = _marked(text).get(part.index, part).lines.get(root.parts, part.line) if root.parts else part.line
            documents.append(Document(value, line, part.index, root, mine, text))
    taken = {note for document in documents for note in document.notes}
    return documents, [*notes, *(note for note in said if note not in taken)]


def _named(value: object) -> str:
    if value is None or isinstance(value, list):
        return "null" if value is None else "a list"
    kind = {str: "text", bool: "boolean"}.get(type(value), "number")
    return f"the {kind} {value!r:.40}"


_TEMPLATE = re.compile(r"""^[ \t]*(?:-[ \t]+)*(?:[\w./"'-]+:[ \t]+)?\{\{""", re.MULTILINE)
"""A template action where YAML's structure would be; `name: "{{.Name}}"` is an ordinary text."""


def _template_line(text: str) -> int | None:
    found = _TEMPLATE.search(text)
    return text.count("\n", 0, found.end()) + 1 if found else None


# ── Text → documents ─────────────────────────────────────────────────────────────────────────────────────────────────


class _BrokenError(Exception):
    """This document can't be read: `args` are the line (from 0) and the reason."""


def _parse(text: str, *, lines: bool = False) -> Iterator[_Part]:
    """Every document of `text`, in order; broken ones as errors."""
    if not lines and text.lstrip()[:1] in ("{", "["):
        try:
            yield from list(_parse_json(text))
            return
        except ValueError:
            pass  # YAML's flow style starts so too
    yield from _parse_yaml(text, lines)


def _parse_json(text: str) -> Iterator[_Part]:
    """The objects of a JSON text, or of several one after another; raises ValueError where it is none."""
    from json import JSONDecoder

    twice = False

    def to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        made = dict(pairs)
        twice = twice or len(made) != len(pairs)
        return made

    decoder = JSONDecoder(object_pairs_hook=to_dict, parse_constant=str)
    at = index = line = 0
    while text[at:].strip():
        start = at + len(text[at:]) - len(text[at:].lstrip())
        line += text.count("\n", at, start)
        try:
            value, end = decoder.raw_decode(text, start)
            _measure(value)
        except RecursionError:
            yield _Part(index, line + 1, error=_TOO_DEEP)
            return
        except _BrokenError as error:
            yield _Part(index, line + 1, error=error.args[1])
            return
        if twice:
            raise ValueError("read it as YAML, which knows the lines")
        yield _Part(index, line + 1, value)
        line += text.count("\n", start, end)
        at, index = end, index + 1


_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
_TOO_MANY = f"more than {MAX_NODES:,} values (or {MAX_NODES >> 14} MiB of text), aliases expanded"


def _measure(value: object) -> None:
    """Raises _BrokenError where `value` is too deep or too large."""
    level, nodes, depth = [value], 1, 0
    while level:
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        nodes, depth = nodes + len(level), depth + 1
        if nodes > MAX_NODES:
            raise _BrokenError(0, _TOO_MANY)
        if depth > MAX_DEPTH:
            raise _BrokenError(0, _TOO_DEEP)


_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)


def _parse_yaml(text: str, lines: bool) -> Iterator[_Part]:
    """The documents of a YAML stream. After a broken one, reading goes on at the next `---`."""
    import yaml

    at = index = first = errors = 0
    while at <= len(text):
        builder = _Builder(index, first, lines)
        try:
            yield from builder.documents(yaml.parse(text[at:] if at else text, Loader=_loader()))
            return
        except _BrokenError as error:
            line, reason = error.args
        except yaml.MarkedYAMLError as error:
            open_quote = error.context_mark if "quoted scalar" in str(error.context) else None
            mark = open_quote or error.problem_mark or error.context_mark
            line, reason = mark.line if mark else 0, _reason(error, text[at:], mark.line if mark else 0)
        except yaml.reader.ReaderError as error:
            line = text.count("\n", at, at + error.position)
            reason = f"not YAML: {error.reason}"
        yield _Part(builder.index, first + line + 1, error=reason)
        errors += 1
        starts = (match.start() for match in _SEPARATOR.finditer(text, at))
        # The separator that opened the broken document, and those before it, are done with.
        after = next((start for start in starts if text.count("\n", at, start) > builder.start), None)
        if after is None:
            return
        if errors >= MAX_ERRORS:
            line = first + text.count("\n", at, after)
            yield _Part(builder.index, line + 1, error=f"not read from here on: {errors} documents are broken before")
            return
        first += text.count("\n", at, after)
        at, index = after, builder.index + 1


def _reason(error: Any, text: str, line: int) -> str:
    problem = str(error.problem or error)
    its = text.splitlines()[line : line + 1]
    if its and re.match(r" *\t", its[0]):
        return "not YAML: a tab in the indentation, where YAML wants spaces"
    if "quoted scalar" in str(error.context):
        return f"not YAML: a quote that is not closed: {problem}"
    return f"not YAML: {problem}"


@cache
def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@lru_cache(maxsize=4)
def _marked(text: str) -> Mapping[int, _Part]:
    """Each document with where everything in it stands."""
    # A tab is JSON's business; it changes no line.
    text = text.replace("\t", " ") if text.lstrip()[:1] in ("{", "[") else text
    return {part.index: part for part in _parse(text, lines=True)}


class _Frame:
    """A list or an object that is being read."""

    __slots__ = ("anchor", "key", "line", "merges", "merging", "nodes", "own", "value", "waits")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.nodes = 1
        self.key: str = ""
        self.waits = False
        """An object that has read a key and waits for its value."""
        self.merging = False
        """The key was `<<`, unquoted: the value's own fields go in here."""
        self.merges: list[Any] = []
        self.own: set[str] = set()


class _Builder:
    """libyaml's events → objects, with a stack instead of recursion."""

    def __init__(self, index: int, first: int, lines: bool) -> None:
        self.index = index - 1
        self.first = first
        self.start = 0
        """Line (from 0, in what was given to libyaml) of the document that is being read."""
        self.with_lines = lines

    def documents(self, events: Iterable[Any]) -> Iterator[_Part]:
        """Each document as soon as it is whole; raises _BrokenError, or what libyaml raises."""
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

        scalar = _scalar_reader()
        for event in events:
            kind = type(event)
            if kind is ScalarEvent:
                self._add(scalar(event), 1 + (len(event.value) >> 6), event)
            elif kind is MappingStartEvent:
                self._open({}, event)
            elif kind is SequenceStartEvent:
                self._open([], event)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._close(event)
            elif kind is AliasEvent:
                if event.anchor not in self.anchors:
                    open_too = any(frame.anchor == event.anchor for frame in self.stack)
                    why = "contains itself" if open_too else "is not defined"
                    raise _BrokenError(event.start_mark.line, f"not YAML: the anchor {event.anchor!r} {why}")
                value, nodes = self.anchors[event.anchor]
                self._add(value, nodes, event, alias=True)
            elif kind is DocumentStartEvent:
                self._begin(event)
            elif kind is DocumentEndEvent:
                yield _Part(
                    self.index,
                    self.root_line + self.first + 1,
                    self.root,
                    tuple(self.duplicates),
                    self.lines,
                    self.keys,
                    self.values,
                    frozenset(self.texts),
                )

    def _begin(self, event: Any) -> None:
        self.index += 1
        self.start = event.start_mark.line
        self.root: Any = None
        self.root_line = self.start
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.duplicates: list[tuple[int, FieldPath]] = []
        self.lines: dict[tuple[str | int, ...], int] = {}
        self.keys: dict[tuple[str | int, ...], Mark] = {}
        self.values: dict[tuple[str | int, ...], Mark] = {}
        self.texts: set[tuple[str | int, ...]] = set()

    def _path(self) -> tuple[str | int, ...]:
        """Where the next value goes."""
        return tuple(frame.key if isinstance(frame.value, dict) else len(frame.value) for frame in self.stack)

    def _open(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise _BrokenError(event.start_mark.line, _TOO_DEEP)
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and not top.waits:
            raise _BrokenError(event.start_mark.line, "not an object: a key is a list or an object, not text")
        self._see(event)
        self.stack.append(_Frame(value, event.anchor, event.start_mark.line))

    def _close(self, event: Any) -> None:
        frame = self.stack.pop()
        for merged in frame.merges:
            for one in merged if isinstance(merged, list) else [merged]:
                if not isinstance(one, dict):
                    raise _BrokenError(frame.line, "not YAML: the merge key << wants an object or a list of objects")
                for key, value in one.items():
                    frame.value.setdefault(key, value)  # type: ignore[union-attr]  # only objects have merges
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.value, frame.nodes)
        if self.with_lines and (opened := self.values.get(path := self._path())) is not None:
            self.values[path] = Mark(
                opened.line, opened.column, event.end_mark.line + self.first + 1, event.end_mark.column + 1
            )
        self._put(frame.value, frame.nodes, event)

    def _see(self, event: Any) -> None:
        """Notes the line of the value that begins here: that of its key, where it has one."""
        if not self.stack:
            self.root_line = event.start_mark.line
        if self.with_lines:
            path = self._path()
            self.values[path] = self._mark(event.start_mark, event.end_mark)
            if not (self.stack and isinstance(self.stack[-1].value, dict)):
                self.lines.setdefault(path, event.start_mark.line + self.first + 1)

    def _mark(self, start: Any, end: Any) -> Mark:
        return Mark(start.line + self.first + 1, start.column + 1, end.line + self.first + 1, end.column + 1)

    def _add(self, value: Any, nodes: int, event: Any, *, alias: bool = False) -> None:
        """A scalar or an alias: a key, or a value."""
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.value, dict) and not top.waits:
            self._key(top, value, event)
            return
        self._see(event)
        if self.with_lines:
            self.texts.add(self._path())
        if not alias and event.anchor is not None:
            self.anchors[event.anchor] = (value, nodes)
        self._put(value, nodes, event)

    def _key(self, top: _Frame, value: Any, event: Any) -> None:
        if isinstance(value, dict | list):
            raise _BrokenError(event.start_mark.line, "not an object: a key is a list or an object, not text")
        if isinstance(value, bool):
            value = "true" if value else "false"
        top.key = "null" if value is None else str(value)
        top.waits = True
        top.merging = top.key == "<<" and not getattr(event, "style", None)
        if top.merging:
            return
        path = self._path()
        if top.key in top.own:
            self.duplicates.append((event.start_mark.line + self.first + 1, FieldPath(path)))
        top.own.add(top.key)
        if self.with_lines:
            self.lines[path] = event.start_mark.line + self.first + 1
            self.keys[path] = self._mark(event.start_mark, event.end_mark)

    def _put(self, value: Any, nodes: int, event: Any) -> None:
        """A finished value goes where it belongs."""
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        top.nodes += nodes
        if top.nodes > MAX_NODES:
            raise _BrokenError(event.start_mark.line, _TOO_MANY)
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.merging:
            top.merges.append(value)
            top.waits = False
        else:
            top.value[top.key] = value
            top.waits = False


_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_PREFIX = "tag:yaml.org,2002:"


@cache
def _scalar_reader() -> Callable[[Any], Any]:
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
