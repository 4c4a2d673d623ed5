"""Bounds of a webhook's answer, in bytes. The JSON Patch has no bound, since the API server applies it.

Kubernetes copies a denial into Events, into the condition of a ReplicaSet (at most 32,768 characters,
k8s.io/apimachinery metav1.Condition) and into the audit log. A bounded text says how many findings it leaves out, and
keeps its last line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_MESSAGE_BYTES = 8 << 10
"""Bytes of `status.message`. A choice: a ReplicaSet's condition with it stays below 32,768 characters."""
MAX_CAUSES_BYTES = 16 << 10
"""Bytes of `status.details.causes` as JSON. A choice, as for the next two: all together are small for the audit log."""
MAX_TEXT_BYTES = 1 << 10
"""Bytes of one text in a cause, and of an audit annotation's value."""
MAX_LAST_LINE_BYTES = 2 << 10
"""Bytes of a message's last line."""
MAX_WARNING_LENGTH, MAX_WARNING_BYTES = 120, 256
"""Characters of a warning, one line of a terminal, and bytes: the API server may cut a warning at 256 runes."""
MAX_WARNINGS_BYTES = 4096
"""Bytes of all warnings of an answer. The API server cuts and drops warnings after 4,096 runes, also those of other
webhooks (k8s.io/apiserver pkg/endpoints/filters/warning.go)."""
_MAX_WARNINGS = MAX_WARNINGS_BYTES // MAX_WARNING_LENGTH
"""Number of warnings that fit if all are as long as they may be."""
_MORE_BYTES = 80
"""Bytes that are reserved for "and N more", in JSON."""
_ESCAPE_BYTES = 5
"""Bytes by which Go's escape of `<`, `>` and `&` (`\\u003c`) is longer than the character."""


class Cause(NamedTuple):
    """One cause of a denial, before its texts are cut."""

    reason: str
    """The id of a rule, or a reason of Kubernetes ("FieldValueInvalid")."""
    field: str
    """The path of the field."""
    text: str


def size(text: str) -> int:
    """Return the bytes of `text` in JSON without the quotes, escaped as by Go (`<`, `>` and `&`) and by Python (all but
    ASCII)."""
    return len(json.dumps(text)) - len('""') + _escape_bytes(text)


def _escape_bytes(text: str) -> int:
    """Return the bytes that Go's escapes of `<`, `>` and `&` add to the text."""
    return _ESCAPE_BYTES * sum(map(text.count, "<>&"))


def cut(text: str, most: int) -> str:
    """Return `text`, or its beginning and "…", in at most `most` bytes of JSON."""
    if size(text) <= most:
        return text
    room = most - size("…")
    for end, character in enumerate(text):
        room -= size(character)
        if room < 0:
            return text[:end] + "…"
    return text + "…"


def message(first: str, blocks: Iterable[str], count: int, last: str) -> str:
    """Return the message of a denial: `first`, the blocks that fit, "and N more", and `last`, with an empty line
    between them.

    If the first block does not fit, it ends after the last line that does. `count`: the number of blocks.
    """
    between = size("\n\n")
    around = size(first) + size(last) + _MORE_BYTES + 3 * between  # after `first`, before "and N more" and `last`
    room = MAX_MESSAGE_BYTES - around
    paragraphs = [first]
    printed = 0
    for block in blocks:
        block_bytes = size(block) + between
        if block_bytes > room:
            if not printed:
                paragraphs.append(_leading_lines(block.split("\n"), room))
                printed = 1
            break
        paragraphs.append(block)
        printed += 1
        room -= block_bytes
    if count > printed:
        paragraphs.append(f"and {count - printed:,} more")
    return "\n\n".join([*paragraphs, last])


def _leading_lines(lines: Iterable[str], room: int) -> str:
    """Return the first lines, as many as fit into `room` bytes of JSON; empty if the first does not fit."""
    fitting: list[str] = []
    for line in lines:
        room -= size(line) + size("\n")
        if room < 0:
            break
        fitting.append(line)
    return "\n".join(fitting)


def causes(rows: Sequence[Cause]) -> list[dict[str, str]]:
    """Return `details.causes`: the causes that fit into MAX_CAUSES_BYTES; if some do not, then one that says "and N
    more"."""
    fitting: list[dict[str, str]] = []
    last_bytes = len(json.dumps(_cause("podfit", "(more)", ""))) + _MORE_BYTES
    room = MAX_CAUSES_BYTES - len("[]") - len(", ") - last_bytes
    for row in rows:
        cause = _cause(row.reason, cut(row.field, MAX_TEXT_BYTES), cut(row.text, MAX_TEXT_BYTES))
        # The escapes of the texts before they are cut: at least as many as are sent.
        room -= len(json.dumps(cause)) + len(", ") + _escape_bytes(row.field + row.text)
        if room < 0:
            return [*fitting, _cause("podfit", "(more)", f"and {len(rows) - len(fitting):,} more")]
        fitting.append(cause)
    return fitting


def _cause(reason: str, field: str, text: str) -> dict[str, str]:
    """Return a cause as the API server expects it (metav1.StatusCause)."""
    return {"reason": reason, "field": field, "message": text}


def join_bounded(words: Sequence[str], most: int = MAX_TEXT_BYTES, between: str = ",") -> str:
    """Join all words if they fit into `most` bytes of JSON; else the first that do, and "+N" for the N others."""
    text = between.join(words)
    if size(text) <= most:
        return text
    room = most - _MORE_BYTES
    fitting: list[str] = []
    for word in words:
        room -= size(word) + size(between)
        if room < 0:
            break
        fitting.append(word)
    return f"{between.join(fitting)}{between}+{len(words) - len(fitting)}"


def warning(line: str, after: str = "") -> str:
    """Return the line and `after` as one warning. A line that is too long ends between two words, or within one that
    is longer than half of the line. `after` is never cut."""
    if _is_short(line + after):
        return line + after
    end = min(len(line), MAX_WARNING_LENGTH - len(after) - len("…"))
    while not _is_short(f"{line[:end]}…{after}"):  # too many bytes
        end -= 1
    last_space = line.rfind(" ", 0, end)
    if last_space > end // 2:
        end = last_space
    return line[:end].rstrip(" ,;:") + "…" + after


def _is_short(line: str) -> bool:
    """Return whether the line can be a warning as it is."""
    return len(line) <= MAX_WARNING_LENGTH and len(line.encode()) <= MAX_WARNING_BYTES


def warnings(lines: Sequence[str]) -> list[str]:
    """Return the lines if the API server passes on all of them; else the first ones, and one that says how many more
    there are."""
    if len(lines) <= _MAX_WARNINGS and sum(len(line.encode()) for line in lines) <= MAX_WARNINGS_BYTES:
        return [*lines]
    fitting: list[str] = []
    room = MAX_WARNINGS_BYTES - _MORE_BYTES
    for line in lines[: _MAX_WARNINGS - 1]:  # the last one says how many more there are
        room -= len(line.encode())
        if room < 0:
            break
        fitting.append(line)
    return [*fitting, f"podfit: {len(lines) - len(fitting)} more warnings; podfit check shows all"]
