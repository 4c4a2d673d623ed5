"""The documentation site, as far as it can be checked without building it; `make site` builds it in .ci/run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts import site

ROOT = Path(__file__).parents[1]


def listed(nav: Any) -> list[str]:
    """Every page of a navigation, in its order."""
    if isinstance(nav, str):
        return [nav]
    return [page for one in (nav.values() if isinstance(nav, dict) else nav) for page in listed(one)]


def test_every_page_is_in_the_navigation_once() -> None:
    nav = listed(tomllib.loads(site.configuration(ROOT))["project"]["nav"])

    assert sorted(nav) == sorted(site.pages(ROOT))


def test_links_lead_to_where_the_site_has_the_page() -> None:
    pages = site.pages(ROOT)

    assert "(CHANGELOG.md)" in pages["support.md"]
    assert "(memory.md)" in pages["CONTRIBUTING.md"] or "(design.md)" in pages["CONTRIBUTING.md"]
    assert f"({site.REPOSITORY}/charts/podfit/values.schema.json)" in pages["schemas/README.md"]
    assert not [name for name, text in pages.items() if re.search(r"\]\((\.\./)+(docs|charts|policies)/", text)]


def test_code_in_a_table_shows_its_pipes_and_no_escapes() -> None:
    page = site.pages(ROOT)["commands/check.md"]

    assert "| `--fail-on denied|likely|advice` |" in page
    assert r"\|" not in page


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="b/">', None),
        ('<a href="b/#there">', None),
        ('<a href="https://example.com/x">', None),
        ('<img src="picture.svg">', None),
        ('<a href="c/">', "index.html: c/ does not exist"),
        ('<a href="b/#gone">', "index.html: b/#gone has no such anchor"),
        ('<a href="#gone">', "index.html: #gone has no such anchor"),
        ('<img src="gone.svg">', "index.html: gone.svg does not exist"),
        (
            '<script src="https://example.com/x.js">',
            "index.html: loads https://example.com/x.js from another host",
        ),
        (
            '<link rel="stylesheet" href="//example.com/x.css">',
            "index.html: loads //example.com/x.css from another host",
        ),
    ],
)
def test_the_check_of_the_built_pages(tmp_path: Path, body: str, problem: str | None) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<h1 id="there">B</h1>')
    (tmp_path / "picture.svg").write_text("<svg/>")
    (tmp_path / "index.html").write_text(body)

    assert list(site.problems(tmp_path)) == ([problem] if problem else [])
