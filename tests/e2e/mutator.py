"""Another project's mutating webhook, as service meshes and secret injectors have one: it gives each Pod a sidecar."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from podfit.server import certs
from tests.e2e.controlplane import HOST, Cluster
from tests.e2e.release import REGISTRATION

SIDECAR: Mapping[str, Any] = {
    "name": "proxy",
    "image": "registry.example.com/proxy:1.0",
    "resources": {"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}},
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """Buffered: a body in a segment of its own waits for the acknowledgement of the one before."""

    def do_POST(self) -> None:  # the name that http.server asks for
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        response = {"uid": request["uid"], "allowed": True}
        containers = request["object"]["spec"].get("containers") or []
        if containers and SIDECAR["name"] not in [container["name"] for container in containers]:
            patch = [{"op": "add", "path": "/spec/containers/0", "value": SIDECAR}]
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        body = json.dumps({**review, "request": None, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
        """Says nothing."""


@contextmanager
def sidecars(cluster: Cluster, name: str, namespaces: Mapping[str, str]) -> Iterator[None]:
    """Gives the Pods of namespaces with these labels a sidecar, until the block ends.

    API servers ask webhooks in the order of their configurations' names. The sidecar comes first among the containers,
    so that a webhook that remembered a container by its number would patch the wrong one.
    """
    folder = Path(cluster.folder) / name
    folder.mkdir()
    certs.write(folder, [HOST])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with ThreadingHTTPServer((HOST, 0), _Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        bundle = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
        webhook = {
            "name": "sidecars.example.com",
            "clientConfig": {"url": f"https://{HOST}:{server.server_port}/", "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": dict(namespaces)},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "reinvocationPolicy": "IfNeeded",
        }
        path = f"{REGISTRATION}/mutatingwebhookconfigurations"
        configuration = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [webhook]}
        status, answer = cluster.call("POST", path, configuration)
        assert status == 201, answer
        try:
            yield
        finally:
            cluster.call("DELETE", f"{path}/{name}")
            server.shutdown()
