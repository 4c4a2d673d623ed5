"""Edits → the text of a file with them made: comments, order and quotes kept, and the difference as a diff."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from webhook.patch import Edit, apply, json_patch

Edits = Iterable[tuple[int, Sequence[Edit]]]
"""Index of a document in the text → the edits of that document."""


def rewrite(text: str, edits: Edits) -> str:
    """`text` with the edits of each document made, as YAML or JSON, whichever it is.

    Raises ValueError where the text can't be rewritten without changing what is not asked for (duplicate keys).
    """
    return _json(text, edits) if text.lstrip()[:1] in "{[" else _yaml(text, edits)


def _json(text: str, edits: Edits) -> str:
    """JSON with the indentation that it had."""
    document = json.loads(text)
    for _, changes in edits:
        document = apply(document, json_patch(document, changes))
    found = re.match(r"[{\[]\s*\n( +|\t)", text.lstrip())
    indent = found[1] if found else None
    end = "\n" if text.endswith("\n") else ""
    return json.dumps(document, indent=indent, ensure_ascii=False) + end


def _yaml(text: str, edits: Edits) -> str:
    """A round-trip load and dump with ruamel.yaml of the documents that change; the others stay as they are."""
    parts = re.split(r"(?m)^(---(?:[ \t].*)?\n)", text)  # text, separator, text, separator, text …
    bodies = [index for index in range(0, len(parts), 2) if index or parts[0].strip()]
    if bodies[:1] == [0] and not _content(parts[0]):
        bodies = bodies[1:]  # comments before the first separator are no document
    for number, changes in edits:
        at = bodies[number]
        parts[at] = _document(parts[at], changes)
    return "".join(parts)


def _content(text: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith(("#", "%")) for line in text.splitlines())


def _document(text: str, changes: Sequence[Edit]) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.util import load_yaml_guess_indent

    round_trip = YAML(typ="rt")
    round_trip.preserve_quotes = True
    round_trip.width = 1 << 16
    try:
        _, indent, offset = load_yaml_guess_indent(text)
        if indent is not None:
            round_trip.indent(mapping=2, sequence=indent, offset=offset or 0)
        document = round_trip.load(text)
    except YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    _change(document, json_patch(document, changes))
    out = StringIO()
    round_trip.dump(document, out)
    return out.getvalue()


def _change(document: Any, patch: list[dict[str, Any]]) -> None:
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
