"""Explanations as plain JSON values (docs/schemas/explain.json)."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from typing import Any

from podfit.report.explained import Chart, Explained
from podfit.report.json import finding


def render(explanations: Sequence[Explained]) -> str:
    """All containers, in the order of the input."""
    return dumps({"results": [tree(explanation) for explanation in explanations]}, indent=1, default=str) + "\n"


def tree(explanation: Explained) -> dict[str, Any]:
    """The explanation of one container as plain JSON values."""
    return {
        "title": explanation.title,
        "summary": explanation.summary,
        "state": explanation.state,
        "standing": explanation.standing,
        "verdict": explanation.verdict,
        "why": explanation.why,
        "charts": [_chart(chart) for chart in explanation.charts],
        "results": [{"name": name, "value": value} for name, value in explanation.results],
        "changes": list(explanation.changes),
        "findings": [finding(explanation.report, graded) for graded in explanation.findings],
        "origins": [{"name": item.what, "value": item.value, "source": item.source} for item in explanation.origins],
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
