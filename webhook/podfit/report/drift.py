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
from podfit.report.paint import Paint, plain
from podfit.report.scan import as_span, ref

_PAINT = {"above": "deny", "below": "warn", "as-planned": "", "unknown": ""}
COLUMNS = ("off", "memory", "line", "planned (95 %)", "used", "workload", "from")


def tree(drifts: Sequence[Drift]) -> list[dict[str, Any]]:
    """The drifts as plain JSON values."""
    return [
        {
            "object": ref(drift.object), "container": drift.container, "plane": drift.plane, "line": drift.line,
            "unit": drift.unit, "planned": as_span(drift.planned) if drift.planned else None, "used": drift.used,
            "off": None if drift.off is None else round(drift.off, 4), "state": drift.state, "pods": drift.pods,
            "source": drift.source,
        }
        for drift in drifts
    ]  # fmt: skip


def cells(drift: Drift) -> tuple[str, ...]:
    """One row of the table whose head is COLUMNS."""
    off = "?" if drift.off is None else f"{drift.off:+.0%}"
    planned = "unknown" if drift.planned is None else _interval(drift.planned, drift.unit)
    used = "unknown" if drift.used is None else _size(drift.used, drift.unit)
    return off, PLANES[drift.plane], drift.line, planned, used, _name(drift), drift.source


def text(drifts: Sequence[Drift], limit: int = 5, paint: Paint = plain) -> str:
    """Headline, table and unknown values: contradictions, then what is as planned, then the reasons why values are
    unknown, each with at most `limit` names (0: all). `paint`: colors a line by its state."""
    count = Counter(drift.state for drift in drifts)
    head = (
        f"planned and used: {count['above']} above the plan, {count['below']} below it, "
        f"{count['as-planned']} as planned, {count['unknown']} unknown"
    )
    known = [drift for drift in drifts if drift.state != "unknown"]
    rows = [COLUMNS, *map(cells, known)] if known else []
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS) - 1)] if rows else []
    lines = [_line(row, widths) for row in rows]
    texts = [*lines[:1], *(paint(line, _PAINT[drift.state]) for drift, line in zip(known, lines[1:], strict=True))]
    return "\n\n".join("\n".join(block) for block in ([head], texts, list(_unknown(drifts, limit))) if block) + "\n"


def _unknown(drifts: Sequence[Drift], limit: int) -> Iterator[str]:
    """A line for each reason, with its workloads."""
    reasons: dict[str, dict[str, None]] = {}
    for drift in drifts:
        if drift.state == "unknown":
            reasons.setdefault(drift.source, {})[str(drift.object)] = None
    for why, names in reasons.items():
        texts = list(names)[:limit] if limit else list(names)
        more = f" … and {len(names) - len(texts)} more" if len(names) > len(texts) else ""
        yield clean(f"unknown, {why}: {', '.join(texts)}{more}")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One row of the table: the first cell to the right, the others to the left, the last as long as it is."""
    *fixed, last = cells
    texts = [f"{cell:>{width}}" if place == 0 else f"{cell:<{width}}" for place, (cell, width) in
             enumerate(zip(fixed, widths, strict=True))]  # fmt: skip
    return clean("  ".join([*texts, last])).rstrip()


def _interval(span: Span, unit: str) -> str:
    return f"{_size(span.likely, unit)} ({_size(span.low, unit)} … {_size(span.high, unit)})"


def _size(value: int, unit: str) -> str:
    return human(value) if unit == "bytes" else f"{value:,} tokens"


def _name(drift: Drift) -> str:
    pods = f", {many(drift.pods, 'Pod')}" if drift.pods else ""
    return clean(f'{drift.object}, container "{drift.container}"{pods}')
