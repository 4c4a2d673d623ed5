"""Edits as rules yield them → one JSON Patch (RFC 6902)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from podfit.base.lazy import regex
from podfit.kube import quantity
from podfit.kube.path import FieldPath, has_child, is_object


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
    """`obj` with several groups of edits made, as a new object, and of each group whether it changed anything. Raises
    ValueError as `json_patch` does."""
    items = [_copy(obj)]
    changed = [bool(_apply_edits(items, edits)) for edits in several]
    return items[0], changed


def _apply_edits(values: list[Any], edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """The patch of the edits, which are made on `values`."""
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
            at, key, path = _deepest_existing([obj], edit)
            if edit.op == "append" and len(path.parts) == len(edit.path.parts):
                _list(_child(at, key), path)
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
        parts = edit.path.parts
        if now is None or not ("resources" in parts or (isinstance(parts[-1], str) and _GRANTED.fullmatch(parts[-1]))):
            continue
        before, after = quantity.try_parse(now), quantity.try_parse(edit.value)
        if before is not None and after is not None and after < before:
            return f"it would replace {parts[-1]}: {now} by {edit.value}"
    return None


def _deepest_existing(values: Sequence[Any], edit: Edit) -> tuple[Any, str | int, FieldPath]:
    """(parent, key, path of the key) for the deepest part of the edit's path whose parent exists; null counts as
    absent. `values`: the object as the only item of a list. Raises ValueError if a parent has another type."""
    at: Any = values
    key: str | int = 0
    parts, child = edit.path.parts, values[0]
    for depth, part in enumerate(parts):
        if child is None:
            return at, key, FieldPath(parts[:depth])
        if not (isinstance(child, list) if isinstance(part, int) else is_object(child)):
            path = FieldPath(parts[:depth])
            raise ValueError(
                f"{str(path) or 'the object'} holds a {type(child).__name__}, so {edit.path} can't be changed"
            )
        at, key, child = child, part, _child(child, part)
    return at, key, edit.path


def _list(value: Any, path: FieldPath) -> list[Any] | None:
    """A list or nothing; raises ValueError for anything else."""
    if value is None or isinstance(value, list):
        return value
    raise ValueError(f"{path} holds a {type(value).__name__}, no list to append to")


def _operation(values: list[Any], edit: Edit) -> dict[str, Any] | None:
    """The edit as one operation, made on `values` too; None if it changes nothing."""
    at, key, path = _deepest_existing(values, edit)
    rest = edit.path.parts[len(path.parts) :]
    now = _child(at, key)
    if edit.op == "remove":
        if rest or not has_child(at, key):
            return None
        del at[key]
        return {"op": "remove", "path": path.pointer()}
    value = _copy(edit.value)
    if edit.op == "append":
        if not rest and _list(now, path) is not None:
            if any(_equal_as_json(value, item) for item in now):
                return None
            now.append(value)
            return {"op": "add", "path": path.pointer() + "/-", "value": _copy(value)}
        value = [value]
    elif not rest and has_child(at, key) and _equal_as_json(now, value):
        return None
    for part in reversed(rest):
        value = [value] if isinstance(part, int) else {part: value}
    if isinstance(at, list) and isinstance(key, int) and key >= len(at):
        at.append(value)
        return {"op": "add", "path": FieldPath((*path.parts[:-1], "-")).pointer(), "value": _copy(value)}
    op = "replace" if has_child(at, key) else "add"
    at[key] = value
    return {"op": op, "path": path.pointer(), "value": _copy(value)}


def _swap_operations(values: list[Any], edit: Edit) -> list[dict[str, Any]]:
    """The operations of a `swap` of one part of a list or a text by another, made on `values` too. Empty if the old
    part is not there exactly once. A list that grows is replaced whole; else only items that change."""
    at, key, path = _deepest_existing(values, edit)
    now, (old, new) = _child(at, key), edit.value
    if path != edit.path or not old:
        return []
    if isinstance(now, str) and isinstance(old, str):
        if now.count(old) != 1:
            return []
        at[key] = now.replace(old, new)
        return [{"op": "replace", "path": path.pointer(), "value": at[key]}]
    places = [n for n in range(len(now)) if now[n : n + len(old)] == list(old)] if isinstance(now, list) else []
    if len(places) != 1:
        return []
    start = places[0]
    if len(new) > len(old):
        now[start : start + len(old)] = new
        return [{"op": "replace", "path": path.pointer(), "value": _copy(now)}]
    changed = [n for n, item in enumerate(new) if item != old[n]]
    gone = range(start + len(old) - 1, start + len(new) - 1, -1)
    now[start : start + len(old)] = new
    return [
        *({"op": "replace", "path": (path / (start + n)).pointer(), "value": new[n]} for n in changed),
        *({"op": "remove", "path": (path / n).pointer()} for n in gone),
    ]


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
        if earlier["path"].endswith("/-") or not operation["path"].startswith(prefix):
            continue
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in operation["path"][len(prefix) :].split("/")]
        at: Any = earlier["value"]
        for token in tokens[:-1]:
            at = at[int(token)] if isinstance(at, list) else at[token]
        if isinstance(at, list) and tokens[-1] in ("-", str(len(at))):
            at.append(operation["value"])
        else:
            at[int(tokens[-1]) if isinstance(at, list) else tokens[-1]] = operation["value"]
        return True
    return False


def _child(at: Any, key: str | int) -> Any:
    return at.get(key) if isinstance(at, dict) else at[key] if has_child(at, key) else None


def _equal_as_json(first: Any, other: Any) -> bool:
    """Equal as JSON: unlike in Python, `true` is not 1."""
    if isinstance(first, bool) or isinstance(other, bool):
        return first is other
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        return first.keys() == other.keys() and all(_equal_as_json(value, other[key]) for key, value in first.items())
    if isinstance(first, list) and isinstance(other, list):
        return len(first) == len(other) and all(map(_equal_as_json, first, other))
    return bool(first == other)
