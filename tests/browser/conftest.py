"""The page of `podfit ui` in Debian's Chromium: each test fails for a console error or a request to another host."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
AXE = "4.14.1"
Open = Callable[..., Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--screenshots`: draw those of docs/ui.md again."""
    parser.addoption("--screenshots", action="store_true", help="draw the screenshots of docs/ui.md again")


@pytest.fixture(name="url", scope="session")
def _url() -> Iterator[str]:
    """The page of `podfit ui examples`."""
    with served("examples") as url:
        yield url


@pytest.fixture(name="url_without_files", scope="session")
def _url_without_files() -> Iterator[str]:
    """The page of `podfit ui`."""
    with served() as url:
        yield url


@contextmanager
def served(*paths: str) -> Iterator[str]:
    """The URL of `podfit ui PATH…`."""
    command = [sys.executable, "-m", "podfit.cli", "ui", *paths]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.fixture(name="browser", scope="session")
def _browser() -> Iterator[Any]:
    """Chromium without a window."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(name="open_page")
def _open_page(browser: Any, url: str) -> Iterator[Open]:
    """Opens the page, or another one, at a fragment, in a window of a width, light or dark."""
    contexts, wrong = [], []

    def opened(
        fragment: str = "", width: int = 1280, height: int = 900, scheme: str = "light", start: str = url
    ) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, locale="en-US")
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=start.rsplit("/", 2)[0])
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith(start) else wrong.append(f"request to {one.url}"))
        page.on("dialog", lambda one: wrong.append(f"dialog {one.message}"))
        page.goto(f"{start}{fragment}")
        return page

    yield opened
    for context in contexts:
        context.close()
    expected = "the server responded with a status of 422"  # a control that can't be used; the test shows its error
    assert not [one for one in wrong if expected not in one]


@pytest.fixture(name="axe", scope="session")
def _axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, from npm."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm to fetch axe-core with")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(["npm", "pack", f"axe-core@{AXE}"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"axe-core can't be fetched: {done.stderr[-200:]}")
    with tarfile.open(folder / f"axe-core-{AXE}.tgz") as archive:
        found = archive.extractfile("package/axe.min.js")
        assert found is not None
        return found.read().decode()


@pytest.fixture(name="screenshot")
def _screenshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Draws docs/ui/NAME.png if it is asked for."""

    def draw(page: Any, name: str, top: int = 0) -> None:
        if request.config.getoption("--screenshots"):
            page.evaluate(f"scrollTo(0, {top})")
            page.screenshot(path=ROOT / "docs" / "ui" / f"{name}.png")

    return draw
