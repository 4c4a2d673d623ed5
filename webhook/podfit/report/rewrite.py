"""Edits → the text of a file with them made, every other line as it was, and the difference as a diff.

A round trip through a YAML library reflows quotes, indentation and long lines, so the text is edited where libyaml's
marks place a node (`podfit.report.marks`). The result is read again and compared with what the edits mean:
where they disagree (an anchor that others share), nothing is written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from podfit.base.lazy import regex
from podfit.kube import manifest
from podfit.kube.patch import Edit, apply, json_patch
from podfit.report.marks import Marked

Edits = Iterable[tuple[int, Sequence[Edit]]]
"""Index of a document in the text → the edits of that document."""
Operation = Mapping[str, Any]


def rewrite(text: str, edits: Edits) -> str:
    """`text` with the edits of each document made, as YAML or JSON, whichever it is.

    Raises ValueError where the text can't be rewritten without changing what is not asked for.
    """
    if text.lstrip()[:1] in ("{", "["):
        parts, bodies = [text], [0]
    else:
        parts = re.split(r"(?m)^(---(?:[ \t].*)?\r?\n)", text)  # text, separator, text, separator, text …
        bodies = [index for index in range(0, len(parts), 2) if index or parts[0].strip()]
        if bodies[:1] == [0] and not _content(parts[0]):
            bodies = bodies[1:]  # comments before the first separator are not a document
    for number, changes in edits:
        if number >= len(bodies):
            raise ValueError("several documents without --- between them")
        at = bodies[number]
        parts[at] = _document(parts[at], changes)
    return "".join(parts)


def _content(text: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith(("#", "%")) for line in text.splitlines())


def _document(text: str, changes: Sequence[Edit]) -> str:
    """One YAML document with the changes; raises ValueError if its anchors or merge keys share what changes."""
    before = manifest.load(text)
    target = before
    for operation in json_patch(before, changes):
        items = [*_items(target, operation)]
        itemwise = _changed(text, target, items) if items else None
        if itemwise is None or manifest.load(itemwise[0]) != itemwise[1]:
            itemwise = _changed(text, target, _small(target, operation))
        text, target = itemwise
    if manifest.load(text) != target:
        raise ValueError("the YAML shares what is to be changed with other places (an anchor, a merge key)")
    return text


def _changed(text: str, value: Any, operations: Iterable[Operation]) -> tuple[str, Any]:
    """The text and the object with the operations made."""
    for small in operations:
        value = apply(value, [dict(small)])
        if not _is_applied(manifest.load(text), small):  # an anchor that was changed has changed its aliases too
            text = Marked(text).change(small, value)
    return text, value


def _items(obj: Any, operation: Operation) -> Iterator[Operation]:
    """A list of texts in place of another one, item by item, so that the others keep their lines and comments; nothing
    where it is not such an operation."""
    path, value = operation["path"], operation.get("value")
    old = _get(obj, tokens(path)) if operation["op"] == "replace" else None
    if not (isinstance(old, list) and isinstance(value, list) and old and value):
        return
    if not all(isinstance(item, str) for item in (*old, *value)):
        return
    shift = 0
    for _, start, end, first, last in difflib.SequenceMatcher(None, old, value, autojunk=False).get_opcodes():
        if old[start:end] == value[first:last]:
            continue
        both = min(end - start, last - first)
        for n in range(both):
            yield {"op": "replace", "path": f"{path}/{start + n + shift}", "value": value[first + n]}
        for _ in range(start + both, end):
            yield {"op": "remove", "path": f"{path}/{start + both + shift}"}
        for n in range(first + both, last):
            yield {"op": "add", "path": f"{path}/{n}", "value": value[n]}
        shift += (last - first) - (end - start)


def _small(obj: Any, operation: Operation) -> Iterator[Operation]:
    """The operation, a replaced object taken apart, so that the fields which stay the same keep their lines."""
    path, value = operation["path"], operation.get("value")
    old = _get(obj, tokens(path)) if operation["op"] == "replace" else None
    if not isinstance(old, Mapping) or not isinstance(value, Mapping) or not old or not value:
        yield operation
        return
    if not set(old) & set(value):
        yield operation
        return
    for key, new in value.items():
        at = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in old:
            yield {"op": "add", "path": at, "value": new}
        elif old[key] != new:
            yield from _small(obj, {"op": "replace", "path": at, "value": new})
    for key in old.keys() - value.keys():
        yield {"op": "remove", "path": f"{path}/{key.replace('~', '~0').replace('/', '~1')}"}


def _is_applied(obj: Any, operation: Operation) -> bool:
    """The object is already as the operation would leave it."""
    *parents, last = tokens(operation["path"])
    at = _get(obj, parents)
    if operation["op"] == "remove":
        return isinstance(at, Mapping) and last not in at
    if last == "-":
        return isinstance(at, list) and operation["value"] in at
    if operation["op"] == "add" and isinstance(at, list):
        return False
    return at is not None and _get(at, [last]) == operation["value"] and operation["value"] is not None


def tokens(pointer: str) -> list[str]:
    """The parts of a JSON Pointer."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _get(obj: Any, parts: Sequence[str]) -> Any:
    """The value at a path of keys and indices; None if there is none."""
    for part in parts:
        if isinstance(obj, list):
            obj = obj[int(part)] if part.isdigit() and int(part) < len(obj) else None
        else:
            obj = obj.get(part) if isinstance(obj, Mapping) else None
    return obj


def diff(before: str, after: str, name: str) -> str:
    """A unified diff for `git apply` and `patch -p1` in the folder that the file's name starts from; empty if the texts
    are equal. `name`: relative with slashes, or absolute: then it is for `patch -p1 -d /`."""
    old, new = (_in_header(f"{side}/{name.lstrip('/')}") for side in "ab")
    lines = difflib.unified_diff(_LINE.findall(before), _LINE.findall(after), old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


_LINE = regex(r"[^\n]*\n|[^\n]+")
"""A line of a diff: only a line feed ends it, unlike in `str.splitlines`."""
_QUOTED = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def _in_header(path: str) -> str:
    """A path as git writes it in a diff: quoted as in C if it must be; a tab ends one that has a space."""
    if any(character in _QUOTED for character in path):
        return f'"{"".join(_QUOTED.get(character, character) for character in path)}"'
    return f"{path}\t" if " " in path else path
