"""A connection's TLS socket that waits for nobody for long, and how much of a request has come on it."""

from __future__ import annotations

import math
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from webhook.server.reviews import MAX_BODY

PATIENCE = 10.0
"""Seconds within which a peer must have shaken hands, and sent its whole request, and read some of its answer."""
HEAD = 64 << 10
"""Bytes of a request's line and headers; whoever sends more is not answered."""

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)


def whole(ahead: bytearray) -> bool:
    """A request is all there, or enough of it to be refused; raises ConnectionAbortedError where it never will be."""
    end = ahead.find(b"\r\n\r\n", 0, HEAD) + 4
    if end < 4:
        if len(ahead) >= HEAD:
            raise ConnectionAbortedError
        return False
    length = _LENGTH.search(ahead, 0, end)
    if _CHUNKED.search(ahead, 0, end):
        return len(ahead) - end > MAX_BODY or ahead.find(b"0\r\n\r\n", max(end, len(ahead) - HEAD - 8)) >= 0
    return len(ahead) - end >= min(int(length[1]) if length else 0, MAX_BODY + 1)


class TLS:
    """Makes the context of each connection: gunicorn asks for one a handshake, so that a renewed certificate serves at
    once."""

    def __init__(self, certificate: Callable[[], ssl.SSLContext]) -> None:
        self._certificate = certificate

    def __call__(self, config: object, default: object) -> ssl.SSLContext:
        context = self._certificate()
        context.sslsocket_class = PatientSocket
        return context


class PatientSocket(ssl.SSLSocket):
    """A socket that gives up on a peer that stalls. gunicorn's block without limit, and as many stalled peers as there
    are threads would stop the server."""

    until = math.inf
    """When (time.monotonic) the request that is being read must be there."""

    _held: bytearray | None = None
    _waits = True
    """Whoever uses it waits for the peer. The descriptor itself blocks only then, and when nothing has come or there is
    no room: each change of it, and each look whether there is room, is a system call around which Python's lock is
    given away, and with it the processor to another thread."""

    @cached_property
    def ahead(self) -> bytearray:
        """What came before a thread was taken."""
        return bytearray()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is sent meanwhile goes out at the end, nothing of it where something is raised: gunicorn sends an
        answer's headers and its body, each of which would be a TLS record and a system call of its own."""
        held = self._held = bytearray()
        try:
            yield
        finally:
            self._held = None
        self.sendall(held)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Sends it all, if not `together` with what comes."""
        if self._held is not None:
            self._held += data
            return
        try:
            sent = self.send(data, flags)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        if sent < len(data):
            self._block(PATIENCE)
            super().sendall(data[sent:], flags)

    def setblocking(self, flag: bool) -> None:
        """Blocking means at most PATIENCE seconds."""
        self._waits = flag
        if self.gettimeout() != 0:
            self.settimeout(0.0)

    def _block(self, seconds: float) -> None:
        if not self._waits:
            raise BlockingIOError
        self.settimeout(seconds)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """The next bytes; a peer that sends one at a time gets no more time for it."""
        if self.ahead:
            first = bytes(self.ahead[:buflen])
            del self.ahead[:buflen]
            return first
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come in time")
        self._block(min(left, PATIENCE))
        return super().recv(buflen, flags)
