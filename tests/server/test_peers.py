"""Clients that stall, lie about lengths, or open too many connections cost the others nothing. Real sockets and TLS."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from podfit.server.edge import peer
from podfit.server.reviews import MAX_BODY
from tests.conftest import GOOD_POD
from tests.reviews import admission_review, doomed
from tests.server import hostile
from tests.server.test_server import DEADLINE, Server, serving, until

MOST = 24
"""Connections that this module's server accepts."""


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with room for few connections, which still waits for them as long as usual."""
    patch = f"worker.MAX_CONNECTIONS = {MOST}"
    with serving(tmp_path_factory.mktemp("peers"), "--drain", "0", patch=patch) as server:
        yield server


class Client:
    """One that behaves."""

    def __init__(self, server: Server) -> None:
        self.connection = server.connect()

    def review(self, uid: str, pod: dict[str, Any] = GOOD_POD) -> bool:
        """Whether it is allowed; the answer must be to this review."""
        body = json.dumps(admission_review(pod, uid=uid)).encode()
        self.connection.request("POST", "/validate?timeout=10s", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        response = json.loads(answer.read())["response"]
        assert (answer.status, response["uid"]) == (200, uid)
        return bool(response["allowed"])


@pytest.mark.parametrize("attack", hostile.ATTACKS, ids=lambda attack: attack.__name__)
def test_who_behaves_is_answered_meanwhile(attack: Any, server: Server) -> None:
    kept = Client(server)
    with closing(kept.connection), ExitStack() as stack:
        assert kept.review("before")
        opened = kept.connection.sock
        for number, connection in enumerate(attack(server.port, MOST + 12)):
            stack.enter_context(connection)
            if number % 6 == 0:
                assert kept.review(f"kept-{number}")
                assert not kept.review(f"bad-{number}", doomed(GOOD_POD))
        fresh = Client(server)
        with closing(fresh.connection):
            assert fresh.review("fresh")

        assert kept.connection.sock is opened, "no connection of a client that asks is closed"


def closed(connection: socket.socket) -> bytes:
    """What the server sent before it closed the connection."""
    told = b""
    with suppress(ConnectionError):  # a reset
        while more := connection.recv(1 << 16):
            told += more
    return told


@pytest.mark.parametrize("line", hostile.LENGTHS)
def test_a_length_that_is_none_is_refused_at_once(line: bytes, server: Server) -> None:
    with hostile.tls(server.port) as connection:
        connection.sendall(hostile.HEAD + b"Connection: close\r\n" + line + b"\r\n{")

        assert re.match(rb"HTTP/1.1 (400|413) ", connection.recv(1 << 16))


@pytest.mark.parametrize("chunk", [b"ffffffffffffffffff\r\n{", b"-5\r\n{", b"{"])
def test_a_chunk_that_is_none_is_refused_at_once(chunk: bytes, server: Server) -> None:
    with hostile.tls(server.port) as connection:
        connection.sendall(hostile.HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)

        assert closed(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "piece", [b"X-A: " + b"a" * 1000 + b"\r\n", b"a" * 1000], ids=["of many lines", "of one long line"]
)
def test_headers_without_an_end_are_not_read_on(piece: bytes, server: Server) -> None:
    with hostile.tls(server.port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nB: c" + b"\r\n" * piece.startswith(b"X"))
        with suppress(OSError):
            for _ in range(peer.MAX_HEADER_BYTES // 1000 + 1):
                connection.sendall(piece)

        assert closed(connection).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "piece", [b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 200, b"5;" + b"a" * 1000], ids=["trailers", "extension"]
)
def test_what_chunks_carry_beside_the_body_is_not_read_on(piece: bytes, tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--drain", "0", patch="peer.PEER_TIMEOUT = 300") as server,
        hostile.tls(server.port) as connection,
    ):
        connection.sendall(hostile.HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + piece)
        with suppress(ConnectionError):
            for _ in range(1000):
                connection.sendall(piece[-996:])  # 166 whole trailers

        assert closed(connection)[:13] in (b"", b"HTTP/1.1 400 "), "a reset may come before the answer"


def test_a_body_larger_than_allowed_is_refused_before_it_is_sent_and_the_connection_goes_on(server: Server) -> None:
    with closing(server.connect()) as connection:
        for size, code in ((MAX_BODY + 1, 413), (2, 400)):
            connection.putrequest("POST", "/validate")
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(size))
            connection.endheaders()
            if code == 400:
                connection.send(b"{}")
            answer = connection.getresponse()
            assert (answer.status, answer.read()[:9]) == (code, b'{"error":')
            if code == 413:  # who has begun to send goes on
                connection.send(b" " * size)


def test_large_bodies_have_a_budget_and_what_exceeds_it_is_refused_at_once(server: Server) -> None:
    head = hostile.HEAD + b"Content-Length: %d\r\n\r\n" % MAX_BODY
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(hostile.tls(server.port)).sendall(head + b"{")
        until(lambda: refused(server.port, head))
        assert server.review("/validate", admission_review(GOOD_POD))["allowed"]
    until(lambda: not refused(server.port, head))


def refused(port: int, head: bytes) -> bool:
    """Whether a request is answered with 503 before its body is there."""
    with hostile.tls(port) as connection:
        connection.settimeout(0.1)
        connection.sendall(head)
        with suppress(TimeoutError):
            return connection.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
    return False


def test_above_the_limit_the_oldest_connection_without_a_request_is_closed(server: Server) -> None:
    kept = Client(server)
    with closing(kept.connection), ExitStack() as stack:
        kept.review("first")
        sock = kept.connection.sock
        opened = [stack.enter_context(one) for one in hostile.idle(server.port, 2 * MOST)]
        assert opened[0].recv(1) == b"", "the oldest one, after those of earlier tests that are still closing"

        assert kept.review("second")
        assert kept.connection.sock is sock
        opened[-1].settimeout(0.05)
        with pytest.raises(TimeoutError):  # the newest one is still open
            opened[-1].recv(1)


def limited(folder: Path, limit: int, **patches: str) -> str:
    """Python that gives a server this memory in bytes."""
    path = folder / "memory.max"
    path.write_text(str(limit))
    lines = [f"memory.CGROUP_LIMITS = {{'': pathlib.Path({str(path)!r})}}"]
    return "\n".join([*lines, *(f"memory.{name} = {value}" for name, value in patches.items())])


def private(server: Server) -> int:
    """KiB of the worker's own memory."""
    found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{server.worker()}/status").read_text())
    assert found
    return int(found[1])


def test_unfinished_small_bodies_are_as_many_as_the_memory_allows(tmp_path: Path) -> None:
    """192 MiB for data, of which 160 are the worker's share: 16 connections of 2 MiB each."""
    patch = limited(tmp_path, 320 << 20, CONNECTION="2 << 20", _private="lambda: 96 << 20")
    with serving(tmp_path, "--drain", "0", patch=patch) as server, ExitStack() as stack:
        kept = Client(server)
        stack.enter_context(closing(kept.connection))
        before = [kept.review("good"), kept.review("bad", doomed(GOOD_POD))]
        attack = [stack.enter_context(one) for one in hostile.unfinished(server.port, 60)]
        meanwhile = [kept.review("good"), kept.review("bad", doomed(GOOD_POD))]

        assert before == meanwhile == [True, False]
        assert all(closed(connection) == b"" for connection in attack[: 60 - 16]), "the oldest are closed, not answered"
        attack[-1].settimeout(0.05)
        with pytest.raises(TimeoutError):
            attack[-1].recv(1)


def test_the_memory_of_closed_connections_is_given_back(tmp_path: Path) -> None:
    patch = "memory.SECONDS = 0.0\nmemory.CLOSED = 32\npeer.PEER_TIMEOUT = 600"  # they stay until the test closes them
    with serving(tmp_path, "--drain", "0", patch=patch) as server:
        before = private(server)
        with ExitStack() as stack:
            for connection in hostile.unfinished(server.port, 150):
                stack.enter_context(connection)
            until(lambda: private(server) - before > 10_000)
        until(lambda: private(server) - before < 6_000)
        assert server.review("/validate", admission_review(GOOD_POD))["allowed"]


def test_the_limit_is_below_half_of_the_open_files(tmp_path: Path) -> None:
    limit = 256
    patch = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))"
    with serving(tmp_path, "--drain", "0", patch=patch) as server, ExitStack() as stack:
        for one in hostile.idle(server.port, limit):
            stack.enter_context(one)
        assert server.review("/validate", admission_review(GOOD_POD))["allowed"]

        assert len(os.listdir(f"/proc/{server.worker()}/fd")) < limit / 2  # noqa: PTH208 - some vanish meanwhile


def test_without_open_files_connections_make_room_for_new_ones(tmp_path: Path) -> None:
    """The limit of connections is above what the process may open, as if the whole machine had no files left."""
    patch = "worker.getrlimit = lambda _: (4096, 4096)\n"
    patch += "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
    with serving(tmp_path, "--drain", "0", patch=patch) as server, ExitStack() as stack:
        for one in hostile.idle(server.port, 200):
            stack.enter_context(one)
        assert server.review("/validate", admission_review(GOOD_POD))["allowed"]


@pytest.fixture(name="hasty", scope="module")
def _hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that waits half a second for peers."""
    with serving(tmp_path_factory.mktemp("hasty"), "--drain", "0", patch="peer.PEER_TIMEOUT = 0.5") as server:
        yield server


@pytest.mark.parametrize(
    "attack",
    [hostile.idle, hostile.half_open, hostile.slow_headers, hostile.slow_bodies, hostile.large_bodies],
    ids=lambda attack: attack.__name__,
)
def test_a_peer_that_is_late_is_closed(attack: Any, hasty: Server) -> None:
    for connection in attack(hasty.port, 4):
        with connection:
            closed(connection)
    assert hasty.review("/validate", admission_review(GOOD_POD))["allowed"]


def test_a_peer_that_sends_a_byte_now_and_then_gets_no_more_time(hasty: Server) -> None:
    with hostile.tls(hasty.port) as connection, suppress(OSError):
        connection.settimeout(0.1)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nA: ")
        for _ in range(10 * DEADLINE):
            connection.sendall(b"a")
            with suppress(TimeoutError):
                assert connection.recv(1) == b""
                return
        raise AssertionError


def test_a_peer_that_does_not_read_its_answers_is_closed(hasty: Server) -> None:
    body = json.dumps(admission_review(doomed(GOOD_POD))).encode()
    for connection in hostile.unread(hasty.port, 2, body):
        with connection:
            connection.settimeout(DEADLINE)
            closed(connection)


def test_a_connection_that_waits_for_a_request_is_not_late(hasty: Server) -> None:
    """What the patience is for has ended."""
    kept = Client(hasty)
    with closing(kept.connection):
        for uid in ("first", "second"):
            kept.review(uid)
            opened = kept.connection.sock
            with hostile.tcp(hasty.port) as late:  # when this one is closed, the time has passed
                assert late.recv(1) == b""
            assert kept.connection.sock is opened


def test_idle_connections_are_kept_longer_than_the_api_server_keeps_them() -> None:
    assert peer.IDLE > 100


def test_after_sigterm_connections_are_used_on_and_closed_with_their_next_answer(tmp_path: Path) -> None:
    with serving(tmp_path) as server, closing(Client(server).connection) as idle_, hostile.tls(server.port) as early:
        kept = Client(server)
        with closing(kept.connection):
            kept.review("before")
            idle_.connect()
            server.process.terminate()
            until(lambda: _status(server) == 503)  # who comes now is answered, too
            body = json.dumps(admission_review(GOOD_POD)).encode()
            for connection in (kept.connection, idle_):
                connection.request("POST", "/validate", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                assert json.loads(answer.read())["response"]["allowed"] is True
                assert (answer.status, answer.headers["Connection"]) == (200, "close")
            early.sendall(hostile.HEAD + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1))
            answered = early.recv(1 << 16).lower()  # before its body came
            assert answered.startswith(b"http/1.1 413 ")
            assert b"\r\nconnection: close\r\n" in answered
        assert server.process.wait(DEADLINE) == 0


def _status(server: Server) -> int:
    return server.request("GET", "/readyz")[0]


def test_connections_that_nobody_uses_do_not_keep_the_server_from_its_end(tmp_path: Path) -> None:
    with serving(tmp_path, "--drain", "0") as server, closing(server.connect()) as one, hostile.tcp(server.port):
        one.request("GET", "/healthz")
        one.getresponse().read()
        server.process.terminate()

        assert server.process.wait(DEADLINE) == 0
        assert one.sock.recv(1) == b""


def test_each_client_gets_its_own_answers(server: Server) -> None:
    """Small, with a script, and large: one thread of a client for each, and all at once."""
    from concurrent.futures import ThreadPoolExecutor

    script = json.loads(json.dumps(GOOD_POD))
    script["spec"]["containers"][0] |= {"command": ["sh", "-c", "exec vllm serve Qwen/Qwen3-8B"], "args": []}
    large = json.loads(json.dumps(GOOD_POD))
    large["metadata"]["annotations"] = {f"a{number}": "x" * 1000 for number in range(400)}

    def ask(name: str, pod: dict[str, Any]) -> int:
        client = Client(server)
        with closing(client.connection):
            for number in range(20):
                client.review(f"{name}-{number}", pod)
        return 20

    pods = {"small": GOOD_POD, "bad": doomed(GOOD_POD), "script": script, "large": large}
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, f"{name}-{turn}", pod) for turn in "ab" for name, pod in pods.items()]

        assert [one.result(DEADLINE) for one in asked] == [20] * 8


def test_more_requests_at_once_than_anyone_needs_end_the_connection(server: Server) -> None:
    with hostile.tls(server.port) as connection, suppress(OSError):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 1000)
        assert closed(connection).count(b"HTTP/1.1 200 ") < 1000
    assert server.review("/validate", admission_review(GOOD_POD))["allowed"]


def test_a_client_that_waits_for_100_continue_gets_it(server: Server) -> None:
    body = json.dumps(admission_review(GOOD_POD)).encode()
    with hostile.tls(server.port) as connection:
        head = b"Expect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(hostile.HEAD + head)
        assert connection.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()

        assert json.loads(answer.read())["response"]["allowed"] is True
