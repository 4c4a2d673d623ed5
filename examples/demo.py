"""`make demo`: the real server over real TLS, asked what the API server would ask for the manifests in examples/.

For each manifest it prints what `kubectl apply` would print under the default policy, then under
policies/autofix.yaml. The patch of the mutating webhook is shown as a diff of the manifest.
"""

from __future__ import annotations

import base64
import difflib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from podfit.kube import patch
from podfit.server import certs

ROOT = Path(__file__).parent.parent
CERTS = ROOT / "certs"
PLURALS = {"Pod": "pods", "Deployment": "deployments"}
DEADLINE = 30
BOLD, DIM, RED, GREEN, YELLOW, CYAN, END = (
    ("\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[0m")
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    else ("",) * 7
)


@dataclass(frozen=True)
class Server:
    """A running `podfit serve`."""

    port: int
    context: ssl.SSLContext

    def get(self, path: str) -> bytes:
        """GET over TLS; raises URLError while no process listens."""
        return self._open(urllib.request.Request(f"https://localhost:{self.port}{path}"))

    def post(self, path: str, review: dict[str, Any]) -> dict[str, Any]:
        """What the API server does: POST an AdmissionReview, read the `response` of the answer."""
        request = urllib.request.Request(
            f"https://localhost:{self.port}{path}?timeout=3s",
            data=json.dumps(review).encode(),
            headers={"Content-Type": "application/json"},
        )
        response: dict[str, Any] = json.loads(self._open(request))["response"]
        return response

    def _open(self, request: urllib.request.Request) -> bytes:
        with urllib.request.urlopen(request, context=self.context, timeout=10) as answer:  # noqa: S310 - https, ours
            body: bytes = answer.read()
        return body


@contextmanager
def serve(*options: str) -> Iterator[Server]:
    """Runs `podfit serve` on a free port until the block ends, and waits for /readyz before it begins."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "podfit.cli", "serve", "--no-access-log", "--bind", f"127.0.0.1:{port}"]
    command += ["--cert", str(CERTS / "tls.crt"), "--key", str(CERTS / "tls.key"), *options]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    server = Server(port, ssl.create_default_context(cafile=str(CERTS / "ca.crt")))
    try:
        _wait(server, process)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
        if process.stderr:
            process.stderr.close()


def _wait(server: Server, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + DEADLINE
    while True:
        try:
            server.get("/readyz")
        except (urllib.error.URLError, OSError) as error:
            if process.poll() is not None or time.monotonic() > until:
                said = process.stderr.read() if process.stderr and process.poll() is not None else ""
                raise SystemExit(f"podfit serve is not ready: {error}\n{said}") from error
            time.sleep(0.05)
        else:
            return


def admission_review(obj: dict[str, Any]) -> dict[str, Any]:
    """The AdmissionReview that an API server sends for the creation of `obj`."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": obj["kind"]}
    resource = {"group": group, "version": version, "resource": PLURALS[obj["kind"]]}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": obj["metadata"]["name"],
            "namespace": obj["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "kubernetes-admin"},
            "object": obj,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }


def apply(server: Server, path: Path) -> str:
    """What `kubectl apply -f path` would print; a patch is shown as a diff first."""
    out: list[str] = []
    obj: dict[str, Any] = yaml.safe_load(path.read_text())
    mutated = server.post("/mutate", admission_review(obj))
    if mutated.get("patch"):
        changed = patch.apply(obj, json.loads(base64.b64decode(mutated["patch"])))
        out.append(_diff(obj, changed))
        obj = changed
    answer = server.post("/validate", admission_review(obj))
    warnings = [*mutated.get("warnings", ()), *answer.get("warnings", ())]
    for warning in dict.fromkeys(warnings):
        out.append(f"{YELLOW}Warning:{END} {warning}")
    name = path.relative_to(ROOT)
    if answer["allowed"]:
        group = obj["apiVersion"].rpartition("/")[0]
        kind = obj["kind"].lower() + (f".{group}" if group else "")
        out.append(f"{GREEN}{kind}/{obj['metadata']['name']} created{END}")
    else:
        webhook = "pods.podfit.dev" if obj["kind"] == "Pod" else "workloads.podfit.dev"
        out.append(
            f'{RED}Error from server (Forbidden):{END} error when creating "{name}": admission webhook '
            f'"{webhook}" denied the request: {answer["status"]["message"]}'
        )
    return "\n".join(out)


def _diff(before: dict[str, Any], after: dict[str, Any]) -> str:
    old, new = (yaml.safe_dump(obj, sort_keys=False).splitlines() for obj in (before, after))
    colours = {"+": GREEN, "-": RED}
    lines = list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]
    shown = [f"  {colours.get(line[:1], DIM)}{line}{END}" for line in lines if not line.startswith("@@")]
    return "\n".join(["patched:", *shown])


def main() -> None:
    """The whole demonstration."""
    certs.write(CERTS, ["localhost", "127.0.0.1"])
    files = sorted(path for path in (ROOT / "examples").glob("*.yaml"))
    with serve() as default, serve("--policy", str(ROOT / "policies" / "autofix.yaml")) as autofix:
        print(f"two podfit servers over TLS: ports {default.port} (default policy), {autofix.port} (autofix)\n")
        for path in files:
            name = path.relative_to(ROOT)
            print(f"{BOLD}━━ {name}{END}")
            print(f"{DIM}{path.read_text().splitlines()[0]}{END}")
            print(f"\n{CYAN}$ kubectl apply -f {name}{END}   {DIM}# default policy{END}\n{apply(default, path)}")
            answer = apply(autofix, path)
            same = answer == apply(default, path)
            print(f"\n{CYAN}$ kubectl apply -f {name}{END}   {DIM}# autofix{END}")
            print((f"{DIM}the same: there is nothing that podfit could repair{END}" if same else answer) + "\n")
    print(
        f"""{BOLD}Try next{END}
  .venv/bin/podfit check examples/                                  the same findings without a server, as in CI
  .venv/bin/podfit fix --policy policies/autofix.yaml examples/     the repairs as a diff; --write makes them
  .venv/bin/podfit plan --gpu l4 -- vllm serve Qwen/Qwen3-8B        both memory tables of one command line
  .venv/bin/podfit explain gpu-memory-exceeded                      what a rule is about"""
    )


if __name__ == "__main__":
    main()
