"""Bounds of a webhook's answer, in bytes. The JSON Patch has no bound, since the API server applies it.

Kubernetes copies a denial into Events, into the condition of a ReplicaSet (at most 32,768 characters,
k8s.io/apimachinery metav1.Condition) and into the audit log. A bounded text says how many findings it leaves out, and
keeps its last line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MESSAGE = 8 << 10
"""Bytes of `status.message`."""
MAX_CAUSES_BYTES = 16 << 10
"""Bytes of `status.details.causes` as JSON."""
TEXT = 1 << 10
"""Bytes of one text in a cause, and of an audit annotation's value."""
LAST = 2 << 10
"""Bytes of a message's last line."""
WARNING, WARNING_BYTES = 120, 256
"""Characters of a warning, one line of a terminal, and bytes: the API server may cut a warning at 256 runes."""
WARNINGS = 4096
"""Bytes of all warnings of an answer. The API server cuts and drops warnings after 4,096 runes, also those of other
webhooks (k8s.io/apiserver pkg/endpoints/filters/warning.go)."""
_LINES = WARNINGS // WARNING
_MORE = 80
"""Bytes that are reserved for "and N more", in JSON."""


class Cause(NamedTuple):
    """One cause of a denial, before its texts are cut."""

    reason: str
    field: str
    text: str


def size(text: str) -> int:
    """Return the bytes of `text` in JSON, escaped as by Go (`<`, `>` and `&`) and by Python (all but ASCII)."""
    return len(json.dumps(text)) - 2 + 5 * sum(map(text.count, "<>&"))


def cut(text: str, most: int) -> str:
    """Return `text`, or its beginning and "…", in at most `most` bytes of JSON."""
    if size(text) <= most:
        return text
    room, end = most - size("…"), 0
    while end < len(text) and (room := room - size(text[end])) >= 0:
        end += 1
    return text[:end] + "…"


def message(first: str, blocks: Iterable[str], count: int, last: str) -> str:
    """Return the message of a denial: `first`, the blocks that fit, "and N more", and `last`.

    If the first block does not fit, it ends after the last line that does. `count`: the number of blocks.
    """
    between = size("\n\n")
    room = MESSAGE - size(first) - size(last) - _MORE - 3 * between  # around the blocks, and before "and N more"
    texts: list[str] = []
    for block in blocks:
        fits = size(block) + between <= room
        if fits or not texts:
            texts.append(block if fits else _leading_lines(block.split("\n"), room))
        room -= size(block) + between
        if not fits:
            break
    more = count - len(texts)
    return "\n\n".join([first, *texts, *([f"and {more:,} more"] if more else []), last])


def _leading_lines(lines: Iterable[str], room: int) -> str:
    """Return the first lines, as many as fit into `room` bytes of JSON; empty if the first does not fit."""
    texts: list[str] = []
    for line in lines:
        if size(line) + size("\n") > room:
            break
        room -= size(line) + size("\n")
        texts.append(line)
    return "\n".join(texts)


def causes(rows: Sequence[Cause]) -> list[dict[str, str]]:
    """Return `details.causes`: the causes that fit into MAX_CAUSES_BYTES; then one that says "and N more"."""
    items: list[dict[str, str]] = []
    room = MAX_CAUSES_BYTES - len("[]") - len(", ") - len(json.dumps(_cause("podfit", "(more)", ""))) - _MORE
    for row in rows:
        cause = _cause(row.reason, cut(row.field, TEXT), cut(row.text, TEXT))
        escapes = 5 * sum(map((row.field + row.text).count, "<>&"))  # as in `size`; at least those of the cut texts
        room -= len(json.dumps(cause)) + len(", ") + escapes
        if room < 0:
            return [*items, _cause("podfit", "(more)", f"and {len(rows) - len(items):,} more")]
        items.append(cause)
    return items


def _cause(reason: str, field: str, text: str) -> dict[str, str]:
    """Return a cause as the API server expects it (metav1.StatusCause)."""
    return {"reason": reason, "field": field, "message": text}


def join_bounded(words: Sequence[str], most: int = TEXT, between: str = ",") -> str:
    """Join all words if they fit into `most` bytes of JSON; else the first that do, and "+N" for the N others."""
    text = between.join(words)
    if size(text) <= most:
        return text
    room = most - _MORE
    texts: list[str] = []
    for word in words:
        room -= size(word) + size(between)
        if room < 0:
            break
        texts.append(word)
    return f"{between.join(texts)}{between}+{len(words) - len(texts)}"


def warning(line: str, after: str = "") -> str:
    """Return the line and `after` as one warning. A line that is too long ends between two words, or within one that
    is longer than half of the line. `after` is never cut."""
    if _is_short(line + after):
        return line + after
    end = min(len(line), WARNING - len(after) - 1)
    while not _is_short(f"{line[:end]}…{after}"):
        end -= 1
    begin = line[:end]
    word = begin.rfind(" ")
    return (begin[:word] if word > end // 2 else begin).rstrip(" ,;:") + "…" + after


def _is_short(line: str) -> bool:
    """Return whether the line can be a warning as it is."""
    return len(line) <= WARNING and len(line.encode()) <= WARNING_BYTES


def warnings(lines: Sequence[str]) -> list[str]:
    """Return the lines if the API server passes on all of them; else the first ones, and one that says how many more
    there are."""
    if len(lines) <= _LINES and sum(len(line.encode()) for line in lines) <= WARNINGS:
        return [*lines]
    texts: list[str] = []
    room = WARNINGS - _MORE
    for line in lines[: _LINES - 1]:
        room -= len(line.encode())
        if room < 0:
            break
        texts.append(line)
    return [*texts, f"podfit: {len(lines) - len(texts)} more warnings; podfit check shows all"]
