"""Edits → the text of a file with them made, every other line as it was, and the difference as a diff.

A round trip through a YAML library reflows quotes, indentation and long lines, so the text is edited where libyaml's
marks place a node (`podfit.report.marks`). The result is read again and compared with what the edits mean:
where they disagree (an anchor that others share), nothing is written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from podfit.base.lazy import regex
from podfit.kube import manifest
from podfit.kube.patch import Edit, apply, json_patch
from podfit.report.marks import Marked, tokens

Edits = Iterable[tuple[int, Sequence[Edit]]]
"""(index of a document in the text, from 0; the edits of that document)."""
Operation = Mapping[str, Any]
"""One operation of a JSON Patch: "op", "path" (a JSON Pointer), and for `add` and `replace` "value"."""


def rewrite(text: str, edits: Edits) -> str:
    """`text` with the edits of each document made, as YAML or JSON, whichever it is.

    Raises ValueError if the text can't be rewritten without changes that the edits do not ask for.
    """
    if text.lstrip()[:1] in ("{", "["):
        parts, documents = [text], [0]
    else:
        parts = re.split(r"(?m)^(---(?:[ \t].*)?\r?\n)", text)  # text, separator, text, separator, text …
        documents = list(range(0, len(parts), 2))  # indices in `parts`
        if not _has_content(parts[0]):
            del documents[0]  # nothing or comments before the first separator: not a document
    for number, changes in edits:
        if number >= len(documents):
            raise ValueError("several documents without --- between them")
        index = documents[number]
        parts[index] = _edited_document(parts[index], changes)
    return "".join(parts)


def _has_content(text: str) -> bool:
    """True if YAML text has more than blank lines, comments (`#`) and directives (`%`)."""
    return any(line.strip() and not line.lstrip().startswith(("#", "%")) for line in text.splitlines())


class _Version(NamedTuple):
    """A document after some operations."""

    text: str
    target: Any
    """The object that the text has to mean."""

    @property
    def is_right(self) -> bool:
        """True if YAML reads the text as the object."""
        return bool(manifest.load(self.text) == self.target)


def _edited_document(text: str, changes: Sequence[Edit]) -> str:
    """One YAML or JSON document with the changes. Raises ValueError if its anchors or merge keys share what changes.

    Of an operation on a list, its items are changed one by one first, since that keeps the most lines and comments.
    Where this goes wrong (an anchor), the whole list is replaced."""
    obj = manifest.load(text)
    version = _Version(text, obj)
    for operation in json_patch(obj, changes):
        by_item = list(_item_operations(version.target, operation))
        next_version = _changed(version, by_item) if by_item else None
        if next_version is None or not next_version.is_right:
            next_version = _changed(version, _field_operations(version.target, operation))
        version = next_version
    if not version.is_right:
        raise ValueError("the YAML shares what is to be changed with other places (an anchor, a merge key)")
    return version.text


def _changed(version: _Version, operations: Iterable[Operation]) -> _Version:
    """The text and the object after all the operations."""
    text, target = version
    for operation in operations:
        target = apply(target, [dict(operation)])
        if not _is_applied(manifest.load(text), operation):  # an anchor that was changed has changed its aliases too
            text = Marked(text).change(operation, target)
    return _Version(text, target)


def _item_operations(obj: Any, operation: Operation) -> Iterator[Operation]:
    """Operations on single items that do the same as the replacement of a list of texts by another one, so that all
    other items keep their lines and comments. Nothing for another operation, or if one of the lists is empty."""
    path, new = operation["path"], operation.get("value")
    old = _get(obj, tokens(path)) if operation["op"] == "replace" else None
    if not (isinstance(old, list) and isinstance(new, list) and old and new):
        return
    if not all(isinstance(item, str) for item in (*old, *new)):
        return
    shift = 0  # how many items the operations so far have added, less those that they have removed
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        replaced = min(old_end - old_start, new_end - new_start)
        for offset in range(replaced):
            yield {"op": "replace", "path": f"{path}/{old_start + offset + shift}", "value": new[new_start + offset]}
        for _ in range(old_start + replaced, old_end):  # each at the same index, to which the next item moves up
            yield {"op": "remove", "path": f"{path}/{old_start + replaced + shift}"}
        for index in range(new_start + replaced, new_end):
            yield {"op": "add", "path": f"{path}/{index}", "value": new[index]}
        shift += (new_end - new_start) - (old_end - old_start)


def _field_operations(obj: Any, operation: Operation) -> Iterator[Operation]:
    """Operations on the fields that differ, instead of the replacement of an object by one that shares a key with it,
    so that equal fields keep their lines. Any other operation itself."""
    path, new = operation["path"], operation.get("value")
    old = _get(obj, tokens(path)) if operation["op"] == "replace" else None
    if not isinstance(old, Mapping) or not isinstance(new, Mapping) or not set(old) & set(new):
        yield operation
        return
    for key, value in new.items():
        field = f"{path}/{_escaped(key)}"
        if key not in old:
            yield {"op": "add", "path": field, "value": value}
        elif old[key] != value:
            yield from _field_operations(obj, {"op": "replace", "path": field, "value": value})
    for key in old.keys() - new.keys():
        yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}


def _escaped(key: str) -> str:
    """The key as a part of a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _is_applied(obj: Any, operation: Operation) -> bool:
    """True if the operation would change nothing in the object.

    Always False for an item inserted at an index, since an equal item there may be another one. Also for the value
    null, which for `_get` is the same as an absent one."""
    *parents, last = tokens(operation["path"])
    parent = _get(obj, parents)
    if operation["op"] == "remove":
        return isinstance(parent, Mapping) and last not in parent
    value = operation["value"]
    if last == "-":
        return isinstance(parent, list) and value in parent
    if value is None or (operation["op"] == "add" and isinstance(parent, list)):
        return False
    return bool(_get(parent, [last]) == value)


def _get(obj: Any, parts: Sequence[str]) -> Any:
    """The value at a path of keys and of indices in digits; None if there is none, or if it is null."""
    for part in parts:
        if isinstance(obj, list):
            obj = obj[int(part)] if part.isdigit() and int(part) < len(obj) else None
        else:
            obj = obj.get(part) if isinstance(obj, Mapping) else None
    return obj


def diff(before: str, after: str, name: str) -> str:
    """A unified diff for `git apply` and `patch -p1` in the folder that the file's name starts from; empty if the texts
    are equal. `name`: relative with slashes, or absolute: then it is for `patch -p1 -d /`."""
    path = name.lstrip("/")
    old, new = _in_header(f"a/{path}"), _in_header(f"b/{path}")
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
