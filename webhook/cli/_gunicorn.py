"""gunicorn, as `podfit serve` runs it: its settings, TLS, and log lines that are lines."""

from __future__ import annotations

import logging
import math
import os
import random
import select
import selectors
import socket
import ssl
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.glogging import Logger  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.workers.gthread import TConn, ThreadWorker  # type: ignore[import-untyped]  # gunicorn has no types

from webhook.report.text import one_line
from webhook.reviews import ARRIVED

PATIENCE = 10.0
"""Seconds within which a peer must have sent its whole request, and within which it must read some of its answer."""
AGE = 300.0
"""Seconds after which a connection is closed with its next answer, give or take a fifth: who has one to an old replica
finds the new ones then."""
HEARTBEAT = 15
"""Seconds without a sign of the worker's main loop after which the worker is killed and replaced."""
KEEPALIVE = 100
"""Seconds; longer than the API server's 90 (client-go IdleConnTimeout), so that it is the client who closes."""
SHM = Path("/dev/shm")
"""Where gunicorn keeps its worker's heartbeat: in memory, and writable under a read-only root."""

log = logging.getLogger(__name__)


def serve(
    app: Flask,
    listener: socket.socket,
    certificate: Callable[[], ssl.SSLContext],
    threads: int,
    begin: Callable[[], None],
    drain: Callable[[], None],
) -> int:
    """Serves until a signal; returns gunicorn's exit code.

    `certificate` is asked at each handshake; `begin` is called in the worker (threads outlive no fork) once it can
    answer, `drain` when it has been told to stop.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    host, port = listener.getsockname()[:2]
    where = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    settings = {
        "bind": f"fd://{listener.detach()}",
        "workers": 1,
        "worker_class": Worker,
        "threads": threads,
        "timeout": HEARTBEAT,
        "graceful_timeout": 20,
        "keepalive": KEEPALIVE,
        "certfile": os.devnull,  # that there is one means TLS; what serves is in ssl_context
        "ssl_context": TLS(certificate),
        "accesslog": None,
        "logger_class": OneLineLogger,
        "loglevel": "warning",
        "control_socket_disable": True,
        "worker_tmp_dir": str(SHM) if os.access(SHM, os.W_OK) else None,
        "post_worker_init": lambda worker: worker.begin(begin, drain),
        "when_ready": lambda _: log.info("serving on %s", where),
        "on_exit": lambda _: log.info("stopped"),
    }
    try:
        Server(app, settings).run()
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 0 if exit_.code is None else 1
    return 0


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn with settings from us alone: no configuration file, no environment, no command line of its own."""

    def __init__(self, app: Flask, settings: dict[str, Any]) -> None:
        self._app, self._settings = app, settings
        super().__init__()

    def load_config(self) -> None:
        """Called by gunicorn at start and on SIGHUP."""
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Called by gunicorn in the worker."""
        return self._app


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's worker with threads. Of ours: a thread is taken by a connection only when there is something to read
    (clients open some in reserve, and a few of those would take all threads), a request's waiting is measured, old
    connections are closed, and we are told when the worker stops."""

    _drain: Callable[[], None]

    def begin(self, begin: Callable[[], None], drain: Callable[[], None]) -> None:
        """Called by gunicorn when all is loaded."""
        self._drain = drain
        begin()

    def handle_exit(self, sig: int, frame: object) -> None:
        """SIGTERM: what has been asked is answered, then the process ends."""
        self._drain()
        super().handle_exit(sig, frame)

    def enqueue_req(self, conn: TConn) -> None:
        """A connection with something to read waits for a thread; a new one for its first bytes."""
        if conn.initialized or conn.data_ready:
            conn.arrived = time.monotonic()
            super().enqueue_req(conn)
        else:
            conn.ages = time.monotonic() + AGE * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
            self._await(conn)

    def finish_request(self, conn: TConn, fs: Future[object]) -> None:
        """A connection that only shook hands goes on waiting for its first request."""
        if not fs.cancelled() and fs.exception() is None and fs.result() is _ONLY_TLS:
            if self.alive:
                self._await(conn)
                return
            fs = Future()
            fs.set_result(False)
        super().finish_request(conn, fs)

    def _cap_keepalive(self, deadline: float) -> None:
        """Called when stopping: connections without a request are not waited for any longer than kept-alive ones."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)

    def _await(self, conn: TConn) -> None:
        """Waits for bytes without a thread, at most as long as for the next request of a connection."""
        conn.data_ready = False
        conn.sock.setblocking(False)
        conn.set_timeout()
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def handle(self, conn: TConn) -> object:
        """In a thread: the handshake, or a request."""
        if not conn.initialized:
            conn.sock.setblocking(True)
            conn.init()
            if not (conn.sock.pending() or select.select([conn.sock], [], [], 0)[0]):
                return _ONLY_TLS
        conn.sock.until = time.monotonic() + PATIENCE
        return super().handle(conn)

    def handle_request(self, req: Any, conn: TConn) -> bool:
        """The answer to a request."""
        if time.monotonic() > conn.ages:
            req.force_close()
        self._arrived.at = conn.arrived
        kept: bool = super().handle_request(req, conn)
        return kept

    def load_wsgi(self) -> None:
        """Lets the application know since when a request waits."""
        super().load_wsgi()
        app: Any = self.wsgi  # type: ignore[has-type]  # gunicorn has no types
        local = self._arrived = threading.local()

        def arrived(environ: dict[str, Any], start_response: Any) -> Any:
            environ[ARRIVED] = local.at
            return app(environ, start_response)

        self.wsgi = arrived


_ONLY_TLS = object()
"""What became of a connection: its handshake is done, and nothing was asked yet."""


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

    def setblocking(self, flag: bool) -> None:
        """Blocking means at most PATIENCE seconds."""
        self.settimeout(PATIENCE if flag else 0.0)

    def do_handshake(self, block: bool = False) -> None:
        """The handshake, within PATIENCE seconds a message."""
        self.setblocking(True)
        super().do_handshake(block)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """The next bytes; a peer that sends one at a time gets no more time for it."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request did not come in time")
        if left < PATIENCE:
            self.settimeout(left)
        return super().recv(buflen, flags)


class OneLine(logging.Formatter):
    """One line a record. Of an exception it says type and place; the text only of errors of the network and of files,
    since any other may quote a manifest and with it a secret in `env`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line without control characters."""
        line = f"{self.formatTime(record, self.datefmt)} {record.levelname} {one_line(record.getMessage())}"
        error = record.exc_info[1] if record.exc_info else None
        return f"{line}: {_short(error)}" if error is not None else line


def _short(error: BaseException) -> str:
    words = type(error).__name__ + (f" {one_line(str(error))}" if isinstance(error, OSError) else "")
    frames = traceback.extract_tb(error.__traceback__)
    return f"{words} at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else words


class OneLineLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's error log in our form."""

    def setup(self, cfg: Any) -> None:
        """Called by gunicorn at start and on SIGHUP."""
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(OneLine())
