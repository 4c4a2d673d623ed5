"""docs/coverage.md names rules, alerts, policies and pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

from podfit.rules import all_rules

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "coverage.md").read_text()


def test_every_rule_that_is_named_exists() -> None:
    named = set(re.findall(r"\(rules/([a-z-]+)\.md\)", TEXT)) | set(
        re.findall(r"\| `([a-z-]+)` \| (?:right|\*\*)", TEXT)
    )

    assert len(named) > 40
    assert named <= set(all_rules())


def test_every_alert_that_is_named_exists() -> None:
    rules = (ROOT / "charts" / "podfit" / "monitoring" / "alerts.yaml").read_text()

    assert set(re.findall(r"\bVLLM[A-Z]\w+", TEXT)) <= set(re.findall(r"alert: (\w+)", rules))


def test_every_file_that_is_named_exists() -> None:
    named = [
        *re.findall(r"policies/[\w-]+\.yaml", TEXT),
        *(f"docs/{page}" for page in re.findall(r"\]\(([\w-]+\.md)\)", TEXT)),
    ]

    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_claim_has_something_that_enforces_it() -> None:
    rows = re.findall(r"^\| ([A-D]\d+) \| ([^|]+) \| ([^|]+) \|", TEXT, re.MULTILINE)

    assert len(rows) == 11 + 10 + 3 + 17
    assert all(enforced.strip() for _, _, enforced in rows)
