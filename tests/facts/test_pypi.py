"""What is asked of PyPI: when a version was uploaded, and which Transformers an image may hold."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from scripts.facts import pypi
from scripts.facts.table import extracts

FILES: list[dict[str, Any]] = [
    {"filename": "vllm-0.2.0-cp38-cp38-linux_x86_64.whl", "upload-time": "2026-11-03T00:00:00Z"},
    {"filename": "vllm-0.1.0-cp38-cp38-linux_x86_64.whl", "upload-time": "2026-11-02T00:10:00Z"},
    {"filename": "vllm-0.1.0-cp38-cp38-linux_aarch64.whl", "upload-time": "2026-11-01T23:59:59Z"},
    {"filename": "vllm-0.1.0.tar.gz", "upload-time": "2026-10-01T00:00:00Z"},
    {"filename": "vllm-0.3.0-py3-none-any.whl", "upload-time": "2026-11-09T00:00:00Z", "yanked": "broken"},
]
UPLOADED = {
    Version(text): date.fromisoformat(day)
    for text, day in {
        "5.20.1": "2026-10-16", "5.20.2": "2026-10-19", "5.22.0rc1": "2026-10-25", "5.19.9": "2026-10-25",
        "5.21.0": "2026-10-26", "5.21.1": "2026-10-29", "5.22.0": "2026-10-29", "5.22.1": "2026-10-30",
        "5.22.2": "2026-11-06", "5.23.0": "2026-11-13",
    }.items()
}  # fmt: skip


def test_a_version_is_as_old_as_its_first_wheel() -> None:
    assert pypi.days(FILES) == {Version("0.1.0"): date(2026, 11, 1), Version("0.2.0"): date(2026, 11, 3)}


@pytest.mark.parametrize(
    ("released", "beside"),
    [
        ("2026-10-18", "5.21.0"),  # vLLM 0.32.0; 5.22.0rc1 is not a release, and 5.19.9 one of an older line
        ("2026-11-02", "5.23.0"),  # vLLM 0.33.0
        ("2026-11-13", "5.23.0"),  # nothing newer yet
    ],
)
def test_transformers_is_read_as_a_late_image_may_hold_it(released: str, beside: str) -> None:
    assert pypi.version_beside(date.fromisoformat(released), UPLOADED) == Version(beside)


@pytest.mark.parametrize("release", [one for one in extracts().values() if "transformers" in one])
def test_the_extracts_were_read_by_this_rule(release: dict[str, Any]) -> None:
    assert str(pypi.version_beside(date.fromisoformat(release["date"]), UPLOADED)) == release["transformers"]


@pytest.fixture(name="index")
def _index(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """An index: what it answers by path."""
    answers: dict[str, bytes] = {}

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    yield answers
    server.shutdown()
    server.server_close()


def test_the_index_that_pip_is_configured_for_is_asked(index: dict[str, bytes]) -> None:
    index["/simple/vllm/"] = json.dumps({"files": FILES}).encode()

    assert [*pypi.uploads("vllm")] == [Version("0.1.0"), Version("0.2.0")]


@pytest.mark.parametrize("answer", [None, b"<html>", b"{}", b'{"files": [{"filename": "vllm-1-py3-none-any.whl"}]}'])
def test_an_index_that_does_not_say_it_is_an_error(index: dict[str, bytes], answer: bytes | None) -> None:
    if answer is not None:
        index["/simple/vllm/"] = answer

    with pytest.raises(SystemExit, match=r"/simple/vllm/: when vllm was uploaded can't be read \("):
        pypi.uploads("vllm")


def test_sources_that_are_there_are_not_fetched(tmp_path: Path) -> None:
    (tmp_path / "0.1.0" / "vllm").mkdir(parents=True)

    assert pypi.sources("vllm", "0.1.0", tmp_path) == tmp_path / "0.1.0"
