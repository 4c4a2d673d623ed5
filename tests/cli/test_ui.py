"""`podfit ui` as a command: other users of the machine see no token."""

from __future__ import annotations

import stat
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from podfit.cli import main
from podfit.ui.app import create_app
from podfit.ui.desk import Desk


def test_the_browser_gets_a_file_that_only_the_user_can_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[tuple[str, str, int, int]] = []

    def open_page(url: str) -> bool:
        path = Path(unquote(urlsplit(url).path))
        opened.append((url, path.read_text(), path.stat().st_mode, path.parent.stat().st_mode))
        return True

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", open_page)
    monkeypatch.setattr("werkzeug.serving.BaseWSGIServer.serve_forever", interrupted)

    assert main(["ui", "--open"]) == 0
    page = capsys.readouterr().out.strip()
    ((url, text, mode, folder),) = opened
    token = page.split("/")[-2]
    assert url.startswith("file:///")
    assert token not in url
    assert f'<meta http-equiv="refresh" content="0; url={page}">' in text
    assert (stat.S_IMODE(mode), stat.S_IMODE(folder)) == (0o600, 0o700)
    assert not Path(unquote(urlsplit(url).path)).exists()


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ([], sorted(str(path) for path in EXAMPLES.glob("*.yaml"))),
        ([str(EXAMPLES / "good.yaml")], [str(EXAMPLES / "good.yaml")]),
    ],
)
def test_the_examples_are_there_without_paths(
    paths: list[str], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    desks: list[Desk] = []

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    def with_desk(token: str, desk: Desk) -> Any:
        desks.append(desk)
        return create_app(token, desk)

    monkeypatch.setattr("podfit.ui.app.create_app", with_desk)
    monkeypatch.setattr("podfit.ui.effect.prepare", lambda _: None)
    monkeypatch.setattr("werkzeug.serving.BaseWSGIServer.serve_forever", interrupted)

    assert main(["ui", *paths]) == 0

    (desk,) = desks
    assert [file.source.name for file in desk.open().files] == names
    assert desk.is_example == (not paths)
