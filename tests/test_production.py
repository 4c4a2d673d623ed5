"""docs/webhook-checklist.md names a test for each line, and docs/metrics.md every metric."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
PAGE = DOCS / "webhook-checklist.md"
NAMED = re.compile(r"`(test_\w+)`")


def rows() -> list[str]:
    """The lines of the checklist's tables, without the one that compares charts."""
    checklist = PAGE.read_text().partition("\n## The chart next to others")[0]
    lines = [line for line in checklist.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith(("| requirement", "| ---"))]


def test_every_test_that_the_page_names_exists() -> None:
    written = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    there = set(re.findall(r"^\s*def (test_\w+)\(", written, re.MULTILINE))

    assert not set(NAMED.findall(PAGE.read_text())) - there


@pytest.mark.parametrize(
    ("heading", "source"),
    [("server", "server/metrics.py"), ("scanner", "cli/support/exporter.py")],
    ids=["server", "scanner"],
)
def test_the_tables_of_metrics_have_the_names_that_prometheus_gets(heading: str, source: str) -> None:
    """The client adds `_total` to the name of a counter."""
    text = (TESTS.parent / "webhook" / "podfit" / source).read_text()
    counters = set(re.findall(r'(?:Counter\(|CounterMetricFamily\(|_of_lost_lines,)\s*"(podfit_[a-z_]+)"', text))
    names = set(re.findall(r'"(podfit_[a-z_]+)"', text)) - counters
    table = (DOCS / "metrics.md").read_text().partition(f"## Metrics of the {heading}")[2].partition("\n## ")[0]

    assert len(names) > 8
    assert set(re.findall(r"`(podfit_[a-z_]+)`", table)) == names | {f"{name}_total" for name in counters}


def test_every_line_of_the_checklist_names_a_test() -> None:
    assert len(rows()) > 40
    assert not [line for line in rows() if not NAMED.search(line)]
