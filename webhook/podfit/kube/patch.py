"""Edits as rules yield them → one JSON Patch (RFC 6902)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from podfit.base.lazy import regex
from podfit.kube import quantity
from podfit.kube.path import FieldPath, has_child, is_object


class _Place(NamedTuple):
    """A place in an object that can be read and set: `parent[key]`."""

    parent: Any
    """A list or an object."""
    key: str | int
    path: FieldPath
    """The place in the entire object."""


class Edit(NamedTuple):
    """A change as data, with one of these operations:

    - `set` a field, and create its parents
    - `append` to a list, and create it if absent
    - `remove` a field
    - `swap` a part of a text, or consecutive items of a list"""

    path: FieldPath
    value: Any = None
    """The value to set or append; for `swap`, the old part and its replacement."""
    op: Literal["set", "append", "remove", "swap"] = "set"


def json_patch(obj: Any, edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """The smallest JSON Patch that makes `edits` on `obj`.

    Missing parents are created once, and an edit that changes nothing adds no operation. A parent is created as a list
    if the next part is an int or the op is "append".

    The edits are made in order, each on the result of the ones before it. No edit loses data. `append` of an item that
    the list has already, `remove` of an absent field, and `swap` of a part that is not there exactly once change
    nothing. `set` beyond a list's end appends. null counts as absent. Raises ValueError if a parent has another type (a
    text instead of a list or an object).
    """
    return _apply_edits([_copy(obj)], edits)  # in a list, so that the root is a field too


def edited(obj: Any, several: Iterable[Iterable[Edit]]) -> tuple[Any, list[bool]]:
    """`obj` with several groups of edits made one after the other, as a new object. Also a list with True for each
    group that changed anything. Raises ValueError as `json_patch` does."""
    root = [_copy(obj)]
    changed = [bool(_apply_edits(root, edits)) for edits in several]
    return root[0], changed


def _apply_edits(values: list[Any], edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """The patch of the edits, which are made on `values`: a list with the object as its only item, so that an edit can
    replace the object itself."""
    patch: list[dict[str, Any]] = []
    for edit in edits:
        if edit.op == "swap":
            patch += _swap_operations(values, edit)
            continue
        operation = _operation(values, edit)
        if operation is not None and not _join_operation(patch, operation):
            patch.append(operation)
    return patch


def apply(obj: Any, patch: Iterable[dict[str, Any]]) -> Any:
    """`obj` with `patch` applied, as a new object; `obj` is not changed. Raises `jsonpatch.JsonPatchException` or
    `jsonpointer.JsonPointerException` if the patch does not fit."""
    import jsonpatch

    return jsonpatch.apply_patch(_copy(obj), list(patch), in_place=True)


def _copy(value: Any) -> Any:
    """A copy in which nothing is shared: what YAML's aliases read is one object in several places, and an edit of one
    place must not show in the others."""
    if isinstance(value, Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def fits(obj: Any, edits: Iterable[Edit]) -> bool:
    """True if every edit can be made alone: no field on its path has a value of another type (`resources: 64Gi`)."""
    try:
        for edit in edits:
            place = _deepest_existing([obj], edit)
            if edit.op == "append" and len(place.path.parts) == len(edit.path.parts):
                _list(_child(place.parent, place.key), place.path)  # only for its ValueError
    except ValueError:
        return False
    return True


_GRANTED = regex(
    r"failureThreshold|replicas|minReplicas|maxReplicas|minReplicaCount|maxReplicaCount|sizeLimit|storage|"
    r"(period|timeout|initialDelay|progressDeadline|terminationGracePeriod|activeDeadline|ttl\w*)Seconds"
)
"""Fields with numbers that an author grants: probe windows, sizes, replicas. All fields of `resources` are, too."""


def shrinks(obj: Any, edits: Iterable[Edit]) -> str | None:
    """A clause on the first edit that would make a number or a quantity of `_GRANTED` smaller than its author wrote it;
    None: no edit does."""
    for edit in edits:
        now = edit.path.get(obj) if edit.op == "set" else None
        if now is None:
            continue
        field = edit.path.parts[-1]
        is_granted = isinstance(field, str) and _GRANTED.fullmatch(field) is not None
        if not is_granted and "resources" not in edit.path.parts:
            continue
        before, after = quantity.try_parse(now), quantity.try_parse(edit.value)
        if before is not None and after is not None and after < before:
            return f"it would replace {field}: {now} by {edit.value}"
    return None


def _deepest_existing(values: Sequence[Any], edit: Edit) -> _Place:
    """The place of the deepest part of the edit's path whose parent exists; null counts as absent. `values`: the object
    as the only item of a list. Raises ValueError if a parent has another type."""
    parent: Any = values
    key: str | int = 0
    parts, child = edit.path.parts, values[0]
    for depth, part in enumerate(parts):
        if child is None:
            return _Place(parent, key, FieldPath(parts[:depth]))
        if not (isinstance(child, list) if isinstance(part, int) else is_object(child)):
            path = FieldPath(parts[:depth])
            raise ValueError(
                f"{str(path) or 'the object'} holds a {type(child).__name__}, so {edit.path} can't be changed"
            )
        parent, key, child = child, part, _child(child, part)
    return _Place(parent, key, edit.path)


def _list(value: Any, path: FieldPath) -> list[Any] | None:
    """The value if it is a list or None; raises ValueError with its `path` for anything else."""
    if value is None or isinstance(value, list):
        return value
    raise ValueError(f"{path} holds a {type(value).__name__}, no list to append to")


def _operation(values: list[Any], edit: Edit) -> dict[str, Any] | None:
    """The edit (`set`, `append` or `remove`) as one operation of JSON Patch, made on `values`, too; None if it changes
    nothing. `values`: the object as the only item of a list."""
    parent, key, path = _deepest_existing(values, edit)
    missing = edit.path.parts[len(path.parts) :]  # parts below `path`, which the value must be wrapped in
    now = _child(parent, key)
    if edit.op == "remove":
        if missing or not has_child(parent, key):
            return None
        del parent[key]
        return {"op": "remove", "path": path.pointer()}
    value = _copy(edit.value)
    if edit.op == "append":
        if not missing and _list(now, path) is not None:
            if any(_equal_as_json(value, item) for item in now):
                return None
            now.append(value)
            return {"op": "add", "path": path.pointer() + "/-", "value": _copy(value)}
        value = [value]
    elif not missing and has_child(parent, key) and _equal_as_json(now, value):
        return None
    for part in reversed(missing):
        value = [value] if isinstance(part, int) else {part: value}
    if isinstance(parent, list) and isinstance(key, int) and key >= len(parent):
        parent.append(value)
        return {"op": "add", "path": FieldPath((*path.parts[:-1], "-")).pointer(), "value": _copy(value)}
    op = "replace" if has_child(parent, key) else "add"
    parent[key] = value
    return {"op": op, "path": path.pointer(), "value": _copy(value)}


def _swap_operations(values: list[Any], edit: Edit) -> list[dict[str, Any]]:
    """The operations of a `swap` of one part of a list or a text by another, made on `values`, too. Empty if the old
    part is not there exactly once. A text is replaced, and a list that grows; of another list only items that
    change."""
    parent, key, path = _deepest_existing(values, edit)
    now, (old, new) = _child(parent, key), edit.value
    if path != edit.path or not old:
        return []
    if isinstance(now, str) and isinstance(old, str):
        if now.count(old) != 1:
            return []
        parent[key] = now.replace(old, new)
        return [{"op": "replace", "path": path.pointer(), "value": parent[key]}]
    if not isinstance(now, list):
        return []
    starts = [index for index in range(len(now)) if now[index : index + len(old)] == list(old)]
    if len(starts) != 1:
        return []
    start = starts[0]
    now[start : start + len(old)] = new
    if len(new) > len(old):
        return [{"op": "replace", "path": path.pointer(), "value": _copy(now)}]
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": (path / (start + offset)).pointer(), "value": item}
        for offset, item in enumerate(new)
        if item != old[offset]
    ]
    # The last one first, so that no removal changes the index of another item that is to be removed.
    for index in reversed(range(start + len(new), start + len(old))):
        operations.append({"op": "remove", "path": (path / index).pointer()})
    return operations


def _join_operation(patch: list[dict[str, Any]], operation: dict[str, Any]) -> bool:
    """Make `operation` part of what an earlier operation of `patch` adds, and return True; False if that is not
    possible. So a new parent comes with its fields, instead of empty before them."""
    if operation["op"] == "remove":
        return False
    for earlier in reversed(patch):
        if earlier["op"] == "remove":
            return False  # list items may have moved
        if earlier["path"] == operation["path"] and operation["op"] == "replace":
            earlier["value"] = operation["value"]
            return True
        prefix = earlier["path"] + "/"
        if earlier["path"].endswith("/-"):  # an item at the end of a list, whose index is not known
            continue
        if operation["path"].startswith(prefix):
            tokens = operation["path"].removeprefix(prefix).split("/")
            _set_below(earlier["value"], tokens, operation["value"])
            return True
    return False


def _set_below(parent: Any, tokens: Sequence[str], value: Any) -> None:
    """Set the value at a place below `parent`, which exists but for the last token. `tokens`: of a JSON Pointer, still
    escaped; "-" and the length of a list append to it."""
    names = [token.replace("~1", "/").replace("~0", "~") for token in tokens]
    for name in names[:-1]:
        parent = parent[int(name)] if isinstance(parent, list) else parent[name]
    last = names[-1]
    if not isinstance(parent, list):
        parent[last] = value
    elif last in ("-", str(len(parent))):
        parent.append(value)
    else:
        parent[int(last)] = value


def _child(parent: Any, key: str | int) -> Any:
    """The value at `parent[key]`; None if there is none."""
    if isinstance(parent, dict):
        return parent.get(key)
    return parent[key] if has_child(parent, key) else None


def _equal_as_json(first: Any, other: Any) -> bool:
    """True if the values are equal as JSON: unlike in Python, `true` is not 1."""
    if isinstance(first, bool) or isinstance(other, bool):
        return first is other
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        return first.keys() == other.keys() and all(_equal_as_json(value, other[key]) for key, value in first.items())
    if isinstance(first, list) and isinstance(other, list):
        return len(first) == len(other) and all(map(_equal_as_json, first, other))
    return bool(first == other)
