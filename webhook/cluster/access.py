"""Where the API server is, and who asks: a Pod's service account, or a kubeconfig's certificate or token.

Plain HTTP with JSON: every object that is watched is reduced to a few fields (`kube.snapshot`), so that a client
with a class for each of Kubernetes' types would only take memory.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import urllib3
import yaml
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
)

from webhook import __version__
from webhook.kube.path import mapping

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""What the kubelet mounts into a Pod whose account's token is wanted (rest.InClusterConfig of client-go)."""
CONNECT, READ = 5.0, 30.0
"""Seconds."""
_MOST = 64 << 20
"""Bytes of an answer to a list: 500 nodes are about 10 MiB."""
_UNREAD = frozenset(("managedFields", "images", "conditions", "volumesAttached", "volumesInUse"))
"""What nothing here reads and what is most of a Node: dropped while the text is parsed."""


class AccessError(Exception):
    """There is no way to a cluster; one line for people."""


class StatusError(Exception):
    """The API server answers, and refuses."""

    def __init__(
        self,
        code: int,
        message: str,
        retry_after: float | None = None,
        resume: str | None = None,
        date: datetime | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.retry_after = retry_after
        self.resume = resume
        """Of a list whose place in the history is gone (410): the token with which it goes on all the same."""
        self.date = date or datetime.now(UTC)
        """By the API server's clock."""


@dataclass(frozen=True)
class Access:
    """A way to one API server."""

    server: str
    """https://HOST:PORT"""
    namespace: str
    """podfit's own."""
    token: Path | str | None = None
    """The file is read at every request: the kubelet renews it every hour."""
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    socket: Path | None = None
    """A socket in the file system on which it listens (`kubectl proxy --unix-socket`), whatever `server` says."""


def in_cluster(folder: Path = ACCOUNT, env: Mapping[str, str] = os.environ) -> Access | None:
    """The account of the Pod that this is; None where this is no Pod, or one without a token."""
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT", "443")
    token = folder / "token"
    if not host or not token.is_file():
        return None
    address = f"[{host}]" if ":" in host else host
    try:
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        namespace = (folder / "namespace").read_text().strip()
    except (OSError, ssl.SSLError) as error:
        raise AccessError(f"{folder}: {error}") from error
    return Access(f"https://{address}:{port}", namespace, token, context)


def from_kubeconfig(path: Path, context: str | None = None) -> Access:
    """A context of a kubeconfig, by default the current one; raises AccessError where it can't be used.

    A user that signs in by a program (`exec`) is refused: a server is nobody's terminal. `kubectl proxy`, or a service
    account's token, goes round that.
    """
    try:
        config = mapping(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        why = (error.strerror or "unreadable").lower() if isinstance(error, OSError) else str(error).splitlines()[0]
        raise AccessError(f"{path}: {why}") from error
    current = _named(config, "contexts", context or config.get("current-context"), "context")
    cluster = _named(config, "clusters", current.get("cluster"), "cluster")
    user = _named(config, "users", current.get("user"), "user")
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise AccessError(f"{path}: the current context names no server with https")
    if ways := [way for way in ("exec", "auth-provider") if way in user]:
        raise AccessError(f"{path}: user {current.get('user')!r} signs in by {ways[0]}, which needs a terminal")
    try:
        with TemporaryDirectory() as folder:
            tls = _context(cluster, user, path.parent, Path(folder))
    except (OSError, ssl.SSLError, ValueError) as error:
        raise AccessError(f"{path}: {error}") from error
    token = user.get("token") or (path.parent / user["tokenFile"] if user.get("tokenFile") else None)
    return Access(server.rstrip("/"), str(current.get("namespace") or "default"), token, tls)


def _context(cluster: Mapping[str, Any], user: Mapping[str, Any], base: Path, folder: Path) -> ssl.SSLContext:
    """ssl reads certificates from files; those that stand in the kubeconfig are written out for that moment."""
    context = ssl.create_default_context(cafile=_file(cluster, "certificate-authority", base, folder))
    if cluster.get("insecure-skip-tls-verify") is True:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate = _file(user, "client-certificate", base, folder)
    if certificate:
        context.load_cert_chain(certificate, _file(user, "client-key", base, folder))
    return context


def _file(where: Mapping[str, Any], word: str, base: Path, folder: Path) -> str | None:
    if data := where.get(f"{word}-data"):
        path = folder / word
        path.touch(0o600)
        path.write_bytes(base64.b64decode(data, validate=True))
        return str(path)
    return str(base / where[word]) if where.get(word) else None


def _named(config: Mapping[str, Any], words: str, name: object, word: str) -> Mapping[str, Any]:
    for one in config.get(words) or ():
        if isinstance(one, Mapping) and one.get("name") == name:
            return mapping(one.get(word))
    return {}


class Client:
    """Requests to one API server. Each watch has a client, and with it a connection, of its own."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._pool = urllib3.PoolManager(1, ssl_context=access.context, retries=False)
        if access.socket is not None:
            self._pool.pool_classes_by_scheme = {"http": _through(access.socket)}

    @property
    def namespace(self) -> str:
        """podfit's own."""
        return self._access.namespace

    def get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        """One JSON object; raises StatusError where the API server refuses, OSError or HTTPError where it is away."""
        with self._ask("GET", path, query, READ) as answer:
            return cast("dict[str, Any]", json.loads(answer.read(_MOST), object_pairs_hook=_lighter))

    def whole(self, path: str) -> dict[str, Any]:
        """One JSON object with all that is in it; raises as `get`."""
        with self._ask("GET", path, {}, READ) as answer:
            return cast("dict[str, Any]", json.loads(answer.read(_MOST)))

    def text(self, path: str, query: Mapping[str, str], most: int) -> str:
        """What is no JSON (a container's log), at most `most` bytes of it; raises as `get`."""
        with self._ask("GET", path, query, READ) as answer:
            return answer.read(most).decode("utf-8", "replace")

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Changes an object by a JSON merge patch; raises as `get`."""
        body = json.dumps(change).encode()
        with self._ask("PATCH", path, {}, READ, body) as answer:
            answer.drain_conn()

    def apply(self, path: str, obj: Mapping[str, Any]) -> None:
        """Makes an object, or makes it what `obj` says (server-side apply, in podfit's name); raises as `get`."""
        body = json.dumps(obj).encode()
        query = "?fieldManager=podfit&force=true"
        with self._ask("PATCH", path + query, {}, READ, body, "application/apply-patch+yaml") as answer:
            answer.drain_conn()

    def rehearse(self, path: str, obj: Mapping[str, Any]) -> None:
        """`apply` as a dry run: all of admission, and nothing is stored; raises as `get`."""
        body = json.dumps(obj).encode()
        query = "?fieldManager=podfit&force=true&dryRun=All"
        with self._ask("PATCH", path + query, {}, READ, body, "application/apply-patch+yaml") as answer:
            answer.drain_conn()

    def delete(self, path: str) -> None:
        """Removes an object; raises as `get`."""
        with self._ask("DELETE", path, {}, READ) as answer:
            answer.drain_conn()

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], datetime]:
        """Any request (GET, POST of a new object, PUT of a whole one): the object that is answered, and what the API
        server's clock says; raises as `get`, with code 409 where somebody else was faster."""
        data = None if body is None else json.dumps(body).encode()
        with self._ask(method, path, {}, READ, data, "application/json") as answer:
            return json.loads(answer.read(_MOST)), _date(answer.headers.get("Date"))

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str], silence: float) -> Iterator[Iterator[dict[str, Any]]]:
        """The JSON objects of a watch, one a line, as they come; `silence` seconds without any are an error."""
        with self._ask("GET", path, query, silence) as answer:
            yield (json.loads(line, object_pairs_hook=_lighter) for line in answer if line.strip())

    @contextmanager
    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        read: float,
        body: bytes | None = None,
        kind: str = "application/merge-patch+json",
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        content = {"Content-Type": kind} if body is not None else {}
        answer = self._pool.request(
            method,
            self._access.server + path,
            fields=dict(query) if body is None else None,
            body=body,
            headers={**self._headers(), **content},
            timeout=urllib3.Timeout(connect=CONNECT, read=read),
            preload_content=False,
        )
        try:
            if answer.status not in (200, 201, 202, 204):
                raise _refusal(answer)
            yield answer
        finally:
            answer.close()  # what was not read is not waited for

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"podfit/{__version__}"}
        token = self._access.token
        if token is not None:
            text = token.read_text(encoding="utf-8").strip() if isinstance(token, Path) else token
            headers["Authorization"] = f"Bearer {text}"
        return headers

    def close(self) -> None:
        """Ends its connections."""
        self._pool.clear()


def in_words(error: Exception) -> str:
    """What an error of `Client` says to people: without urllib3's names of classes and repeated addresses."""
    if isinstance(error, MaxRetryError) and error.reason is not None:
        return in_words(error.reason)
    if isinstance(error, NewConnectionError | ProtocolError) and isinstance(error.__cause__, OSError):
        return in_words(error.__cause__)
    if isinstance(error, TimeoutError | ConnectTimeoutError | ReadTimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error)


def _refusal(answer: urllib3.BaseHTTPResponse) -> StatusError:
    text, resume = answer.read(4096).decode(errors="replace"), None
    try:
        said = json.loads(text)
        text = str(said["message"])
        resume = mapping(said.get("metadata")).get("continue")
    except (ValueError, KeyError, TypeError):
        text = text or (answer.reason or "")
    after = answer.headers.get("Retry-After", "")
    date = _date(answer.headers.get("Date"))
    return StatusError(answer.status, text, float(after) if after.isdecimal() else None, resume, date)


def _through(path: Path) -> type[HTTPConnectionPool]:
    """Connections to a socket in the file system, whatever the address says."""

    class Connection(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            made.settimeout(CONNECT)
            made.connect(str(path))
            return made

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    return Pool


def _date(header: str | None) -> datetime:
    try:
        return parsedate_to_datetime(header or "").astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)


def _lighter(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if not (key in _UNREAD and isinstance(value, list))}
