"""docs/webhook-checklist.md names a test for each line, and docs/metrics.md every metric of the server."""

from __future__ import annotations

import re
from pathlib import Path

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


def test_the_table_of_metrics_is_what_the_server_has() -> None:
    source = (TESTS.parent / "webhook" / "podfit" / "server" / "metrics.py").read_text()
    there = set(re.findall(r'"(podfit_[a-z_]+)"', source))
    table = (DOCS / "metrics.md").read_text().partition("## Metrics of the server")[2].partition("\n## ")[0]
    told = {name.removesuffix("_total") for name in re.findall(r"`(podfit_[a-z_]+)`", table)}

    assert len(there) > 20
    assert told == there


def test_every_line_of_the_checklist_names_a_test() -> None:
    assert len(rows()) > 40
    assert not [line for line in rows() if not NAMED.search(line)]
