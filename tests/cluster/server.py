"""Servers on loopback for one test: an API server whose answers a test sets, a proxy, and kubeconfigs for them."""

from __future__ import annotations

import json
import select
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from podfit.server import certs

JSONDict = dict[str, Any]
Answer = JSONDict | str | tuple[int, Mapping[str, str], JSONDict | str]
"""An object, a text, or status, headers and one of them."""
NOT_FOUND: Answer = (404, {}, {"kind": "Status", "message": "not found"})
DISCOVERY: dict[str, JSONDict] = {
    "/apis": {
        "groups": [
            {"name": name, "preferredVersion": {"groupVersion": f"{name}/{version}"},
             "versions": [{"groupVersion": f"{name}/{version}"}]}
            for name, version in (("down.example", "v1"), ("apps", "v1"), ("serving.kserve.io", "v1beta1"))
        ]
    },
    "/api/v1": {
        "resources": [
            {"name": "nodes", "singularName": "node", "kind": "Node", "shortNames": ["no"], "verbs": ["get", "list"]},
            {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True, "shortNames": ["po"],
             "verbs": ["get", "list"]},
            {"name": "pods/log", "kind": "Pod", "namespaced": True, "verbs": ["get"]},
            {"name": "bindings", "kind": "Binding", "namespaced": True, "verbs": ["create"]},
        ]
    },
    "/apis/apps/v1": {
        "resources": [
            {"name": "deployments", "singularName": "deployment", "kind": "Deployment", "namespaced": True,
             "shortNames": ["deploy"], "verbs": ["get", "list"]}
        ]
    },
    "/apis/serving.kserve.io/v1beta1": {
        "resources": [
            {"name": "inferenceservices", "singularName": "", "kind": "InferenceService", "namespaced": True,
             "shortNames": ["isvc"], "verbs": ["get", "list"]}
        ]
    },
}  # fmt: skip
"""What an API server says of its kinds; of one group it says nothing."""
HOST = "api.example"
"""Another name of the API server, which only a proxy knows."""


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: Message
    body: bytes
    certificate: str | None
    """The common name of the client's certificate."""

    @property
    def token(self) -> str | None:
        """Its Authorization header."""
        return self.headers["Authorization"]


@dataclass
class Server:
    """Answers by path: the same each time, or of a list one after the other."""

    url: str
    folder: Path
    """With its CA: ca.crt, ca.key."""
    answers: dict[str, Answer | list[Answer]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Of 127.0.0.1."""
        return urlsplit(self.url).port or 0

    def answer(self, path: str) -> tuple[int, Mapping[str, str], bytes]:
        """What is sent."""
        found = self.answers.get(path, NOT_FOUND)
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        status, headers, body = found if isinstance(found, tuple) else (200, {}, found)
        return status, headers, (body if isinstance(body, str) else json.dumps(body)).encode()

    def kubeconfig(self, user: JSONDict | None = None, name: str = "config", **cluster: Any) -> Path:
        """A kubeconfig of one context; `tls_server_name` is the cluster's `tls-server-name`."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "chat"}}],
            "clusters": [
                {
                    "name": "c",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority": str(self.folder / "ca.crt"),
                    }
                    | {key.replace("_", "-"): value for key, value in cluster.items()},
                }
            ],
            "users": [{"name": "u", "user": user or {}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path


@contextmanager
def serving(folder: Path, *, clients: bool = False, tls: bool = True) -> Iterator[Server]:
    """`clients`: a client's certificate of the same CA is looked at."""
    folder.mkdir(exist_ok=True)
    certs.write(folder, ["127.0.0.1", HOST])
    made = Server("", folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("Content-Length") or 0)
            shown = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
            names = [dict(part)["commonName"] for part in (shown or {}).get("subject", ())]  # type: ignore[arg-type]
            query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            body = self.rfile.read(size)
            made.asked.append(
                Asked(self.command, parts.path, query, self.headers, body, str(names[0]) if names else None)
            )
            status, headers, said = made.answer(parts.path)
            self.send_response_only(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
            """Says nothing."""

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_any)

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that does not trust this server is not an error of the server."""

    with Quiet(("127.0.0.1", 0), Handler) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
            if clients:
                context.verify_mode = ssl.CERT_OPTIONAL
                context.load_verify_locations(folder / "ca.crt")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        made.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Proxy:
    """A proxy that takes every connection to the same place, and remembers who asked for what."""

    port: int
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Target, and Proxy-Authorization (of SOCKS: none)."""


@contextmanager
def proxy(target: int, *, socks: bool = False) -> Iterator[Proxy]:
    """An HTTP proxy (CONNECT), or a SOCKS 5 proxy, to a port of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))
    made = Proxy(listener.getsockname()[1])

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                Thread(target=handle, args=(near,), daemon=True).start()

    def handle(near: socket.socket) -> None:
        with suppress(OSError), near, socket.create_connection(("127.0.0.1", target)) as far:
            if socks:
                _socks(near, made)
            else:
                _connect(near, made)
            both = {near: far, far: near}
            while True:
                for ready in select.select(list(both), [], [])[0]:
                    if not (data := ready.recv(1 << 16)):
                        return
                    both[ready].sendall(data)

    thread = Thread(target=accept)
    thread.start()
    try:
        yield made
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _connect(near: socket.socket, made: Proxy) -> None:
    said = b""
    while b"\r\n\r\n" not in said:
        said += near.recv(4096)
    lines = said.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    made.asked.append((lines[0].split()[1], headers.get("proxy-authorization")))
    near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")


def _socks(near: socket.socket, made: Proxy) -> None:
    """RFC 1928, no authentication; a target by name."""
    near.recv(near.recv(2)[1])
    near.sendall(b"\x05\x00")
    _, _, _, kind, size = near.recv(5)
    assert kind == 3, "the client resolved the name itself"
    name = near.recv(size).decode()
    made.asked.append((f"{name}:{int.from_bytes(near.recv(2))}", None))
    near.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
