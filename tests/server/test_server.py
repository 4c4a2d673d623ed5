"""The real server: `podfit serve` in a process of its own, over real TLS."""

from __future__ import annotations

import copy
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any, TextIO

import pytest

from podfit.cli import main
from podfit.cli.support import edge
from podfit.cli.support.edge import UnusableError
from podfit.server import certs
from tests.conftest import GOOD_POD
from tests.reviews import UID, admission_review, doomed, without_shm

JSONDict = dict[str, Any]
DEADLINE = 30
"""Seconds after which a test fails instead of waiting for ever."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    port: int
    folder: Path

    def context(self) -> ssl.SSLContext:
        """A client's context that trusts the server's CA."""
        return ssl.create_default_context(cafile=str(self.folder / "ca.crt"))

    def worker(self) -> int:
        """The process that answers."""
        pid = self.process.pid
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(child)

    def connect(self) -> http.client.HTTPSConnection:
        """A new connection, not yet opened."""
        return http.client.HTTPSConnection("localhost", self.port, timeout=DEADLINE, context=self.context())

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of one request over a connection of its own."""
        with closing(self.connect()) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body is not None else {})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def review(self, path: str, body: JSONDict) -> JSONDict:
        """The `response` to a review."""
        status, answer = self.request("POST", f"{path}?timeout=3s", json.dumps(body).encode())
        assert status == 200, answer
        response: JSONDict = json.loads(answer)["response"]
        return response

    def serial(self) -> str:
        """The serial number of the certificate that a new connection gets."""
        raw = socket.create_connection(("localhost", self.port), timeout=DEADLINE)
        with raw, self.context().wrap_socket(raw, server_hostname="localhost") as connection:
            certificate = connection.getpeercert()
        assert certificate
        return str(certificate["serialNumber"])


@contextmanager
def serving(folder: Path, *options: str, stdout: TextIO | int | None = None, patch: str = "") -> Iterator[Server]:
    """Runs the server on a free port until the block ends; whatever it says at start is in the failure.

    `patch`: Python that the process runs first."""
    certs.write(folder, ["localhost", "127.0.0.1"])
    imports = "import sys, pathlib\nfrom podfit.cli import main\n"
    imports += "from podfit.server import memory, reviews\nfrom podfit.server.edge import peer, worker"
    known = re.sub(r"^(\w+\.\w+) = ", r"\1; \1 = ", patch, flags=re.MULTILINE)  # fails for a name that is not there
    code = f"{imports}\n{known}\nsys.exit(main())"
    command = [sys.executable, "-c", code, "serve", "--bind", "127.0.0.1:0", *options]
    command += ["--cert", str(folder / "tls.crt"), "--key", str(folder / "tls.key")]
    with subprocess.Popen(command, stdout=stdout or subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            said, serves = "", None
            while serves is None and (line := process.stderr.readline()):  # written once the port is open
                said += line
                serves = re.search(r"serving on https://127\.0\.0\.1:(\d+)", line)
            assert serves, said
            server = Server(process, int(serves[1]), folder)
            until(lambda: server.request("GET", "/readyz")[0] == 200)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests that leave it as it is."""
    with serving(tmp_path_factory.mktemp("certs"), "--threads", "2") as server:
        yield server


def test_it_becomes_ready_and_says_so(server: Server) -> None:
    status, body = server.request("GET", "/readyz")
    assert (status, body.splitlines()[0]) == (200, b"ok")
    assert server.request("GET", "/healthz") == (200, b"ok\n")


def test_it_refuses_and_patches_over_tls(server: Server) -> None:
    refused = server.review("/validate", admission_review(doomed(GOOD_POD)))
    patched = server.review("/mutate", admission_review(without_shm(GOOD_POD)))

    assert (refused["uid"], refused["allowed"], refused["status"]["code"]) == (UID, False, 403)
    assert (patched["uid"], patched["allowed"], patched["patchType"]) == (UID, True, "JSONPatch")


def test_a_review_waits_for_no_plan_of_every_gpu_of_the_table(server: Server) -> None:
    pod = copy.deepcopy(GOOD_POD)
    del pod["spec"]["nodeSelector"]

    (warning,) = server.review("/validate", admission_review(pod))["warnings"]

    assert "unknown-gpu: 1 × nvidia.com/gpu of an unknown kind: GPU memory is not checked" in warning


def test_many_reviews_go_over_one_connection(server: Server) -> None:
    body = json.dumps(admission_review(GOOD_POD)).encode()
    with closing(server.connect()) as connection:
        connection.connect()
        opened = connection.sock
        for _ in range(20):
            connection.request("POST", "/validate", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["response"]["uid"]) == (200, UID)

            assert connection.sock is opened


def test_a_policy_that_changes_holds_without_a_restart_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: mine}\n"
    policy.write_text(f"{head}spec: {{enforce: {{mode: deny}}}}\n")
    bad = admission_review(doomed(GOOD_POD))
    with serving(tmp_path, "--policy", str(policy)) as server:
        assert not server.review("/validate", bad)["allowed"]

        policy.write_text(f"{head}spec: {{enforce: {{mode: audit}}}}\n")
        until(lambda: server.review("/validate", bad)["allowed"])
        policy.write_text(f"{head}spec: {{enforce: {{mode: of}}}}\n")
        until(lambda: b"the last good state is in use" in server.request("GET", "/readyz")[1])

        assert server.request("GET", "/readyz")[0] == 200
        assert server.review("/validate", bad)["allowed"]


def until(true: Callable[[], bool]) -> None:
    """Waits for it; it fails at DEADLINE."""
    end = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_metrics_name_the_policy_and_the_certificates_end_and_the_age_of_the_facts(server: Server) -> None:
    status, text = server.request("GET", "/metrics")

    assert status == 200
    assert re.search(rb'podfit_build_info\{.*policy_version="[0-9a-f]{12}"', text)
    assert re.search(rb"podfit_certificate_expiry_timestamp_seconds [1-9]", text)
    (collected,) = re.findall(rb"^podfit_facts_collected_timestamp_seconds (\S+)", text, re.MULTILINE)
    assert datetime.fromtimestamp(float(collected), UTC).day == 1
    assert b"podfit_log_dropped_lines_total 0.0" in text


def test_a_client_with_another_ca_is_not_served(server: Server, tmp_path: Path) -> None:
    certs.write(tmp_path, ["localhost"])

    with pytest.raises(ssl.SSLCertVerificationError):
        Server(server.process, server.port, tmp_path).serial()


def test_tls_1_1_is_refused_and_the_log_says_why(tmp_path: Path) -> None:
    with serving(tmp_path, "--drain", "0") as server:
        context = server.context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

        with (
            socket.create_connection(("localhost", server.port), timeout=DEADLINE) as raw,
            pytest.raises(ssl.SSLError),
        ):
            context.wrap_socket(raw, server_hostname="localhost")
        server.process.terminate()
        told = server.process.stderr
        assert told
        assert "no TLS with 127.0.0.1: UNSUPPORTED_PROTOCOL" in told.read()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_served(version: ssl.TLSVersion, server: Server) -> None:
    context = server.context()
    context.minimum_version = context.maximum_version = version

    with (
        socket.create_connection(("localhost", server.port), timeout=DEADLINE) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as connection,
    ):
        assert connection.version() == version.name.replace("_", ".")


def test_bad_input_is_told_and_the_server_goes_on(server: Server) -> None:
    assert server.request("POST", "/validate", b"{")[0] == 400
    assert server.request("POST", "/validate", b"\xff")[0] == 400
    assert server.request("POST", "/mutate", b"[" * 10_000 + b"]" * 10_000)[0] == 400
    assert server.request("POST", "/mutate", b" " * 10_000_000)[0] == 413
    assert server.request("POST", "/nowhere", b"{}")[0] == 404
    for nonsense in (b"", b"\x16", b"\x16\x03\x01\x00\x05hello", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
        with socket.create_connection(("localhost", server.port), timeout=DEADLINE) as raw:
            raw.sendall(nonsense)
    with closing(server.connect()) as connection:  # goes away in the middle of its request
        connection.putrequest("POST", "/validate")
        connection.putheader("Content-Length", "1000")
        connection.endheaders(b"{")

    assert server.review("/validate", admission_review(GOOD_POD))["allowed"] is True


def test_renewed_files_serve_with_the_next_connection_and_a_half_written_pair_never(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        first = server.serial()
        for name in ("tls.crt", "tls.key"):
            (tmp_path / name).unlink()
        assert server.serial() == first, "files are gone: the last good pair serves on"

        certs.write(tmp_path, ["localhost", "127.0.0.1"])
        second = server.serial()
        assert second != first

        other = certs.issue_ca(datetime.now(UTC))
        (tmp_path / "tls.key").write_bytes(other.key)
        assert server.serial() == second, "the key is not the certificate's: the last good pair serves on"
        status, told = server.request("GET", "/readyz")
        assert (status, b"the private key is not the certificate's" in told) == (200, True)


def test_sigterm_answers_what_has_been_asked_and_exits_0(tmp_path: Path) -> None:
    body = json.dumps(admission_review(GOOD_POD)).encode()
    with serving(tmp_path) as server, closing(server.connect()) as asking, closing(server.connect()) as watching:
        asking.putrequest("POST", "/validate")
        asking.putheader("Content-Type", "application/json")
        asking.putheader("Content-Length", str(len(body)))
        asking.endheaders(body[:10])
        watching.request("GET", "/healthz")  # answered after the server has seen what came before it
        watching.getresponse().read()
        server.process.send_signal(signal.SIGTERM)
        while True:  # until the server says that it is leaving
            watching.request("GET", "/readyz")
            answer = watching.getresponse()
            told = (answer.status, answer.read(), answer.headers["Connection"])
            if told[2] == "close":
                break
        assert told[:2] == (503, b'{"error": "the server is stopping"}\n')

        asking.send(body[10:])
        answer = asking.getresponse()

        assert json.loads(answer.read())["response"]["uid"] == UID
        assert server.process.wait(DEADLINE) == 0


def test_a_killed_worker_is_replaced_on_the_same_port(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        first = server.worker()
        os.kill(first, signal.SIGKILL)
        with closing(server.connect()) as waiting:  # the port stays open meanwhile: who comes now is answered later
            waiting.request("GET", "/healthz")
            assert waiting.getresponse().status == 200
        assert server.worker() != first
        until(lambda: server.request("GET", "/readyz")[0] == 200)


def test_connections_in_reserve_take_no_threads(server: Server) -> None:
    """API servers open more connections than they use at once; the server of this test has two threads."""
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(closing(server.connect())).connect()
        for first in (b"", b"\x16"):  # not even a handshake, or no more than its first byte
            for _ in range(8):
                raw = stack.enter_context(socket.create_connection(("localhost", server.port), timeout=DEADLINE))
                raw.sendall(first)
        for half in (b"GET /hea", b"POST /validate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"):
            for _ in range(4):
                opened = stack.enter_context(closing(server.connect()))
                opened.connect()
                opened.sock.sendall(half)
        with closing(http.client.HTTPSConnection("localhost", server.port, timeout=5, context=server.context())) as one:
            one.request("GET", "/healthz")

            assert one.getresponse().status == 200


def test_a_connection_in_reserve_serves_later(server: Server) -> None:
    with closing(server.connect()) as connection:
        connection.connect()
        opened = connection.sock
        server.request("GET", "/healthz")
        for _ in range(2):
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"

            assert connection.sock is opened


def test_the_access_log_is_on_standard_output_whole_at_the_end(tmp_path: Path) -> None:
    with (tmp_path / "access.jsonl").open("w+") as file:
        with serving(tmp_path, stdout=file) as server:
            for _ in range(3):
                server.review("/validate", admission_review(doomed(GOOD_POD)))
        file.seek(0)
        line, *more = map(json.loads, file)

    assert len(more) == 2
    assert (line["uid"], line["decision"], line["waited"] >= 0) == (UID, "denied", True)


def test_standard_output_that_nobody_reads_stops_neither_reviews_nor_the_end(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b" " * 4096)
    os.set_blocking(writer, True)
    try:
        with serving(tmp_path, stdout=writer) as server:
            for _ in range(3):
                assert server.review("/validate", admission_review(GOOD_POD))["allowed"]
    finally:
        os.close(reader)
        os.close(writer)

    assert server.process.returncode == 0


def test_standard_error_that_nobody_reads_stops_neither_reviews_nor_the_end(tmp_path: Path) -> None:
    body = json.dumps(admission_review(GOOD_POD)).encode()
    with serving(tmp_path, patch="from podfit.cli import serve\nserve.FLUSH = 0.1") as server:
        with open(f"/proc/{server.process.pid}/fd/2", "wb", 0, opener=_not_blocking) as pipe:
            while pipe.write(b" " * 4096) is not None:
                pass
        for _ in range(5):  # more than there are threads; of each a line says that there was no time
            assert json.loads(server.request("POST", "/validate?timeout=1ns", body)[1])["response"]["allowed"]
        server.process.terminate()

        assert server.process.wait(DEADLINE) == 0


def test_what_is_logged_is_read_later_and_after_the_end(tmp_path: Path) -> None:
    body = json.dumps(admission_review(GOOD_POD)).encode()
    with serving(tmp_path) as server:
        for _ in range(5):
            server.request("POST", "/validate?timeout=1ns", body)
        server.process.terminate()
        assert server.process.wait(DEADLINE) == 0
        assert server.process.stderr
        said = server.process.stderr.read().splitlines()

    assert [line.split(" ", 2)[1] for line in said] == ["WARNING"] * 5 + ["INFO"]
    assert "waited too long" in said[0]
    assert said[-1].endswith("stopped")


def _not_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def test_old_connections_are_closed_with_an_answer(tmp_path: Path) -> None:
    """So that a client that has connections to this replica finds the new ones too."""
    with serving(tmp_path, patch="peer.AGE = 0") as server, closing(server.connect()) as connection:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()

        assert (answer.read(), answer.headers["Connection"]) == (b"ok\n", "close")


def test_more_connections_than_threads_are_all_served(server: Server) -> None:
    """Two threads, and five connections that always have more to ask."""
    asked = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    stopped = Event()
    with ExitStack() as stack:
        busy = [stack.enter_context(closing(server.connect())) for _ in range(5)]
        for connection in busy:
            connection.connect()

        def ask(connection: http.client.HTTPSConnection) -> None:
            with suppress(OSError):
                while not stopped.is_set():
                    connection.sock.sendall(asked * 10)
                    seen = b""
                    while seen.count(b"HTTP/1.1 200") < 10 and (came := connection.sock.recv(65536)):
                        seen += came

        asking = [Thread(target=ask, args=(connection,)) for connection in busy]
        for one in asking:
            one.start()
        try:
            assert [server.request("GET", "/healthz")[0] for _ in range(20)] == [200] * 20
        finally:
            stopped.set()
            for one in asking:
                one.join(DEADLINE)
        assert not any(one.is_alive() for one in asking)


def test_once_warm_nothing_is_imported_for_a_review() -> None:
    """A review that is ended in the middle of an import may leave the module's lock locked."""
    code = """
import json, sys
from tests import reviews
from tests.test_remembered import POD as pod
from podfit.evaluation import review
from podfit.cli.serve import warm
from podfit.vllm.facts import Facts
from podfit.evaluation.policy import builtin
warm(builtin(), Facts())
loaded = set(sys.modules)
for command in (["sh", "-c", "exec vllm serve a/b --dtyp bfloat61 | tee log"], ["vllm", "serve", "--max-model-length"]):
    for image in ("vllm/vllm-openai:v0.11.0", "acme/vllm:main"):
        pod["spec"]["containers"][0].update(command=command, args=[], image=image)
        for webhook in ("validate", "mutate"):
            asked = review.parse(json.dumps(reviews.admission_review(pod)).encode())
            assert review.decide(webhook, asked, builtin(), Facts()).error is None
print(*sorted(set(sys.modules) - loaded))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=DEADLINE)

    assert done.stdout.split() == []


def test_a_peer_that_stalls_is_given_up(tmp_path: Path) -> None:
    """A handshake or a request that never ends is closed, and what was asked meanwhile is answered."""
    with serving(tmp_path, patch="peer.PEER_TIMEOUT = 0.5") as server, ExitStack() as stack:
        one_byte = stack.enter_context(socket.create_connection(("localhost", server.port), timeout=DEADLINE))
        one_byte.sendall(b"\x16")
        half = stack.enter_context(closing(server.connect()))
        half.connect()
        half.sock.sendall(b"POST /valid")
        assert server.request("GET", "/healthz")[0] == 200

        assert one_byte.recv(1) == b""
        assert half.sock.recv(1) == b""


def test_who_stalls_in_a_second_request_is_given_up_too(tmp_path: Path) -> None:
    with serving(tmp_path, patch="peer.PEER_TIMEOUT = 0.5") as server, closing(server.connect()) as half:
        half.connect()
        half.sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nPOST /valid")
        told = b""
        while more := half.sock.recv(4096):
            told += more

    assert told.count(b"HTTP/1.1 200 OK") == 1


def test_requests_sent_at_once_are_answered_in_order(server: Server) -> None:
    with closing(server.connect()) as connection:
        connection.connect()
        connection.sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 2 + b"GET /heal")
        connection.sock.sendall(b"thz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        told = b""
        while more := connection.sock.recv(4096):
            told += more

    assert (told.count(b"HTTP/1.1 200 OK"), told.count(b"\r\n\r\nok\n")) == (3, 3)


@pytest.mark.parametrize("many", [2, 40])
@pytest.mark.parametrize("method", ["GET /healthz", "POST /validate"])
def test_requests_sent_in_one_piece_are_all_answered(method: str, many: int, server: Server) -> None:
    body = json.dumps(admission_review(GOOD_POD)) if method.startswith("POST") else ""
    head = f"{method} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with closing(server.connect()) as connection:
        connection.connect()
        connection.sock.sendall(f"{head}{body}".encode() * many)
        told = b""
        while told.count(b"HTTP/1.1 200 OK") < many:
            told += connection.sock.recv(1 << 16)

    assert told.count(b"HTTP/1.1 ") == many


def _page() -> bytes:
    env = [{"name": f"SETTING_{number}", "value": "v" * 60} for number in range(100)]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}
    fields = [{"manager": "m", "fieldsV1": {f"f:{number}": {} for number in range(120)}}]
    one = {"spec": {"template": template}}
    items = [{"metadata": {"name": f"rs-{number}", "managedFields": fields}, **one} for number in range(500)]
    return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()


class _Lists(ThreadingHTTPServer):
    """An API server that has 500 large objects of some kinds, and never an event."""

    daemon_threads = True

    def __init__(self) -> None:
        self.page, self.stop = _page(), Event()
        super().__init__(("127.0.0.1", 0), _Page)


class _Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Lists

    def do_GET(self) -> None:
        """A list; a watch ends at once, which is in order."""
        large = any(kind in self.path for kind in ("/nodes", "/replicasets", "/persistentvolumeclaims"))
        body = self.server.page if large else b'{"metadata":{"resourceVersion":"1"},"items":[]}'
        if "watch=true" in self.path:
            self.server.stop.wait(DEADLINE)
            body = b""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_the_charts_memory_is_enough_for_large_lists_many_threads_and_large_reviews(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{320 << 20}\n")
    pod = json.loads(json.dumps(GOOD_POD))
    pod["metadata"]["annotations"] = {f"a{number}": "x" * 1000 for number in range(2_800)}
    body = json.dumps(admission_review(pod)).encode()
    api = _Lists()
    Thread(target=api.serve_forever, daemon=True).start()
    where = {"cluster": {"server": f"http://127.0.0.1:{api.server_port}"}, "name": "a"}
    config = {"clusters": [where], "users": [{"name": "a", "user": {"token": "x"}}], "current-context": "a"}
    config["contexts"] = [{"name": "a", "context": {"cluster": "a", "user": "a"}}]
    (tmp_path / "config").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
    patch = f"memory.CGROUP_LIMITS = {{'': pathlib.Path({str(tmp_path / 'memory.max')!r})}}"
    options = ("--kubeconfig", str(tmp_path / "config"), "--threads", "16", "--no-access-log")
    try:
        with (
            serving(tmp_path, *options, patch=patch) as server,
            ThreadPoolExecutor(16) as pool,
            ThreadPoolExecutor(4) as four,
        ):
            before = server.worker()
            until(lambda: b"podfit_cluster_fresh" in (said := server.request("GET", "/metrics")[1])
                  and b"} 0.0" not in b"".join(re.findall(rb"podfit_cluster_fresh.*", said)))  # fmt: skip
            assert set(pool.map(lambda _: server.request("GET", "/healthz")[0], range(48))) == {200}
            answers = list(four.map(lambda _: server.request("POST", "/validate?timeout=30s", body), range(12)))

            assert [status for status, _ in answers] == [200] * 12
            assert {json.loads(answer)["response"]["allowed"] for _, answer in answers} == {True}
            assert not any(b"MemoryError" in answer for _, answer in answers)
            assert server.worker() == before
    finally:
        api.stop.set()
        api.shutdown()
        api.server_close()


def serve(folder: Path, *options: str) -> int:
    """`podfit serve` in this process: only for what ends before it listens."""
    command = ["serve", "--cert", str(folder / "tls.crt"), "--key", str(folder / "tls.key"), *options]
    try:
        return main(command)
    except SystemExit as usage:
        return int(usage.code or 0)


def test_what_can_not_be_served_is_told_in_one_line_with_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certs.write(tmp_path, ["localhost"])
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: x}\nspec:\n  rules:\n    nonsense: {}\n"
    )

    def told(code: int, *options: str, folder: Path = tmp_path) -> str:
        assert serve(folder, *options) == code
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert told(3, folder=tmp_path / "none") == f"error: {tmp_path / 'none' / 'tls.crt'}: no such file or directory"
    assert told(2, "--policy", str(policy)).startswith(
        f"error: {policy}:6: spec.rules.nonsense: 'nonsense' is not a rule"
    )
    assert (
        told(3, "--policy", str(tmp_path / "none.yaml"))
        == f"error: --policy {tmp_path / 'none.yaml'}: no such file or directory"
    )
    assert told(2, "--bind", "8443") == "error: --bind 8443: expected HOST:PORT, such as 127.0.0.1:8443"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        assert told(3, "--bind", bind) == f"error: --bind {bind}: address already in use"
    (tmp_path / "tls.key").write_bytes((tmp_path / "ca.key").read_bytes())
    assert "the private key is not the certificate's" in told(3)


@pytest.mark.parametrize("threads", ["0", "-1", "many", "1000"])
def test_a_number_of_threads_that_can_not_be_is_a_usage_error(threads: str, tmp_path: Path) -> None:
    assert serve(tmp_path, f"--threads={threads}") == 2


def test_models_are_read_from_a_folder_or_a_mounted_config_map(tmp_path: Path) -> None:
    (tmp_path / "my-org" / "small").mkdir(parents=True)
    (tmp_path / "my-org" / "small" / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "my-org--large.json").write_text('{"model_type": "qwen3"}')
    (tmp_path / "my-org--large.json").symlink_to("..data/my-org--large.json")

    assert {name: dict(one.config) for name, one in edge.models(tmp_path).items()} == {
        "my-org/small": {"model_type": "llama"},
        "my-org/large": {"model_type": "qwen3"},
    }


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 10_000])
def test_a_bad_config_json_is_told_with_its_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "a--b.json").write_text(text)

    with pytest.raises(UnusableError, match=r"a--b\.json: (not JSON|expected)") as error:
        edge.models(tmp_path)

    assert error.value.code == 3
