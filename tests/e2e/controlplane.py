"""A Kubernetes control plane on loopback: etcd, API server and controller manager; no scheduler, no kubelet.

It is a process of its own (`python -m tests.e2e.controlplane [VERSION]`), which says in one line of JSON how to reach
it, and lives until its standard input ends. So it ends with the process that started it, even if that was killed, and
leaves nothing: no process, no port, no folder. By hand: `KUBECONFIG=FOLDER/kubeconfig-admin-default kubectl …`; Ctrl-D.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from podfit.server import certs
from tests.e2e import binaries
from tests.e2e.process import alive, kill, start, tail, until

HOST = "127.0.0.1"
ADMIN, CONTROLLERS, STRANGER, READER = "admin", "system:kube-controller-manager", "stranger", "podfit"
"""Users; each one's token is the name. The third has no rights, the last those that a test gives to podfit."""
_FOLDER = "podfit-e2e-"
_PID = "kube-apiserver.pid"


@dataclass(frozen=True)
class Cluster:
    """How to reach a control plane; all of it is one line of JSON."""

    folder: str
    """Everything that may be written; gone when the control plane is."""
    port: int
    etcd: str
    kubectl: str
    helm: str
    controllers: bool

    @property
    def root(self) -> Path:
        """`folder` as a path."""
        return Path(self.folder)

    def kubeconfig(self, namespace: str = "default", user: str | None = None) -> Path:
        """A kubeconfig of the administrator (or another user), with that namespace as the default."""
        return _kubeconfig(self.root, self.port, user or ADMIN, namespace)

    def restart(self) -> None:
        """Kills the API server, as a crash does, and waits until another one answers from the same etcd."""
        before = (self.root / _PID).read_text()
        os.kill(int(self.root.name.removeprefix(_FOLDER).partition("-")[0]), signal.SIGUSR1)
        until("another API server", lambda: (self.root / _PID).read_text() != before)
        until("the API server to be ready again", self.ready)

    def ready(self) -> bool:
        """Whether the API server answers."""
        try:
            return self.call("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def call(
        self, method: str, path: str, body: object = None, user: str = ADMIN, impersonated: str | None = None
    ) -> tuple[int, Any]:
        """One request to the API server: status and what was answered.

        `impersonated`: the name under which the administrator asks, with all rights."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {user}", "Content-Type": kind}
        if impersonated is not None:
            headers |= {"Impersonate-User": impersonated, "Impersonate-Group": "system:masters"}
        request = urllib.request.Request(
            f"https://{HOST}:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
        )
        return _open(request, ssl.create_default_context(cafile=str(self.root / "ca.crt")))

    def patch(self, path: str, merge: object) -> None:
        """Changes an object by a merge patch."""
        status, answer = self.call("PATCH", path, merge)
        if status != 200:
            raise OSError(f"the API server says {status}: {answer}")

    def audited(self, namespace: str) -> list[dict[str, Any]]:
        """The audit log's events of a namespace, in their order."""
        lines = (self.root / "audit.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines if namespace in line]
        return [event for event in events if event.get("objectRef", {}).get("namespace") == namespace]

    def stored(self, path: str) -> dict[str, Any] | None:
        """An object as etcd has it, not as the API server shows it: `pods/chat/llama-8b`; None where it has none."""
        key = base64.b64encode(f"/registry/{path}".encode()).decode()
        body = json.dumps({"key": key}).encode()
        request = urllib.request.Request(f"{self.etcd}/v3/kv/range", data=body)  # noqa: S310 - loopback, ours
        status, answer = _open(request)
        if status != 200:
            raise OSError(f"etcd says {status}: {answer}")
        found: list[dict[str, str]] = answer.get("kvs", [])
        return json.loads(base64.b64decode(found[0]["value"])) if found else None


def fetch(url: str, ca: Path) -> tuple[int, str]:
    """A page over TLS, as text."""
    context = ssl.create_default_context(cafile=str(ca))
    with urllib.request.urlopen(url, context=context, timeout=30) as answer:  # noqa: S310 - loopback, ours
        return answer.status, answer.read().decode()


def _open(request: urllib.request.Request, context: ssl.SSLContext | None = None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:  # noqa: S310 - loopback, ours
            status, said = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            status, said = error.code, error.read()
    try:
        return status, json.loads(said)
    except ValueError:
        return status, said.decode(errors="replace")


@contextmanager
def running(version: str = binaries.NEWEST) -> Iterator[Cluster]:
    """A control plane in a process of its own, until the block ends; one of the oldest version has no controllers."""
    command = [sys.executable, "-m", "tests.e2e.controlplane", version]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], start_new_session=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            first = process.stdout.readline()
            if not first:
                raise RuntimeError("the control plane did not start, see above")
            yield Cluster(**json.loads(first))
        finally:
            process.stdin.close()
            process.wait()


def main() -> int:
    """Runs a control plane until standard input ends, or a signal asks for it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        programs = binaries.find(*sys.argv[1:])
    except binaries.MissingError as error:
        print(error, file=sys.stderr)
        return 1
    sweep()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            cluster = _start(programs, folder, stack)
        except TimeoutError as error:
            print(error, file=sys.stderr)
            return 1
        print(json.dumps(asdict(cluster)), flush=True)
        sys.stdin.read()
    return 0


def sweep() -> None:
    """Removes the folders of control planes that were killed before they could do it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        pid = re.match(rf"{_FOLDER}(\d+)-", folder.name)
        if pid and not alive(int(pid[1])):
            shutil.rmtree(folder, ignore_errors=True)


def _start(programs: binaries.Programs, folder: Path, stack: ExitStack) -> Cluster:
    def run(name: str, *command: str | Path) -> subprocess.Popen[bytes]:
        process = start(command, folder / f"{name}.log")
        stack.callback(kill, process)
        return process

    def port() -> int:
        """A free port that stays ours: the server binds it too (SO_REUSEPORT), and only the server listens."""
        held = stack.enter_context(socket.socket())
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind((HOST, 0))
        return int(held.getsockname()[1])

    clients, peers, secure = port(), port(), port()
    etcd = f"http://{HOST}:{clients}"
    certs.write(folder, [HOST, "localhost", "kubernetes.default.svc"])
    (folder / "tokens.csv").write_text(
        f'{ADMIN},{ADMIN},1,"system:masters"\n{CONTROLLERS},{CONTROLLERS},2\n{STRANGER},{STRANGER},3\n'
        f"{READER},{READER},4\n"
    )
    (folder / "audit.yaml").write_text(yaml.safe_dump(_AUDIT))
    service_account_keys(folder)
    run(
        "etcd", programs.etcd, f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--socket-reuse-port",
        f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
        f"--listen-peer-urls=http://{HOST}:{peers}", f"--initial-advertise-peer-urls=http://{HOST}:{peers}",
        f"--initial-cluster=default=http://{HOST}:{peers}",
    )  # fmt: skip
    serve: tuple[str | Path, ...] = (
        programs.apiserver, f"--etcd-servers={etcd}", "--storage-media-type=application/json",
        f"--bind-address={HOST}", f"--secure-port={secure}", "--permit-port-sharing", f"--cert-dir={folder}",
        f"--tls-cert-file={folder / 'tls.crt'}", f"--tls-private-key-file={folder / 'tls.key'}",
        "--authorization-mode=RBAC", f"--token-auth-file={folder / 'tokens.csv'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        "--enable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook",
        f"--service-account-issuer=https://{HOST}:{secure}", "--service-cluster-ip-range=10.0.0.0/24",
        f"--service-account-key-file={folder / 'sa.pub'}", f"--service-account-signing-key-file={folder / 'sa.key'}",
        f"--audit-policy-file={folder / 'audit.yaml'}", f"--audit-log-path={folder / 'audit.jsonl'}",
        "--audit-log-mode=blocking-strict", "--enable-priority-and-fairness=false", "--endpoint-reconciler-type=none",
        "--profiling=false", "--allow-privileged",
    )  # fmt: skip
    servers = [run("kube-apiserver", *serve)]
    (folder / _PID).write_text(str(servers[0].pid))

    def again(*_: object) -> None:
        kill(servers.pop())
        servers.append(run("kube-apiserver", *serve))
        (folder / _PID).write_text(str(servers[0].pid))

    signal.signal(signal.SIGUSR1, again)
    cluster = Cluster(
        str(folder), secure, etcd, str(programs.kubectl), str(programs.helm), programs.controllers is not None
    )

    def ready() -> bool:
        if servers[0].poll() is not None:
            raise TimeoutError(f"kube-apiserver ended\n{tail(folder / 'kube-apiserver.log')}")
        return cluster.ready()

    until(
        "the API server to be ready",
        ready,
        lambda: f"{tail(folder / 'etcd.log')}\n{tail(folder / 'kube-apiserver.log')}",
    )
    cluster.kubeconfig()
    if programs.controllers:
        kubeconfig = _kubeconfig(folder, secure, CONTROLLERS)
        run(
            "kube-controller-manager", programs.controllers, f"--kubeconfig={kubeconfig}", "--secure-port=0",
            "--leader-elect=false",
            "--use-service-account-credentials", f"--service-account-private-key-file={folder / 'sa.key'}",
            f"--root-ca-file={folder / 'ca.crt'}", f"--controllers={','.join(_CONTROLLERS)}",
        )  # fmt: skip
    return cluster


_CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "job-controller", "statefulset-controller",
    "cronjob-controller", "serviceaccount-controller", "garbage-collector-controller",
)  # fmt: skip
"""Those that make Pods, and what they need."""

_AUDIT: Mapping[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "verbs": ["create", "update", "patch"]}, {"level": "None"}],
}


def _kubeconfig(folder: Path, port: int, user: str, namespace: str = "default") -> Path:
    path = folder / f"kubeconfig-{user.rpartition(':')[2]}-{namespace}"
    context = {"cluster": "podfit", "user": user, "namespace": namespace}
    server = {"server": f"https://{HOST}:{port}", "certificate-authority": str(folder / "ca.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "podfit", "cluster": server}],
        "users": [{"name": user, "user": {"token": user}}],
        "contexts": [{"name": "podfit", "context": context}],
        "current-context": "podfit",
    }
    path.write_text(yaml.safe_dump(config))
    return path


def service_account_keys(folder: Path) -> None:
    """What the API server signs tokens of service accounts with: the one kind of PEM that it reads is its own."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "sa.key").write_bytes(private)
    (folder / "sa.pub").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


if __name__ == "__main__":
    sys.exit(main())
