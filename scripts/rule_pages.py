"""The examples in docs/rules/<rule>.md: the lines that matter, the rule's own finding, and the fix as a diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path

from podfit.report import text
from podfit.report.checked import Checked, CheckedContainer

WHOLE = 16
"""Lines of a manifest that is shown whole."""
BEFORE, AFTER = 1, 3
"""Lines shown around the one of a finding."""
GAP = 2
"""Lines that are shown rather than left out between two that are shown."""
_CONTEXT = re.compile(r"\s*(- )?(kind|image|command|args|nvidia\.com/gpu(\.\w+)?):")
"""Lines that a reader needs for every finding."""


def example(path: Path, containers: tuple[CheckedContainer, ...], notes: Collection[str]) -> tuple[str, str]:
    """The heading and the Markdown of one manifest and what `podfit check --rule RULE` prints of it."""
    rule = path.parent.name
    own = tuple(
        one._replace(items=tuple(item for item in one.items if item.finding.rule == rule)) for one in containers
    )
    lines = {item.mark.line + item.document.line - 1 for one in own for item in one.items}
    printed = text.check(Checked((path.name,), tuple(one for one in own if one.items) or own, (), ()))
    body = f"```yaml\n{excerpt(path.read_text(), lines)}\n```\n\n```text\n{''.join([printed, *notes]).strip()}\n```"
    return f"Example: {path.name}", body


def excerpt(manifest: str, lines: Collection[int]) -> str:
    """The manifest without the lines that no finding and no reader needs; `lines` count from 1."""
    rows = manifest.strip().split("\n")
    if len(rows) <= WHOLE or not lines:
        return "\n".join(rows)
    kept = {number for number, row in enumerate(rows) if row.startswith(("#", "---")) or _CONTEXT.match(row)}
    for line in lines:
        kept |= set(range(max(0, line - 1 - BEFORE), min(len(rows), line + AFTER)))
    for number in sorted(kept):
        kept |= set(_above(rows, number))
    for before, after in pairwise([-1, *sorted(kept), len(rows)]):
        if after - before - 1 <= GAP:
            kept |= set(range(before + 1, after))
    return "\n".join(_elided(rows, kept))


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


def _above(rows: list[str], number: int) -> Iterator[int]:
    """The lines whose mappings and lists a line is in."""
    below = rows[number]
    for above in range(number - 1, -1, -1):
        row = rows[above]
        if row.startswith("---"):
            return
        deeper = _indent(row) - _indent(below)
        item_of_key = deeper == 0 and _is_item(below) and not _is_item(row)
        if row.strip() and not row.lstrip().startswith("#") and (deeper < 0 or item_of_key):
            below = row
            yield above


def _is_item(row: str) -> bool:
    return row.lstrip().startswith("- ")


def _elided(rows: list[str], kept: Collection[int]) -> Iterator[str]:
    left_out = False
    for number, row in enumerate(rows):
        if number in kept:
            if left_out:
                yield f"{' ' * _indent(row)}# …"
            yield row
        left_out = number not in kept


def fix(before: Path, after: Path) -> tuple[str, str]:
    """The heading and the diff of what `podfit fix` makes of an example."""
    rows = difflib.unified_diff(
        before.read_text().splitlines(), after.read_text().splitlines(), before.name, after.name, lineterm="", n=2
    )
    return f"Fix: {before.name}", "```diff\n" + "\n".join(rows) + "\n```"
