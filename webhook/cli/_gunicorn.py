"""gunicorn, as `podfit serve` runs it: its settings, and a worker whose threads wait for nobody."""

from __future__ import annotations

import logging
import os
import random
import select
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.http import get_parser
from gunicorn.http.body import LengthReader
from gunicorn.sock import ssl_wrap_socket
from gunicorn.workers.gthread import TConn, ThreadWorker

from webhook.cli import _log, _socket
from webhook.cli._socket import HEAD, TLS, PatientSocket, whole
from webhook.server.reviews import ARRIVED, MAX_BODY

LINGER = 2.0
"""Seconds for a peer to close after our last word: who closes at once may tear that word away from it."""
SOON = 0.002
"""Seconds that a thread stays with a connection whose request it has answered: who has more to ask mostly asks at once,
and the way of the next request through the main loop to a thread takes as long as the rest of a remembered review."""
STAYS = 16
"""Requests in a row for which a thread stays with a connection; then it is the turn of those in the main loop."""
AHEAD = 2 * MAX_BODY
"""Bytes of unfinished requests that are kept without a thread; whoever has sent much when there are more takes one."""
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
    end: Callable[[], None],
) -> int:
    """Serves until a signal; returns gunicorn's exit code.

    `certificate` is asked at each handshake; `begin` is called in the worker (threads outlive no fork) once it can
    answer, `drain` when it has been told to stop, `end` when all has been answered.
    """
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
        # Nobody is looked for in a list of proxies, since there are none. "*" alone would mean that every peer is one,
        # whose headers may change the scheme, SCRIPT_NAME and PATH_INFO: none may.
        "forwarded_allow_ips": "*",
        "secure_scheme_headers": {},
        "forwarder_headers": "",
        "accesslog": None,
        "logger_class": _log.Gunicorn,
        "loglevel": "warning",
        "control_socket_disable": True,
        "worker_tmp_dir": str(SHM) if os.access(SHM, os.W_OK) else None,
        "post_worker_init": lambda worker: worker.begin(begin, drain),
        "worker_exit": lambda _, worker: end() if worker.booted else None,
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
    """gunicorn's worker with threads. Of ours: no thread waits for a peer to shake hands or to send its request
    (clients open some in reserve, others stall, and a few of those would take all threads), a request's waiting is
    measured, old connections are closed, and we are told when the worker stops.

    A thread takes what is there. The main loop watches for more: of what was begun in `pending_conns`; for the next
    request in `keepalived_conns`, where a thread puts its connection itself.
    """

    _drain: Callable[[], None]
    _looked = 0.0
    _queued: deque[None]
    """One for each connection that waits for a thread."""

    def begin(self, begin: Callable[[], None], drain: Callable[[], None]) -> None:
        """Called by gunicorn when all is loaded."""
        self._drain = drain
        begin()

    def handle_exit(self, sig: int, frame: object) -> None:
        """SIGTERM: what has been asked is answered, then the process ends."""
        self._drain()
        super().handle_exit(sig, frame)

    def enqueue_req(self, conn: TConn) -> None:
        """In the main loop: a connection is new, or there is something to read. Never raises, never waits."""
        try:
            if isinstance(conn.sock, PatientSocket):
                conn.arrived = time.monotonic()
                self._queued.append(None)
                self.tpool.submit(self._serve, conn)
            else:
                conn.ages = time.monotonic() + AGE * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
                conn.sock = ssl_wrap_socket(conn.sock, self.cfg)
                conn.begun = False
                self._await(conn, KEEPALIVE)
        except Exception as error:
            if not isinstance(error, OSError):  # else it is gone
                log.error("a connection is closed", exc_info=error)
            self._leave(conn)

    def _read(self, conn: TConn) -> None:
        """In a thread, without waiting: the handshake, and a request up to its end; raises SSLWantReadError where more
        must come."""
        conn.sock.setblocking(False)
        if not conn.initialized:
            ssl.SSLSocket.do_handshake(conn.sock)
            conn.parser = get_parser(self.cfg, conn.sock, conn.client)
            conn.initialized = True
            conn.begun = False
        ahead = conn.sock.ahead
        if rest := conn.parser.unreader.take_buffered():
            ahead[:0] = rest
        while not whole(ahead):
            if len(ahead) > HEAD and sum(len(one.sock.ahead) for one in list(self.pending_conns)) + len(ahead) > AHEAD:
                return
            more = ssl.SSLSocket.recv(conn.sock, HEAD)
            if not more:
                raise ConnectionResetError
            ahead += more

    def _go_on(self, conn: TConn, event: int) -> None:
        """More must come: of what was begun all within PATIENCE seconds; for a request there is more time."""
        if conn.begun:
            self._await(conn, None, event)
        else:
            conn.begun = not conn.initialized or bool(conn.sock.ahead)
            self._await(conn, _socket.PATIENCE if conn.begun else KEEPALIVE if self.alive else LINGER, event)

    def _await(self, conn: TConn, seconds: float | None, event: int = selectors.EVENT_READ) -> None:
        """Waits without a thread, so many seconds from now; None: as long as was left."""
        conn.sock.setblocking(False)
        if seconds is not None:
            conn.timeout = time.monotonic() + seconds
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, event, partial(self.on_pending_socket_readable, conn))

    def _serve(self, conn: TConn) -> None:
        """In a thread: what there is to do for a connection, and what becomes of it then."""
        kept: object = False
        try:
            kept = self.handle(conn)
            if kept is True and not _has_more(conn):
                self._keep(conn)
                return
        except (OSError, ValueError, KeyError):  # it is gone, or the main loop is
            kept = False
        except BaseException as error:
            log.error("a connection is closed", exc_info=error)
            kept = False
        self.method_queue.defer(self._finish, conn, kept)

    def _keep(self, conn: TConn) -> None:
        """In a thread: the main loop shall watch for the next request. It is not woken up for that: it would wait for
        Python's lock, and a thread that has something to answer for it."""
        conn.sock.setblocking(False)
        conn.timeout = time.monotonic() + KEEPALIVE
        self.keepalived_conns.append(conn)
        if not self.alive:  # else `_cap_keepalive` comes after this, and sees it
            conn.timeout = time.monotonic() + LINGER
        try:
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_client_socket_readable, conn))
        except BaseException:
            self.keepalived_conns.remove(conn)
            raise

    def _finish(self, conn: TConn, kept: object) -> None:
        """In the main loop, a thread is done with a connection: the next request is there already, more of this one
        must come, or it is to be closed."""
        if isinstance(kept, _More):
            try:
                self._go_on(conn, kept.event)
            except (OSError, ValueError, KeyError):
                self._leave(conn)
        elif kept:
            self.enqueue_req(conn)
        else:
            self._leave(conn)

    def _leave(self, conn: TConn) -> None:
        """Closes: says so, and waits for the peer to do the same, without a thread and not for long."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._last_words, conn))
        except (OSError, ValueError, KeyError):
            self._close(conn)
        else:
            conn.sock.ahead.clear()
            conn.begun, conn.timeout = False, time.monotonic() + LINGER
            self.pending_conns.append(conn)

    def _last_words(self, conn: TConn, _: object) -> None:
        """What still comes is thrown away."""
        try:
            if socket.socket.recv(conn.sock, HEAD):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._drop(conn)

    def _drop(self, conn: TConn) -> None:
        self.pending_conns.remove(conn)
        self.poller.unregister(conn.sock)
        self._close(conn)

    def _close(self, conn: TConn) -> None:
        self.nr_conns -= 1
        conn.close()

    def murder_pending(self) -> None:
        """Closes what has waited too long; called at each turn of the main loop, and done ten times a second."""
        now = time.monotonic()
        if now < self._looked + 0.1:
            return
        self._looked = now
        for conn in [conn for conn in self.pending_conns if conn.timeout <= now]:
            self._drop(conn)

    def _cap_keepalive(self, deadline: float) -> None:
        """Called when stopping: connections without a request are not waited for any longer than kept-alive ones."""
        for conn in (*self.keepalived_conns, *self.pending_conns):  # copies: threads add to the first
            if not conn.begun:
                conn.timeout = min(conn.timeout, deadline)

    def init_process(self) -> None:
        """Called by gunicorn in the worker's process."""
        self.staying(self.cfg.threads)
        settings = {name: one.get() for name, one in self.cfg.settings.items()}
        # Else each is looked for by `__getattr__`, 20 of them a request. A later `cfg.set` changes nothing any more.
        self.cfg.__dict__.update(settings)
        super().init_process()

    def staying(self, threads: int) -> None:
        """Of so many threads one at a time may stay with its connection; the only one may not, it is for everybody."""
        self._staying = threading.Semaphore(min(threads - 1, 1))
        self._queued = deque()

    def handle(self, conn: TConn) -> object:
        """In a thread: what has come of a request and its answer once all has, and so on while more comes at once."""
        self._queued.popleft()
        kept = self._handle(conn)
        stays = 0
        while kept is True and stays < STAYS and not _has_more(conn) and self._more_soon(conn):
            stays += 1
            conn.arrived = time.monotonic()
            kept = self._handle(conn)
        return kept

    def _more_soon(self, conn: TConn) -> bool:
        """Something came of the connection's next request while this thread waited for it; but one does at a time, and
        none while others wait for a thread."""
        if self._queued or not self._staying.acquire(blocking=False):
            return False
        try:
            waiting = select.poll()
            waiting.register(conn.sock, select.POLLIN)
            return bool(waiting.poll(SOON * 1000))
        finally:
            self._staying.release()

    def _handle(self, conn: TConn) -> object:
        """What has come of a request, and its answer once all has."""
        try:
            self._read(conn)
        except ssl.SSLWantReadError:
            return _More(selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            return _More(selectors.EVENT_WRITE)
        except ssl.SSLError as error:
            if error.errno not in (ssl.SSL_ERROR_EOF, ssl.SSL_ERROR_ZERO_RETURN):
                log.warning("no TLS with %s: %s", conn.client[0], error.reason)
            return False
        except OSError:  # it is gone
            return False
        conn.begun = False
        conn.sock.until = time.monotonic() + _socket.PATIENCE
        return super().handle(conn)

    def handle_request(self, req: Any, conn: TConn) -> bool:
        """The answer to a request."""
        if time.monotonic() > conn.ages:
            req.force_close()
        self._arrived.at = conn.arrived
        _hand_over(req, conn)
        with conn.sock.together():
            kept: bool = super().handle_request(req, conn)
        return kept

    def _keepalive_after(self, conn: TConn, keepalive: bool) -> bool:
        """Whether the connection goes on. Of a body that was handed over nothing is left on the connection: gunicorn
        would look for it twice, and change the socket's timeout for each look."""
        if keepalive and isinstance(conn.parser.mesg.body, BytesIO):
            conn.parser.mesg = None
            return True
        return bool(super()._keepalive_after(conn, keepalive))

    def load_wsgi(self) -> None:
        """Lets the application know since when a request waits."""
        super().load_wsgi()
        app: Any = self.wsgi  # type: ignore[has-type]  # gunicorn has no types
        local = self._arrived = threading.local()

        def arrived(environ: dict[str, Any], start_response: Any) -> Any:
            environ[ARRIVED] = local.at
            return app(environ, start_response)

        self.wsgi = arrived


def _has_more(conn: TConn) -> bool:
    """Some of the connection's next request was read with the last one: no look at the socket would tell."""
    return bool(conn.sock.ahead or conn.parser.unreader.buf.getvalue())


def _hand_over(req: Any, conn: TConn) -> None:
    """Makes a request's body, all of which is there, one piece: gunicorn's reader copies it eight times."""
    if not isinstance(req.body.reader, LengthReader):
        return
    unreader, ahead = conn.parser.unreader, conn.sock.ahead
    begun = unreader.take_buffered()
    missing = req.body.reader.length - len(begun)
    try:
        if 0 <= missing <= len(ahead):
            with memoryview(ahead) as all_:
                req.body, begun = BytesIO(b"".join((begun, all_[:missing]))), b""
            del ahead[:missing]
    except MemoryError:  # the application says so
        pass
    unreader.unread(begun)


@dataclass(frozen=True)
class _More:
    """What became of a connection: the rest of its handshake or request must come first."""

    event: int
