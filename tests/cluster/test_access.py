"""Requests to an API server: what is sent, what is made of its answers, and of none."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from podfit import __version__
from podfit.cluster.access import Client, StatusError, UnreachableError, from_kubeconfig, in_cluster
from podfit.cluster.kubeconfig import AccessError
from podfit.server import certs
from tests.cluster.server import Server, serving


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as server:
        yield server


@pytest.fixture(name="client")
def _client(server: Server) -> Iterator[Client]:
    """A user with a token."""
    with closing(Client(from_kubeconfig(server.kubeconfig({"token": "secret"})))) as client:
        yield client


def test_a_list_is_read_without_what_nothing_reads(server: Server, client: Client) -> None:
    server.answers["/api/v1/nodes"] = {"items": [{"metadata": {"managedFields": [], "name": "a"}}]}

    assert client.get("/api/v1/nodes", {"limit": "500", "labelSelector": "a=b,c"}) == {
        "items": [{"metadata": {"name": "a"}}]
    }
    (asked,) = server.asked
    assert asked.query == {"limit": "500", "labelSelector": "a=b,c"}
    assert asked.token == "Bearer secret"
    assert asked.headers["User-Agent"] == f"podfit/{__version__}"
    assert client.namespace == "chat"


def test_a_watch_is_read_line_by_line(server: Server, client: Client) -> None:
    server.answers["/api/v1/nodes"] = '{"type": "ADDED"}\n\n{"type": "BOOKMARK"}\n'

    with client.stream("/api/v1/nodes", {"watch": "true"}, 5.0) as events:
        assert list(events) == [b'{"type": "ADDED"}', b'{"type": "BOOKMARK"}']


def test_what_writes_says_how_and_in_whose_name(server: Server, client: Client) -> None:
    server.answers["/a"] = {}
    merge = {"metadata": {"annotations": {"x": None}}, "webhooks": [{"name": "a"}]}

    client.patch("/a", merge)
    client.apply("/a", {"kind": "Report"})
    client.apply("/a", {"kind": "Pod"}, dry_run="All")
    client.delete("/a")
    client.send("PUT", "/a", {"data": {}})

    assert [(one.method, one.headers["Content-Type"], one.query) for one in server.asked] == [
        ("PATCH", "application/merge-patch+json", {}),
        ("PATCH", "application/apply-patch+yaml", {"fieldManager": "podfit", "force": "true"}),
        ("PATCH", "application/apply-patch+yaml", {"fieldManager": "podfit", "force": "true", "dryRun": "All"}),
        ("DELETE", "application/json", {}),
        ("PUT", "application/json", {}),
    ]
    assert json.loads(server.asked[0].body) == merge
    assert server.asked[3].body == b""


def test_a_refusal_is_told_in_the_servers_words_and_not_tried_again(server: Server, client: Client) -> None:
    server.answers |= {
        "/forbidden": (403, {}, {"message": "nodes is forbidden"}),
        "/busy": (429, {"Retry-After": "3", "Date": "Sat, 21 Nov 2026 12:00:00 GMT"}, "slow down"),
        "/gone": (410, {}, {"message": "too old", "metadata": {"continue": "next"}}),
        "/away": (503, {"Retry-After": "1"}, ""),
        "/elsewhere": (302, {"Location": f"{server.url}/a"}, ""),
    }

    said = {}
    for path in server.answers:
        with pytest.raises(StatusError) as error:
            client.get(path, {})
        said[path] = error.value
    assert {path: str(error).partition(" (")[0] for path, error in said.items()} == {
        "/forbidden": "403: nodes is forbidden",
        "/busy": "429: slow down",
        "/gone": "410: too old",
        "/away": "503: Service Unavailable",
        "/elsewhere": "302: Found",
    }
    assert said["/busy"].retry_after == 3.0
    assert f"{said['/busy'].date:%H:%M}" == "12:00"
    assert said["/gone"].resume == "next"
    assert len(server.asked) == len(said), "what is tried again, and when, is said elsewhere"


def test_who_is_not_known_is_told_by_what_he_is_not_known(server: Server, client: Client) -> None:
    server.answers["/a"] = (401, {}, {"message": "Unauthorized"})

    with pytest.raises(StatusError) as error:
        client.get("/a", {})

    assert str(error.value) == (
        f'401: Unauthorized (context "here", user "u", {server.folder / "config"}). Fix: renew these credentials'
    )


def test_no_answer_is_one_line_that_names_the_server(server: Server, client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    nobody = Client(from_kubeconfig(server.kubeconfig(server=f"https://127.0.0.1:{port}")))

    with pytest.raises(UnreachableError) as refused:
        nobody.get("/a", {})
    with pytest.raises(UnreachableError) as silent, client.stream("/a", {}, 1e-9):
        pass

    who = f'context "here", user "u", {server.folder / "config"}'
    assert str(refused.value) == f"https://127.0.0.1:{port} ({who}): connection refused"
    assert str(silent.value) == f"{server.url} ({who}): no answer in time"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz",
    ],
)
def test_an_answer_that_breaks_is_told_without_names_of_classes(server: Server, sent: bytes) -> None:
    def answer() -> None:
        near, _ = listener.accept()
        with near:
            near.recv(1 << 16)
            near.sendall(sent)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = Thread(target=answer)
        thread.start()
        with (
            closing(Client(from_kubeconfig(server.kubeconfig(server=url)))) as client,
            pytest.raises(UnreachableError) as error,
        ):
            client.get("/a", {})
        thread.join()

    assert str(error.value).endswith("/config): the connection ended before the whole answer")


def test_a_servers_certificate_of_another_ca_is_no_server_of_ours(server: Server, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    certs.write(tmp_path / "other", ["127.0.0.1"])
    path = server.kubeconfig(certificate_authority=str(tmp_path / "other" / "ca.crt"))

    with closing(Client(from_kubeconfig(path))) as client, pytest.raises(UnreachableError) as error:
        client.get("/api/v1/nodes", {})

    assert str(error.value).endswith("): certificate verify failed: certificate signature failure") or str(
        error.value
    ).endswith("): certificate verify failed: unable to get local issuer certificate")
    assert not server.asked


def test_an_answer_of_something_else_is_told(server: Server, client: Client) -> None:
    server.answers["/a"] = "<html>Sign in</html>"

    with pytest.raises(UnreachableError, match="the answer is not JSON, so this may be no API server"):
        client.get_unreduced("/a")


@pytest.mark.parametrize("said", ["null", "[]", "1", "[" * 100_000])
def test_json_of_another_shape_is_told(server: Server, client: Client, said: str) -> None:
    server.answers["/a"] = said

    with pytest.raises(UnreachableError, match="so this may be no API server"):
        client.get_unreduced("/a")


def test_an_empty_list_in_go_is_a_list(server: Server, client: Client) -> None:
    server.answers["/a"] = {"items": None}

    assert client.get("/a", {}) == {"items": []}


def test_a_page_of_a_load_balancer_is_cut(server: Server, client: Client) -> None:
    server.answers["/a"] = (502, {}, "<html>\n" + "no server " * 1000)

    with pytest.raises(StatusError) as error:
        client.get("/a", {})
    assert str(error.value).startswith("502: <html> no server no server")
    assert len(str(error.value)) < 300


def account(server: Server) -> dict[str, str]:
    """A Pod's account in the server's folder: its environment."""
    (server.folder / "token").write_text("first\n")
    (server.folder / "namespace").write_text("podfit-system")
    return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}


def test_a_pods_token_is_read_anew_at_every_request(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    access = in_cluster(server.folder, account(server))
    assert access is not None
    server.answers["/a"] = {}
    with closing(Client(access)) as client:
        client.get("/a", {})
        (server.folder / "token").write_text("second\n")
        client.get("/a", {})
        (server.folder / "token").unlink()
        with pytest.raises(AccessError, match="token: no such file or directory"):
            client.get("/a", {})

        assert [one.token for one in server.asked] == ["Bearer first", "Bearer second"]
        assert (client.namespace, client.in_pod) == ("podfit-system", True)


def test_without_a_token_there_is_no_cluster(tmp_path: Path) -> None:
    assert in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) is None
    assert in_cluster(tmp_path, {}) is None


@pytest.mark.parametrize(
    ("missing", "said"), [("ca.crt", "certification file does not exist"), ("namespace", "no such")]
)
def test_a_broken_account_is_told_in_one_line(server: Server, missing: str, said: str) -> None:
    env = account(server)
    (server.folder / missing).unlink()

    with pytest.raises(OSError, match=said) as error:
        in_cluster(server.folder, env)
    assert str(error.value).startswith(f"{server.folder}: ")
    assert "\n" not in str(error.value)
