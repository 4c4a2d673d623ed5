"""Which exec probes do what httpGet does, and which may know better."""

from __future__ import annotations

import pytest

from podfit.rules.probes._exec_probe import port


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (["curl", "-f", "http://localhost:8000/health"], 8000),
        (["/usr/bin/curl", "-sSf", "-o", "/dev/null", "127.0.0.1:8080"], 8080),
        (["wget", "-q", "--spider", "http://0.0.0.0:8000/health"], 8000),
        (["sh", "-c", "curl -f http://localhost:8000/health || exit 1"], 8000),
        (["/bin/bash", "-lc", "curl -sf https://localhost:8443/health > /dev/null 2>&1"], 8443),
        (["sh", "-c", "wget -qO- http://[::1]:8000/health || false"], 8000),
        (["curl", "--retry", "30", "--retry-connrefused", "http://localhost:8000/health"], None),
        (["curl", "--unix-socket", "/tmp/vllm.sock", "http://localhost:8000/health"], None),
        (["curl", "-f", "http://vllm.chat.svc:8000/health"], None),
        (["sh", "-c", "curl -f http://localhost:8000/health || true"], None),
        (["sh", "-c", "curl -f http://localhost:8000/health || exit 0"], None),
        (["sh", "-c", "test -f /tmp/starting || curl -f http://localhost:8000/health"], None),
        (["sh", "-c", "curl -f http://localhost:$PORT/health"], None),
        (["sh", "-c", "curl -f 'http://localhost:8000/health"], None),
        (["sh", "/probe.sh", "http://localhost:8000/health"], None),
        (["python3", "-c", "import urllib.request"], None),
        (["curl", 8000], None),
        ([], None),
        ("curl http://localhost:8000", None),
    ],
)
def test_curl_and_wget_alone_ask_as_the_kubelet_does(command: object, asked: int | None) -> None:
    assert port({"exec": {"command": command}}) == asked


def test_another_action_is_none() -> None:
    assert port({"httpGet": {"path": "/health", "port": 8000}}) is None
    assert port({"exec": None}) is None
