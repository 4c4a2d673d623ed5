"""Ways to a cluster: a Pod's account, a kubeconfig; and what is no way."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
import yaml

from webhook.cluster.access import Access, AccessError, Client, StatusError, from_kubeconfig, in_cluster
from webhook.server import certs


class Handler(BaseHTTPRequestHandler):
    """Answers what a test says, and remembers who asked."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[tuple[str, str | None]]] = []
    answers: ClassVar[list[tuple[int, dict[str, str], bytes]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        status, headers, body = self.answers.pop(0)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Says nothing."""


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[str]:
    """The URL of a server over TLS, whose CA is ca.crt."""
    certs.write(tmp_path, ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    Handler.asked.clear()
    Handler.answers.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def kubeconfig(folder: Path, server: str, **user: Any) -> Path:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "podfit-system"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_kubeconfigs_token_is_sent_over_tls(server: str, tmp_path: Path) -> None:
    client = Client(from_kubeconfig(kubeconfig(tmp_path, server, token="secret")))
    Handler.answers.append((200, {}, b'{"items": [{"metadata": {"managedFields": [], "name": "a"}}]}'))

    assert client.get("/api/v1/nodes", {"limit": "500"}) == {"items": [{"metadata": {"name": "a"}}]}
    assert Handler.asked == [("/api/v1/nodes?limit=500", "Bearer secret")]
    assert client.namespace == "podfit-system"
    client.close()


def test_a_watch_is_read_line_by_line(server: str, tmp_path: Path) -> None:
    client = Client(from_kubeconfig(kubeconfig(tmp_path, server, token="secret")))
    Handler.answers.append((200, {}, b'{"type": "ADDED"}\n\n{"type": "BOOKMARK"}\n'))

    with client.stream("/api/v1/nodes", {"watch": "true"}, 5.0) as events:
        assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    client.close()


def test_a_refusal_is_told_in_the_servers_words(server: str, tmp_path: Path) -> None:
    client = Client(from_kubeconfig(kubeconfig(tmp_path, server)))
    Handler.answers.append((403, {}, json.dumps({"message": "nodes is forbidden"}).encode()))
    Handler.answers.append((429, {"Retry-After": "3"}, b"slow down"))

    with pytest.raises(StatusError, match="403: nodes is forbidden"):
        client.get("/api/v1/nodes", {})
    with pytest.raises(StatusError, match="429: slow down") as error:
        client.get("/api/v1/nodes", {})
    assert error.value.retry_after == 3.0
    client.close()


def test_a_servers_certificate_of_another_ca_is_no_server_of_ours(server: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    certs.write(tmp_path / "other", ["127.0.0.1"])
    path = kubeconfig(tmp_path, server)
    path.write_text(path.read_text().replace("ca.crt", "other/ca.crt"))
    client = Client(from_kubeconfig(path))

    with pytest.raises(Exception, match="certificate verify failed"):
        client.get("/api/v1/nodes", {})
    client.close()


def test_a_pods_token_is_read_anew_at_every_request(server: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("podfit-system")
    host, _, port = server.removeprefix("https://").partition(":")
    access = in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port})
    assert access is not None
    client = Client(access)
    Handler.answers += [(200, {}, b"{}"), (200, {}, b"{}")]
    client.get("/a", {})
    (tmp_path / "token").write_text("second\n")
    client.get("/b", {})

    assert [token for _, token in Handler.asked] == ["Bearer first", "Bearer second"]
    client.close()


def test_without_a_token_there_is_no_cluster(tmp_path: Path) -> None:
    assert in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) is None
    assert in_cluster(tmp_path, {}) is None


def test_certificates_may_stand_in_the_kubeconfig_itself(tmp_path: Path) -> None:
    certs.write(tmp_path, ["127.0.0.1"])
    text = {name: base64.b64encode((tmp_path / name).read_bytes()).decode() for name in ("tls.crt", "tls.key")}
    user = {"client-certificate-data": text["tls.crt"], "client-key-data": text["tls.key"]}

    assert isinstance(from_kubeconfig(kubeconfig(tmp_path, "https://127.0.0.1:1", **user)), Access)


@pytest.mark.parametrize(
    ("user", "change", "said"),
    [
        ({"exec": {"command": "aws"}}, ("", ""), "signs in by exec"),
        ({"client-certificate-data": "@@"}, ("", ""), "base64"),
        ({}, ("https://", "ftp://"), "no server with https"),
        ({}, ("current-context: here", "current-context: there"), "no server with https"),
        ({}, ("ca.crt", "none.crt"), "No such file"),
        ({}, ("clusters:", "clusters: [}"), "while parsing"),
    ],
)
def test_a_kubeconfig_that_is_no_way_is_told_in_one_line(
    tmp_path: Path, user: dict[str, Any], change: tuple[str, str], said: str
) -> None:
    certs.write(tmp_path, ["127.0.0.1"])
    path = kubeconfig(tmp_path, "https://127.0.0.1:1", **user)
    path.write_text(path.read_text().replace(*change))

    with pytest.raises(AccessError, match=said) as error:
        from_kubeconfig(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)
