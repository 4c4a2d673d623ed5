"""The certificate that the server presents in a handshake: from files that are renewed elsewhere, or from `keeper`."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from podfit.server import certs
from podfit.server.certs import Pair

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application."""

CERTIFICATE = "podfit.certificate"
"""A scope's key for the client's verified certificate (ssl.SSLSocket.getpeercert); None or empty without one."""

log = logging.getLogger(__name__)


class Serving(Protocol):
    """The server's certificate, wherever it comes from. Safe for threads."""

    def start(self) -> None:
        """Called once, in the process that serves."""

    def context(self) -> ssl.SSLContext:
        """For the next handshake: a renewed certificate serves at once."""

    def problem(self) -> str | None:
        """Why the server must get no requests now, in one line; None if it may."""

    def worry(self) -> str | None:
        """A problem in one line that does not stop it from getting requests; None if there is none."""

    def not_after(self) -> float:
        """When the certificate ends, in seconds since the epoch; 0: there is none."""

    def is_off(self) -> bool | None:
        """True if `podfit off` has paused a webhook; None: the configurations are not read."""


class _LastContext(NamedTuple):
    """A context, and what it was made of."""

    pair: Pair
    client_ca: bytes | None
    """The contents of the clients' CA file; None without one."""
    context: ssl.SSLContext


class Contexts:
    """The TLS context of a pair, with the current contents of the clients' CA file.

    A new certificate of the API server may come with a new CA, so the file is read again for each handshake."""

    def __init__(self, client_ca: Path | None) -> None:
        self._client_ca = client_ca
        self._last: _LastContext | None = None

    def of(self, pair: Pair) -> ssl.SSLContext:
        """The context of the pair, the last one if nothing has changed. While the file can't be used, its last valid
        contents stay in use. Raises OSError if the pair is invalid, or if the file was never valid."""
        newest = self._last
        try:
            client_ca = self._client_ca.read_bytes() if self._client_ca else None
            if newest is None or newest.pair != pair or newest.client_ca != client_ca:
                newest = _LastContext(pair, client_ca, context(pair, client_ca))
        except OSError as error:  # ssl.SSLError is one
            if newest is None:
                raise
            log.warning("%s can't be used, the last good one serves on: %s", self._client_ca or "the pair", error)
            if newest.pair != pair:  # the pair must change nevertheless; raises if it is the cause
                newest = _LastContext(pair, newest.client_ca, context(pair, newest.client_ca))
        self._last = newest
        return newest.context


class CertificateFiles:
    """Two PEM files. If they can't be read or do not match (during a write), the last good ones stay in use."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._certificate, self._key = certificate, key
        self._contexts = Contexts(client_ca)
        self._last: Pair | None = None

    def start(self) -> None:
        """There is nothing to start: the files are read at each handshake."""

    def context(self) -> ssl.SSLContext:
        """The context for the files' current contents, or for the last valid ones; raises OSError if they were never
        valid."""
        try:
            pair = self._read()
            ssl_context = self._contexts.of(pair)
        except OSError as error:  # ssl.SSLError is one
            if self._last is None:
                raise
            log.warning("the certificate can't be read, the last good one serves on: %s", error)
            return self._contexts.of(self._last)
        self._last = pair
        return ssl_context

    def problem(self) -> str | None:
        """The reason why the two files can't serve now; None if they can."""
        try:
            pair = self._read()
        except OSError as error:
            return f"{error.filename}: {(error.strerror or 'unreadable').lower()}"
        why = certs.problem(pair, datetime.now(UTC))
        return f"{self._certificate}, {self._key}: {why}" if why else None

    def worry(self) -> str | None:
        """Nothing: whatever is wrong with the files is a problem."""
        return None

    def not_after(self) -> float:
        """Seconds since the epoch at which the certificate in the file expires; 0 if it can't be read now."""
        try:
            return certs.not_after(self._certificate.read_bytes()).timestamp()
        except (OSError, ValueError):
            return 0.0

    def is_off(self) -> bool | None:
        """Not known: a server with certificates in files has no right to read the configurations."""
        return None

    def _read(self) -> Pair:
        """The present contents of the two files; raises OSError."""
        return Pair(self._certificate.read_bytes(), self._key.read_bytes())


def context(pair: Pair, client_ca: bytes | None = None) -> ssl.SSLContext:
    """The TLS context of a server with this pair, for TLS 1.2 or newer.

    `client_ca` (PEM): a client may show a certificate of that CA, and no other; None: clients are not asked. It need
    not show one, because a kubelet's probes have none. `KnownClients` denies reviews without one. Raises OSError if
    the pair is not valid, or `client_ca` contains no certificate.
    """
    ssl_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ssl_context.minimum_version = ssl.TLSVersion.TLSv1_2
    ssl_context.options |= ssl.OP_NO_RENEGOTIATION
    ssl_context.verify_mode = ssl.CERT_NONE
    if client_ca is not None:
        if b"-----BEGIN" not in client_ca:
            raise OSError("there is no certificate in it")
        ssl_context.load_verify_locations(cadata=client_ca.decode("ascii", "ignore"))
        ssl_context.verify_mode = ssl.CERT_OPTIONAL
    _load(ssl_context, pair)
    return ssl_context


def _load(ssl_context: ssl.SSLContext, pair: Pair) -> None:
    """Load the pair into the context; raises OSError if the pair is not valid. ssl reads certificates from files alone:
    from memory that looks like one (memfd). Without memfd, from a file that exists only meanwhile."""
    memfd_create: Callable[[str], int] | None = getattr(os, "memfd_create", None)  # Linux
    if memfd_create is None:
        with TemporaryDirectory() as folder:
            path = Path(folder, "pair.pem")
            path.touch(0o600)
            path.write_bytes(pair.certificate + pair.key)
            ssl_context.load_cert_chain(path)
        return
    with os.fdopen(memfd_create("podfit"), "wb") as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        ssl_context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")


class KnownClients:
    """Answers reviews only for clients with a certificate, but probes and metrics for all clients.

    It is an ASGI application around another. The handshake has verified the certificate (`context`)."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 403: only a review is a POST."""
        if scope[CERTIFICATE] or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"error": "no client certificate of --client-ca"}\n'})
