"""Explanations as plain JSON values (docs/schemas/explain.json)."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from typing import Any

from podfit.report.explained import Chart, Explained
from podfit.report.json import finding


def render(shown: Sequence[Explained]) -> str:
    """All containers, in the order of the input."""
    return dumps({"results": [tree(one) for one in shown]}, indent=1, default=str) + "\n"


def tree(one: Explained) -> dict[str, Any]:
    """One container."""
    return {
        "title": one.title,
        "summary": one.summary,
        "state": one.state,
        "standing": one.standing,
        "verdict": one.verdict,
        "why": one.why,
        "charts": [_chart(chart) for chart in one.charts],
        "results": [{"name": name, "value": value} for name, value in one.results],
        "changes": list(one.changes),
        "findings": [finding(one.report, judged) for judged in one.findings],
        "origins": [{"name": item.what, "value": item.value, "source": item.source} for item in one.origins],
    }


def _chart(chart: Chart) -> dict[str, Any]:
    """The bars of one kind of memory, in bytes."""
    bars = [
        {
            "name": bar.name,
            "kind": bar.kind,
            "bytes": bar.size,
            "interval": None if bar.line is None else {"low": bar.line.low, "high": bar.line.high},
            "note": bar.note,
        }
        for bar in chart.bars
    ]
    return {"title": chart.title, "bars": bars}
