"""Planned next to used, for people and machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from podfit.base.printable import clean
from podfit.evaluation.denial import PLANES, many
from podfit.evaluation.scan.drift import Drift
from podfit.evaluation.scan.planned import Span
from podfit.kube.quantity import human
from podfit.report.scan import as_span, ref
from podfit.report.text import Paint, plain

_PAINT = {"above": "deny", "below": "warn", "as-planned": "", "unknown": ""}
COLUMNS = ("off", "memory", "line", "planned (95 %)", "used", "workload", "from")


def tree(found: Sequence[Drift]) -> list[dict[str, Any]]:
    """Plain JSON values."""
    return [
        {
            "object": ref(one.object), "container": one.container, "plane": one.plane, "line": one.line,
            "unit": one.unit, "planned": as_span(one.planned) if one.planned else None, "used": one.used,
            "off": None if one.off is None else round(one.off, 4), "state": one.state, "pods": one.pods,
            "source": one.source,
        }
        for one in found
    ]  # fmt: skip


def cells(one: Drift) -> tuple[str, ...]:
    """One row of the table whose head is COLUMNS."""
    off = "?" if one.off is None else f"{one.off:+.0%}"
    planned = "unknown" if one.planned is None else _interval(one.planned, one.unit)
    used = "unknown" if one.used is None else _size(one.used, one.unit)
    return off, PLANES[one.plane], one.line, planned, used, _name(one), one.source


def text(found: Sequence[Drift], limit: int = 5, paint: Paint = plain) -> str:
    """Headline and table: contradictions, then what is as planned, then what is not known and why, at most `limit`
    names of one reason (0: all)."""
    count = Counter(one.state for one in found)
    head = (
        f"planned and used: {count['above']} above the plan, {count['below']} below it, "
        f"{count['as-planned']} as planned, {count['unknown']} unknown"
    )
    known = [one for one in found if one.state != "unknown"]
    rows = [COLUMNS, *map(cells, known)] if known else []
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS) - 1)] if rows else []
    lines = [_line(row, widths) for row in rows]
    shown = [*lines[:1], *(paint(line, _PAINT[one.state]) for one, line in zip(known, lines[1:], strict=True))]
    return "\n\n".join("\n".join(block) for block in ([head], shown, list(_unknown(found, limit))) if block) + "\n"


def _unknown(found: Sequence[Drift], limit: int) -> Iterator[str]:
    """A line for each reason, with its workloads."""
    reasons: dict[str, dict[str, None]] = {}
    for one in found:
        if one.state == "unknown":
            reasons.setdefault(one.source, {})[str(one.object)] = None
    for why, names in reasons.items():
        shown = list(names)[:limit] if limit else list(names)
        more = f" … and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        yield clean(f"unknown, {why}: {', '.join(shown)}{more}")


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    *fixed, last = row
    shown = [f"{cell:>{width}}" if place == 0 else f"{cell:<{width}}" for place, (cell, width) in
             enumerate(zip(fixed, widths, strict=True))]  # fmt: skip
    return clean("  ".join([*shown, last])).rstrip()


def _interval(span: Span, unit: str) -> str:
    return f"{_size(span.likely, unit)} ({_size(span.low, unit)} … {_size(span.high, unit)})"


def _size(value: int, unit: str) -> str:
    return human(value) if unit == "bytes" else f"{value:,} tokens"


def _name(one: Drift) -> str:
    pods = f", {many(one.pods, 'Pod')}" if one.pods else ""
    return clean(f'{one.object}, container "{one.container}"{pods}')
