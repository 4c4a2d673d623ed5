"""Text → Kubernetes objects: YAML streams, JSON, Lists and OpenShift Templates, with lines for what is said of them.

YAML 1.1 as `kubectl` reads it (sigs.k8s.io/yaml): `on` is true, dates stay text, every key is text, the last of two
equal keys counts. Hostile input costs bounded time and memory: the events of libyaml are put together without
recursion, aliases are counted at their expanded size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from podfit.base.lazy import regex
from podfit.base.printable import shortened
from podfit.base.secret import FORMS
from podfit.kube.manifest import encoding, json_text, parameters, yaml_text
from podfit.kube.manifest.part import Mark, Part
from podfit.kube.path import FieldPath

_HERE = FieldPath()
SkipReason = Literal["helm-template", "kustomize-patch", "not-an-object", "not-a-manifest", "template"]
"""Why a file, or a document of it, is left out; of a `template` only the placeholders."""


class Note(NamedTuple):
    """Something worth saying about a file that was read all the same (or left out on purpose)."""

    file: str
    line: int | None
    message: str
    path: FieldPath = _HERE
    skips: SkipReason | None = None
    """Why what the note is about is left out."""

    def __str__(self) -> str:
        return _with_position(self.file, self.line, self.message)


class ReadError(NamedTuple):
    """Why a file, or one document of it, can't be read: one line."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        return _with_position(self.file, self.line, self.message)


def _with_position(file: str, line: int | None, message: str) -> str:
    """`FILE:LINE: message`, as compilers print it."""
    return f"{file}: {message}" if line is None else f"{file}:{line}: {message}"


@dataclass(frozen=True)
class Document:
    """One object of a file."""

    object: dict[str, Any]
    line: int
    """Where the object starts, from 1."""
    index: int = 0
    """Index of its document in the stream, from 0; empty ones count."""
    root: FieldPath = _HERE
    """Its place in that document: `items[2]` of a List, else empty."""
    notes: tuple[Note, ...] = ()
    """Duplicate keys."""
    text: str = field(default="", repr=False)
    """The whole file's text."""

    def line_of(self, path: FieldPath) -> int:
        """The line of `path` in the file, or of the nearest place above it that the text has; counted from 1."""
        part = _parse_with_marks(self.text).get(self.index, _NOWHERE)
        parts = (*self.root.parts, *path.parts)
        for length in range(len(parts), len(self.root.parts), -1):
            line = part.line_of(parts[:length])
            if line is not None:
                return line
        return self.line

    def value_at(self, path: FieldPath) -> Mark | None:
        """Return the place of the value at `path` in the text; None if the text has none."""
        return _parse_with_marks(self.text).get(self.index, _NOWHERE).value_at((*self.root.parts, *path.parts))

    def mark_of(self, path: FieldPath) -> Mark:
        """The position of the value at `path` if it is a scalar or on one line.

        Otherwise the position of its key, or of the nearest key or list item above it; else the document's line."""
        part = _parse_with_marks(self.text).get(self.index, _NOWHERE)
        parts = (*self.root.parts, *path.parts)
        value = part.value_at(parts)
        if value is not None and (value.end_line == value.line or part.is_text(parts)):
            return value
        for length in range(len(parts), len(self.root.parts), -1):
            key = part.key_at(parts[:length])
            if key is not None:
                return key
            list_item = part.value_at(parts[:length])  # it has no key
            if list_item is not None:
                return self._rest_of_line(list_item.line, list_item.column)
        return self._rest_of_line(self.line, 1)

    def _rest_of_line(self, line: int, column: int) -> Mark:
        """The position from a place (from 1) to the last visible character of its line, one character at least. In
        YAML, CR, U+0085 and U+2028 end a line, too."""
        lines = self.text.splitlines()
        end = len(lines[line - 1].rstrip()) + 1 if line <= len(lines) else column
        return Mark(line, column, line, max(end, column + 1))


class Manifests(NamedTuple):
    """The objects and errors of a file."""

    documents: tuple[Document, ...]
    errors: tuple[ReadError, ...] = ()
    notes: tuple[Note, ...] = ()
    """Notes that are not about one object: a skipped Helm template, a document that is not an object."""


def read(text: str | bytes, name: str) -> Manifests:
    """The objects in `text`, the contents of the file `name` (which is only used in messages). Never raises.

    A broken document is an error and does not hide the others. Lists and OpenShift Templates are split into their
    objects. A document is left out with a note if template actions make it invalid YAML, or if it is not an object.
    """
    if isinstance(text, bytes):
        try:
            text = encoding.decode(text)
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            why = f"not {error.encoding.upper()}: byte 0x{error.object[error.start]:02x}"
            return Manifests((), (ReadError(name, line, why),))
    text = text.removeprefix("\ufeff")
    parts = list(_parse(text))
    documents: list[Document] = []
    errors: list[ReadError] = []
    notes: list[Note] = []
    for part in parts:
        if part.error:
            action_line = _template_line(text, part.line)
            if action_line is None:
                errors.append(ReadError(name, part.line, part.error))
            elif not any(note.line == action_line for note in notes):
                notes.append(Note(name, action_line, _IS_TEMPLATE, skips="helm-template"))
            continue
        duplicates = tuple(
            Note(name, line, f"duplicate key {path}: the last one counts", path) for line, path in part.duplicates
        )
        documents_of_part, notes_of_part = _take_apart(part, duplicates, name, text)
        documents += documents_of_part
        notes += notes_of_part
    return Manifests(tuple(documents), tuple(errors), tuple(notes))


MAX_INNER_LENGTH = 1 << 15
"""The longest YAML text inside an object that is read, in characters. Each line takes 10 microseconds. A configuration
of Ray or a patch of a Pod has less than a tenth of that."""


def load(text: str) -> Any:
    """The value of the first document of `text`, a YAML text inside an object.

    None if there is none, if it can't be read, or if it has more than `MAX_INNER_LENGTH` characters."""
    if len(text) > MAX_INNER_LENGTH:
        return None
    part = next(iter(_parse(text)), None)
    return None if part is None or part.error else part.value


def list_items(obj: Mapping[str, Any]) -> list[tuple[FieldPath, Any]] | None:
    """(place, object) of the items of a List (or DeploymentList …) or an OpenShift Template, with parameters filled in;
    None for other kinds. Items of a DeploymentList get its apiVersion and the kind Deployment, if they have none."""
    kind = str(obj.get("kind") or "")
    objects, items = obj.get("objects"), obj.get("items")
    if kind == "Template" and isinstance(objects, list):
        return parameters.objects(obj, objects)
    if not kind.endswith("List") or not isinstance(items, list):
        return None
    if kind != "List":
        type_of_items = {"apiVersion": obj.get("apiVersion"), "kind": kind.removesuffix("List")}
        items = [{**type_of_items, **item} if isinstance(item, Mapping) else item for item in items]
    return [(FieldPath(("items", index)), parameters.with_parameters_of(obj, item)) for index, item in enumerate(items)]


# ── Documents → objects ──────────────────────────────────────────────────────────────────────────────────────────────


_NOWHERE = Part(0, 1)
"""A document without positions of keys and values."""


def _take_apart(part: Part, duplicates: tuple[Note, ...], file: str, text: str) -> tuple[list[Document], list[Note]]:
    """The objects of one document, and the notes that belong to none of them; both empty for an empty document.
    `duplicates`: notes on duplicate keys of the document; `text`: the complete file."""
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
            why = f"{place}skipped: {_describe_scalar(value)} is not a Kubernetes object"
            notes.append(Note(file, part.line, why, root, skips="not-an-object"))
        elif (items := list_items(value)) is not None:
            queue += [(root.join(*place.parts), item) for place, item in items]
        else:
            own_notes = tuple(note for note in duplicates if note.path.parts[: len(root.parts)] == root.parts)
            line = _parse_with_marks(text).get(part.index, part).line_of(root.parts) if root.parts else None
            line = line or part.line
            if "$" in text:
                filled = parameters.of_placeholders(value, known=part.has_placeholders)
                if filled is not None:
                    value = filled
                    notes.append(Note(file, line, _HAS_PLACEHOLDERS, root, skips="template"))
            documents.append(Document(value, line, part.index, root, own_notes, text))
    notes_of_documents = {note for document in documents for note in document.notes}
    return documents, [*notes, *(note for note in duplicates if note not in notes_of_documents)]


def _describe_scalar(value: object) -> str:
    """How a message names a document that is not an object: "the text 'a'", "a list"."""
    if value is None or isinstance(value, list):
        return "null" if value is None else "a list"
    kind = {str: "text", bool: "boolean"}.get(type(value), "number")
    return f"the {kind} {shortened(FORMS.masked(repr(value), quoted=True), 40)}"


_TEMPLATE = regex(
    r"""^[ \t]*(?:-[ \t]+)*(?:[\w./"'-]+:[ \t]+)?\{\{|(?<=[:,\[{])[ \t]*\{\{-?[ \t]*[.$A-Za-z(]""", re.MULTILINE
)
"""A template action where YAML's structure would be, in block or in flow style; `name: "{{.Name}}"` is an ordinary
text."""


_HAS_PLACEHOLDERS = (
    "a template: variables (${…}) are in the place of numbers; such values are unknown, and no finding is certain; "
    "check the result: envsubst < FILE | podfit check -"
)
_IS_TEMPLATE = "skipped: a Helm template; check what `helm template` prints (`podfit check --helm CHART`)"
_SEPARATOR = regex(r"^---(?:\s|$)", re.MULTILINE)


def _template_line(text: str, line: int) -> int | None:
    """The line (from 1) of the first template action where YAML's structure would be, in the document that has this
    `line` (from 1); None without one."""
    place = yaml_text.line_start(text, line - 1)
    start, end = 0, len(text)  # of the document, in characters
    if place == end:  # an error behind the last line
        return None
    for separator in _SEPARATOR.finditer(text):
        if separator.start() > place:
            end = separator.start()
            break
        start = separator.start()
    match = _TEMPLATE.search(text, start, end)
    return text.count("\n", 0, match.end()) + 1 if match else None


# ── Text → documents ─────────────────────────────────────────────────────────────────────────────────────────────────


def _parse(text: str, *, lines: bool = False) -> Iterator[Part]:
    """Every document of `text`, in order; broken ones as errors.

    `lines`: with the positions of all keys and values, for which JSON is read as YAML. If `${NAME}` breaks a document,
    the text is read again with other characters in the place of these braces, which are put back into the values."""
    if not lines and text.lstrip()[:1] in ("{", "["):
        try:
            yield from list(json_text.parse(text))
            return
        except ValueError:
            pass  # YAML's flow style starts so too
    parts = yaml_text.parse(text, lines)
    if "${" not in text:
        yield from parts
        return
    read = list(parts)
    if any(part.error for part in read):  # `{nvidia.com/gpu: ${GPUS}}` is YAML only without the inner braces
        hidden = list(yaml_text.parse(_BRACED.sub(rf"${_OPEN}\1{_CLOSE}", text), lines))
        if not any(part.error for part in hidden):
            read = [replace(part, value=_with_braces(part.value), has_placeholders=True) for part in hidden]
    yield from read


_OPEN, _CLOSE = "\ue000", "\ue001"
"""Stand for braces, of the same length; no font has characters here (Unicode, private use)."""
_BRACED = regex(r"\$\{([^{}\n]*)\}")


def _with_braces(value: Any) -> Any:
    """A document's value with the braces that were hidden."""
    if isinstance(value, str):
        return value.replace(_OPEN, "{").replace(_CLOSE, "}")
    if isinstance(value, list):
        return [_with_braces(item) for item in value]
    if isinstance(value, dict):
        return {_with_braces(key): _with_braces(item) for key, item in value.items()}
    return value


@lru_cache(maxsize=4)
def _parse_with_marks(text: str) -> Mapping[int, Part]:
    """Index → document, with the positions of its keys and values."""
    # YAML rejects tabs that JSON allows; a space in their place changes no position.
    text = text.replace("\t", " ") if text.lstrip()[:1] in ("{", "[") else text
    return {part.index: part for part in _parse(text, lines=True)}
