"""The process: accepts connections, closes those that are late or too many, and stops without losing a request."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from resource import RLIMIT_NOFILE, getrlimit
from typing import Any

import uvloop
from gunicorn.app.base import BaseApplication
from gunicorn.workers.base import Worker as BaseWorker
from uvicorn.config import Config
from uvicorn.server import ServerState

from podfit.server import memory
from podfit.server.certs.serving import Application, Serving
from podfit.server.edge.peer import IDLE, Peer
from podfit.server.log import Gunicorn

# open at once; at most three eighths of the files that the process may open (RLIMIT_NOFILE), and what memory allows
MAX_CONNECTIONS = 1000
RECEIVED = 64 << 10  # bytes of a connection that the kernel keeps until they are read; it may take twice as many
BATCH = 64  # connections accepted before the open ones have their turn
CLOSING = 2.0  # seconds for the peer to close TLS
TICK = 0.1  # seconds between two checks of the deadlines
NEW_CONNECTION = 1.0  # seconds that a new connection has for its request when the worker stops

log = logging.getLogger(__name__)


class Worker(BaseWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's worker process: one event loop with all connections."""

    def run(self) -> None:
        """Called by gunicorn; returns after the last answer."""
        self.peers = OrderedDict[Peer, None]()  # ordered by the time of the last answer, or of the TCP connection
        max_files, _ = getrlimit(RLIMIT_NOFILE)
        self.most = min(MAX_CONNECTIONS, memory.shares().connections, max_files * 3 // 8)
        self.state = ServerState()  # uvicorn's headers of each answer
        self.leaving = False  # the signal to stop has come
        self.closed = 0  # connections since memory was last returned to the system
        self.config = Config(
            self.wsgi, http=Peer, ws="none", lifespan="off", interface="asgi3", proxy_headers=False, access_log=False,
            server_header=False, log_config=None, log_level="error", timeout_keep_alive=int(IDLE),
        )  # fmt: skip
        self.config.load()
        self.sockets[0].sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)  # accepted sockets inherit it
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self.serve(self.sockets[0].sock))

    async def serve(self, listener: socket.socket) -> None:
        """Serves until the signal to stop, and then until no connection is left: each answer closes its connection, and
        `drain` seconds later those without a pending request are closed. Accepts connections until then."""
        loop = asyncio.get_running_loop()
        drained, given_back = math.inf, time.monotonic()  # the end of `drain`; when memory was last returned
        while not self.leaving or self.peers:
            self.notify()  # gunicorn replaces a worker that does not
            now = time.monotonic()
            self.state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            self.close_late(now, drained)
            if now <= drained:  # each time, since `accept` stops itself if it can't open more files
                loop.add_reader(listener, self.accept, listener)
            else:  # after a reload, the new worker accepts
                loop.remove_reader(listener)
            if self.closed >= memory.CLOSED and now > given_back + memory.SECONDS:
                self.closed, given_back = 0, now
                memory.give_back()
            await asyncio.sleep(TICK)
            is_told_to_stop = not self.alive or self.ppid != os.getppid()  # by a signal, or gunicorn itself has ended
            if is_told_to_stop and not self.leaving:
                self.leaving, drained = True, now + self.app.drain
                self.app.leave()

    def close_late(self, now: float, drained: float) -> None:
        """Closes connections whose peer is late, and after `drained` also those without a pending request. Both are
        times of time.monotonic; infinity: the worker does not stop."""
        for peer in list(self.peers):
            is_late = now > min(peer.sends, peer.reads)
            must_leave = now > drained + (0 if peer.used else NEW_CONNECTION)
            if is_late or (must_leave and not peer.busy):
                peer.give_up()

    def accept(self, listener: socket.socket) -> None:
        """Accepts pending connections. For each one above the limit, another one is closed."""
        try:
            for _ in range(BATCH):
                accepted, address = listener.accept()
                accepted.setblocking(False)
                peer = Peer(self)
                self.peers[peer] = None
                peer.opening = asyncio.create_task(self.establish(peer, accepted, address[0]))
                peer.opening.add_done_callback(partial(self.established, peer, accepted))
                if len(self.peers) > self.most:
                    self.evict()
        except (BlockingIOError, ConnectionError):
            pass
        except OSError as error:  # no more open files: nothing is accepted until the next check
            log.error("a connection can't be accepted: %s", error)
            asyncio.get_running_loop().remove_reader(listener)
            self.evict()

    async def establish(self, peer: Peer, accepted: socket.socket, address: str) -> None:
        """Does the TLS handshake, and logs why it fails. Starts at the first byte: until then a connection costs no
        memory for TLS."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_recv(accepted, 0)  # returns when there is something to read, and reads none of it
            tls = self.app.serving.context()
            await loop.connect_accepted_socket(lambda: peer, accepted, ssl=tls, ssl_shutdown_timeout=CLOSING)
        except ConnectionError:  # the peer is gone
            pass
        except OSError as error:
            log.warning("no TLS with %s: %s", address, error.reason if isinstance(error, ssl.SSLError) else error)

    def established(self, peer: Peer, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        """Called after the handshake, also if its task was canceled before it began: without a connection, the socket
        is closed and the peer forgotten."""
        if not peer.transport:
            accepted.close()
            self.peers.pop(peer, None)
            self.closed += 1

    def evict(self) -> None:
        """Closes the oldest connection without a pending request, if there is one. Of two groups, those that had an
        answer (`Peer.used`) and those that had none, the larger one loses first; the used ones if they are equal."""
        new = [peer for peer in self.peers if not peer.used]
        used = [peer for peer in self.peers if peer.used]
        for peer in [*new, *used] if len(new) > len(used) else [*used, *new]:
            if not peer.busy:
                del self.peers[peer]
                peer.give_up()
                return


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn with these settings only: no configuration file, environment or command line of its own."""

    def __init__(self, app: Application, serving: Serving, leave: Callable[[], None], drain: int, **settings: Any):
        self.asgi, self.serving, self.leave, self.drain, self.settings = app, serving, leave, drain, settings
        super().__init__()

    def load_config(self) -> None:
        """Called by gunicorn at start and on SIGHUP."""
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self) -> Application:
        """Called by gunicorn in the worker."""
        return self.asgi


def serve(
    app: Application, serving: Serving, listener: socket.socket, leave: Callable[[], None], drain: int, **hooks: Any
) -> int:
    """Serves until a signal; returns gunicorn's exit code. `leave` is called in the worker after the signal to stop.

    `listener`: the bound socket, which gunicorn takes over. `drain`: seconds after the signal in which clients may use
    their connections; `hooks`: gunicorn's settings that are functions.
    """
    host, port = listener.getsockname()[:2]
    settings = {
        "bind": f"fd://{listener.detach()}",
        "workers": 1,
        "worker_class": Worker,
        "timeout": 15,  # seconds without a turn of the event loop; then the worker is replaced
        "graceful_timeout": drain + 10,  # seconds after the signal to stop; then the worker is killed
        "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK) else None,  # the root may be read-only
        "control_socket_disable": True,
        "logger_class": Gunicorn,
        "loglevel": "warning",
        "when_ready": lambda _: log.info("serving on https://%s:%s", f"[{host}]" if ":" in host else host, port),
        "on_exit": lambda _: log.info("stopped"),
    }
    try:
        Server(app, serving, leave, drain, **settings, **hooks).run()
    except SystemExit as exit_:  # Python's meaning of the code: None is success, a text is an error
        if exit_.code is None:
            return 0
        return exit_.code if isinstance(exit_.code, int) else 1
    return 0
