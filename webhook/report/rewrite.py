"""Edits → YAML text with comments, order and quotes kept, and the difference as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from webhook.patch import Edit, json_patch


def yaml(text: str, edits: Iterable[tuple[int, Sequence[Edit]]]) -> str:
    """`text` (a multi-document YAML) with the edits of each document (its index in the text) made.

    A round-trip load and dump with ruamel.yaml: comments, order, quotes and anchors stay, indentation as it was found.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.util import load_yaml_guess_indent

    _, indent, offset = load_yaml_guess_indent(text)
    round_trip = YAML(typ="rt")
    round_trip.preserve_quotes = True
    round_trip.width = 1 << 16
    round_trip.explicit_start = text.lstrip().startswith("---")
    if indent is not None:
        round_trip.indent(mapping=2, sequence=indent, offset=offset or 0)
    documents = list(round_trip.load_all(text))
    for index, changes in edits:
        _apply(documents[index], json_patch(documents[index], changes))
    out = StringIO()
    round_trip.dump_all(documents, out)
    return out.getvalue()


def _apply(document: Any, patch: list[dict[str, Any]]) -> None:
    """RFC 6902 `add`, `replace` and `remove` in place: only so do the comments of what is around stay."""
    for operation in patch:
        *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
        at = document
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if operation["op"] == "remove":
            del at[int(last) if isinstance(at, list) else last]
        elif isinstance(at, list):
            at.insert(len(at) if last == "-" else int(last), operation["value"])
        else:
            at[last] = operation["value"]


def diff(before: str, after: str, name: str) -> str:
    """A unified diff, empty where nothing differs."""
    return "".join(
        difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), name, f"{name} (fixed)")
    )
