"""A node that has only logs: the API server asks it for them as it asks a kubelet, over TLS."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from podfit.server import certs
from tests.e2e.controlplane import HOST, Cluster


@contextmanager
def serving(cluster: Cluster, name: str, logs: Mapping[str, str], folder: Path) -> Iterator[None]:
    """A Node whose containers' previous logs are `logs`, {"NAMESPACE/POD/CONTAINER": text}; their current ones are
    empty. Gone with the block."""
    certs.write(folder, [HOST])

    class Kubelet(BaseHTTPRequestHandler):
        """GET /containerLogs/NAMESPACE/POD/CONTAINER (kubernetes pkg/kubelet/server)."""

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            text = logs.get(asked.path.removeprefix("/containerLogs/"))
            before = parse_qs(asked.query).get("previous") == ["true"]
            body = (text if text and before else "").encode()
            self.send_response(404 if text is None else 200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
            """Says nothing: the API server's log has it."""

    server = ThreadingHTTPServer((HOST, 0), Kubelet)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        _join(cluster, name, server.server_port)
        yield
    finally:
        cluster.call("DELETE", f"/api/v1/nodes/{name}")
        server.shutdown()
        server.server_close()
        thread.join()


def _join(cluster: Cluster, name: str, port: int) -> None:
    status, answer = cluster.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    assert status == 201, answer
    reached = {
        "addresses": [{"type": "InternalIP", "address": HOST}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    cluster.patch(f"/api/v1/nodes/{name}/status", {"status": reached})
