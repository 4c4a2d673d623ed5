"""`podfit ui` as a command: other users of the machine see no token."""

from __future__ import annotations

import stat
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from podfit.cli import main


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
