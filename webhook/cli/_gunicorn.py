"""gunicorn, as `podfit serve` runs it: its settings, TLS, and log lines that are lines."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.glogging import Logger  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]  # gunicorn has no types

from webhook.report.text import one_line

PATIENCE = 10.0
"""Seconds that a peer may take to send or to read the next bytes; the API server itself waits 3 s for an answer."""
KEEPALIVE = 100
"""Seconds; longer than the API server's 90 (client-go IdleConnTimeout), so that it is the client who closes."""
SHM = Path("/dev/shm")
"""Where gunicorn keeps its worker's heartbeat: in memory, and writable under a read-only root."""

log = logging.getLogger(__name__)


def serve(
    app: Flask,
    listener: socket.socket,
    cert: Path,
    key: Path,
    threads: int,
    begin: Callable[[], None],
    drain: Callable[[], None],
) -> int:
    """Serves until a signal; returns gunicorn's exit code. `begin` is called in the worker (threads outlive no fork)
    once it can answer, `drain` when it has been told to stop."""
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
        "timeout": 30,
        "graceful_timeout": 20,
        "keepalive": KEEPALIVE,
        "certfile": str(cert),
        "keyfile": str(key),
        "ssl_context": TLS(),
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
    """gunicorn's worker with threads, which tells us when it stops."""

    _drain: Callable[[], None]

    def begin(self, begin: Callable[[], None], drain: Callable[[], None]) -> None:
        """Called by gunicorn when all is loaded."""
        self._drain = drain
        begin()

    def handle_exit(self, sig: int, frame: object) -> None:
        """SIGTERM: what has been asked is answered, then the process ends."""
        self._drain()
        super().handle_exit(sig, frame)


class TLS:
    """Makes the context of each connection: gunicorn asks for one a handshake, so that a renewed certificate serves at
    once. Where the files can't be read or do not match (somebody is just writing them), the last good one serves on."""

    def __init__(self) -> None:
        self._last: ssl.SSLContext | None = None

    def __call__(self, config: object, default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        try:
            context = default()
        except OSError as error:  # ssl.SSLError is one
            if self._last is None:
                raise
            log.warning("the certificate can't be read, the last good one serves on: %s", error)
            return self._last
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = PatientSocket
        self._last = context
        return context


class PatientSocket(ssl.SSLSocket):
    """A socket that gives up on a peer that stalls. gunicorn's block without limit, and as many stalled handshakes as
    there are threads would stop the server."""

    def setblocking(self, flag: bool) -> None:
        """Blocking means at most PATIENCE seconds."""
        self.settimeout(PATIENCE if flag else 0.0)

    def do_handshake(self, block: bool = False) -> None:
        """The handshake, within PATIENCE seconds a message."""
        self.setblocking(True)
        super().do_handshake(block)


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
