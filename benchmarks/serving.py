"""What the benchmarks of the running server share: servers, reviews to send, and a client that measures."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from podfit.server import certs

HOST = "127.0.0.1"
START = 30.0
"""Seconds that a server may take to listen."""
NOOP = """
from flask import Flask, request
app = Flask(__name__)
@app.post("/<path:path>")
def answer(path):
    uid = request.get_json()["request"]["uid"]
    response = {"uid": uid, "allowed": True}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
"""
"""The handler that everything is compared with: it parses the review and allows it."""
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-8B",
    "meta-llama/Llama-3.1-70B-Instruct", "mistralai/Mistral-7B-Instruct-v0.3", "Qwen/Qwen2.5-32B-Instruct",
)  # fmt: skip
PRODUCTS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-L4", "NVIDIA-H100-80GB-HBM3")


def pod(number: int) -> dict[str, Any]:
    """A Pod like no other of another number."""
    random = Random(number)  # noqa: S311 - no secret
    size = str(random.choice((1, 1, 2, 4)))
    words = {
        "--model": random.choice(MODELS), "--tensor-parallel-size": size,
        "--max-model-len": str(2048 + number % 29989), "--gpu-memory-utilization": f"0.{random.randrange(80, 95)}",
        "--max-num-seqs": str(random.choice((16, 64, 256))),
    }  # fmt: skip
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": [word for pair in words.items() for word in pair],
        "env": [{"name": f"SETTING_{index}", "value": "v" * 20} for index in range(10)],
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": size, "memory": random.choice(("32Gi", "64Gi", "128Gi"))}},
        "startupProbe": {"httpGet": {"path": "/health", "port": 8000}, "failureThreshold": 120, "periodSeconds": 10},
        "volumeMounts": [{"name": "cache", "mountPath": "/root/.cache/huggingface"}],
    }
    spec = {
        "nodeSelector": {"nvidia.com/gpu.product": random.choice(PRODUCTS)},
        "containers": [container],
        "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "models"}}],
    }
    metadata = {"generateName": f"vllm-{number}-", "namespace": "inference", "labels": {"app": "vllm"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def review(obj: dict[str, Any], uid: str = "0") -> bytes:
    """A review of a Pod's creation."""
    kind, resource = {"group": "", "version": "v1"}, {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": uid, "kind": {**kind, "kind": "Pod"}, "resource": resource, "namespace": "inference",
        "operation": "CREATE", "userInfo": {"username": "u"}, "object": obj, "oldObject": None, "dryRun": False,
    }  # fmt: skip
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def large() -> bytes:
    """A review of 3 MiB, whose Pod has a script of 100 KB."""
    obj = pod(0)
    script = "".join(f"export SETTING_{number}=value-{number}\n" for number in range(3_600))
    obj["spec"]["containers"][0] |= {"command": ["sh", "-c", script + "exec vllm serve Qwen/Qwen3-8B"], "args": []}
    obj["metadata"]["annotations"] = {f"note-{number}": "x" * 1000 for number in range(2_900)}
    return review(obj, "large")


def free_port() -> int:
    """A port on which no process listens now."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


@dataclass
class Server:
    """A server process, its group's leader."""

    process: subprocess.Popen[bytes]
    port: int
    listening: float
    """Seconds from its start to its first connection."""

    def _processes(self) -> Iterator[tuple[Path, list[str]]]:
        """Folder and `stat` (from the third field on) of every process of its group (proc(5))."""
        group = str(os.getpgid(self.process.pid))
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if stat[2] == group:
                    yield entry, stat

    def memory(self) -> float:
        """Proportional set size of all its processes, in MiB."""
        total = 0
        for entry, _ in self._processes():
            found = re.search(r"Pss:\s+(\d+)", (entry / "smaps_rollup").read_text())
            total += int(found[1]) if found else 0
        return total / 1024

    def processor(self) -> float:
        """Seconds that its processes have had of the processors: the same however busy the machine is."""
        ticks = sum(int(stat[11]) + int(stat[12]) for _, stat in self._processes())
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(command: Sequence[str], port: int, log: Path) -> Iterator[Server]:
    """Runs a server until the block ends."""
    begun = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True)
    try:
        while True:
            try:
                socket.create_connection((HOST, port), 0.2).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() - begun > START:
                    raise RuntimeError(f"it does not start: {log.read_text()[-500:]}") from None
                time.sleep(0.02)
        yield Server(process, port, time.monotonic() - begun)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


@contextmanager
def podfit(folder: Path, *options: str) -> Iterator[Server]:
    """podfit's own server."""
    port = free_port()
    command = [sys.executable, "-m", "podfit.cli", "serve", "--bind", f"{HOST}:{port}", *options]
    with running(
        [*command, "--cert", f"{folder}/tls.crt", "--key", f"{folder}/tls.key"], port, folder / "podfit.log"
    ) as one:
        yield one


@contextmanager
def noop(folder: Path) -> Iterator[Server]:
    """The handler to compare with, on the same gunicorn."""
    port = free_port()
    (folder / "noop.py").write_text(NOOP)
    command = [sys.executable, "-m", "gunicorn", "-k", "gthread", "--threads", "4", "--chdir", str(folder)]
    command += ["--certfile", f"{folder}/tls.crt", "--keyfile", f"{folder}/tls.key", "-b", f"{HOST}:{port}", "noop:app"]
    with running(command, port, folder / "noop.log") as one:
        yield one


def certificates(folder: Path) -> None:
    """The serving pair of both."""
    certs.write(folder, [HOST, "localhost"])


@dataclass
class Times:
    """What a client has seen."""

    seconds: list[float] = field(default_factory=list)
    bad: int = 0
    """Answers with another status than 200."""
    wall: float = 0.0
    processor: float = 0.0
    """Seconds that the server had of the processors for all of it."""

    def at(self, share: float) -> float:
        """Milliseconds within which that share of the answers came."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(len(self.seconds) * share))] * 1000

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.wall

    @property
    def each(self) -> float:
        """Milliseconds of a processor that the server took for one answer."""
        return self.processor / len(self.seconds) * 1000


class Connection:
    """One kept-alive TLS connection that sends reviews."""

    def __init__(self, port: int) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.socket = context.wrap_socket(socket.create_connection((HOST, port), 30))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, body: bytes, path: str = "/validate") -> tuple[int, bytes]:
        """Status and body of the answer."""
        head = f"POST {path}?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        self.socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        head_, _, rest = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: *(\d+)", head_)
        size = int(length[1]) if length else 0
        while len(rest) < size:
            rest += self._more()
        return int(head_[9:12]), rest

    def _more(self) -> bytes:
        more = self.socket.recv(1 << 16)
        if not more:
            raise ConnectionError("closed")
        return more


def drive(
    port: int, body: Callable[[int], bytes], connections: int, seconds: float, rate: float | None = None
) -> Times:
    """Sends reviews for a while: as many as come back, or `rate` a second over all connections."""
    times, lock, end = Times(), threading.Lock(), time.monotonic() + seconds
    numbers = iter(range(1 << 60))

    def one(index: int) -> None:
        connection, mine, bad = Connection(port), [], 0
        due = time.monotonic() + index / (rate or 1)
        while (now := time.monotonic()) < end:
            if rate and due > now:
                time.sleep(due - now)
            due += connections / (rate or 1)
            with lock:
                number = next(numbers)
            text = body(number)
            begun = time.perf_counter()
            bad += connection.post(text)[0] != 200
            mine.append(time.perf_counter() - begun)
        with lock:
            times.seconds += mine
            times.bad += bad

    begun = time.monotonic()
    threads = [threading.Thread(target=one, args=(index,)) for index in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times.wall = time.monotonic() - begun
    return times


def median(values: Sequence[float]) -> float:
    """Of several rounds."""
    return statistics.median(values)


def load() -> str:
    """How busy the machine is, for the reader of the figures."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
