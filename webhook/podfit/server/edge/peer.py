"""One connection: uvicorn's HTTP protocol, with deadlines for the peer and limits on what it may send."""

from __future__ import annotations

import asyncio
import math
import random
import time
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from podfit.server.certs.serving import CERTIFICATE
from podfit.server.lanes import ARRIVED

if TYPE_CHECKING:
    from podfit.server.edge.worker import Worker

PEER_TIMEOUT = 10.0  # seconds for each of: a TLS handshake, a request's headers, its body, reading an answer
IDLE = 120.0  # seconds between requests; the API server closes first, after 90 (client-go, IdleConnTimeout)
AGE = 300.0  # seconds, ± 20 %, until a connection closes with its next answer: its client then finds new replicas
MAX_HEADER_BYTES = 16 << 10  # of a request's line and headers, of trailers, or between pieces of a chunked body
PIPELINED = 100  # requests sent before the answer to an earlier one; no client of a webhook sends any


class Joined:
    """A transport that sends an answer's headers and body together: one TLS record and one system call. It keeps what
    is written until `flush`."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport, self.parts = transport, list[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def write(self, data: bytes) -> None:
        self.parts.append(data)
        if data.startswith(b"HTTP/1.1 100"):  # the peer sends its body only after 100 Continue
            self.flush()

    def flush(self) -> None:
        if self.parts:
            self.transport.write(b"".join(self.parts))
            self.parts.clear()

    def close(self) -> None:
        self.flush()
        self.transport.close()


class Peer(HttpToolsProtocol):
    """Overrides asyncio's methods, the parser's callbacks, and uvicorn's `on_response_complete`."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker.config, worker.state, app_state={})
        self.worker = worker
        self.opening: asyncio.Task[None] | None = None  # the handshake
        # All times are of time.monotonic.
        self.close_after = time.monotonic() + AGE * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
        self.used = False  # a request was answered
        self.head = 0  # bytes since a request began, its headers ended, or a piece of its body came
        self.reads = math.inf  # the deadline for reading an answer; infinite while none is unread
        self.wait(PEER_TIMEOUT)

    def wait(self, seconds: float) -> None:
        """Sets the deadline for what the peer must send next. The worker closes connections that are late."""
        self.sends = time.monotonic() + seconds

    def give_up(self) -> None:
        """Closes the connection at once, or ends its handshake."""
        if self.transport:
            self.transport.abort()
        elif self.opening:
            self.opening.cancel()

    @property
    def busy(self) -> bool:
        """True if the peer has sent an entire request and gets its answer, or has sent further requests. False if it
        does not read the answer."""
        has_pending = bool(self.cycle) and not self.cycle.response_complete and not self.cycle.more_body
        if not has_pending and not self.pipeline:  # also before the end of the handshake, when there is no `flow`
            return False
        return not self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self.joined = Joined(transport)
        super().connection_made(self.joined)  # type: ignore[arg-type]  # it has all that uvicorn uses
        self.wait(IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.timeout_keep_alive_task:  # which uvicorn leaves to hold a reset connection's memory
            self.timeout_keep_alive_task.cancel()
        self.worker.peers.pop(self, None)
        self.worker.closed += 1

    def data_received(self, data: bytes) -> None:
        self.head += len(data)
        super().data_received(data)
        if self.head > MAX_HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.wait(PEER_TIMEOUT)

    def on_headers_complete(self) -> None:
        """Adds the time of arrival and the client's certificate to the scope. The answer closes the connection if the
        worker stops or the connection is old."""
        if len(self.pipeline) >= PIPELINED:
            self.transport.abort()
            raise ValueError("too many requests at once")
        self.head = 0
        self.wait(PEER_TIMEOUT)
        more = {ARRIVED: time.monotonic(), CERTIFICATE: self.transport.get_extra_info("peercert")}
        self.scope.update(more)  # type: ignore[typeddict-item]  # ASGI allows other keys
        super().on_headers_complete()
        if self.worker.leaving or time.monotonic() > self.close_after:
            self.cycle.default_headers = [*self.cycle.default_headers, (b"connection", b"close")]

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self.head = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.cycle.more_body = False  # uvicorn leaves it True if the answer came first
        self.head = 0
        self.wait(2 * IDLE)  # uvicorn's own timer ends IDLE seconds after the answer, so it comes first

    def on_response_complete(self) -> None:
        """Sends the answer, and moves the connection to the end of `worker.peers`, which is in the order of the last
        answers. It is absent there if the worker has evicted it."""
        self.joined.flush()
        self.used = True
        if self in self.worker.peers:
            self.worker.peers.move_to_end(self)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.reads = time.monotonic() + PEER_TIMEOUT

    def resume_writing(self) -> None:
        super().resume_writing()
        self.reads = math.inf
