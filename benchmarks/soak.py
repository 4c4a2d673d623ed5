"""Many reviews, most of them of Pods that were not seen before: memory stays, and the last are as fast as the first.

Meanwhile the server watches a thousand nodes of a real API server (the one of `make e2e`), which change all the time.

python -m benchmarks.soak [REVIEWS [NODES]]
"""

from __future__ import annotations

import json
import re
import ssl
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.serving import HOST, PRODUCTS, Connection, certificates, load, pod, podfit, review
from tests.e2e.controlplane import Cluster, running
from tests.e2e.process import repeated

REVIEWS = 100_000
NODES = 1_000
HEARTBEAT = 300.0
"""Seconds between two changes of a node that nothing happens to (kubelet `nodeStatusReportFrequency`)."""
LABELS = 60
"""Labels of a node that podfit does not read: those that node feature discovery writes for its processor and kernel."""
MEMORY = 120.0
"""MiB, of all processes of a replica."""
SLOWER = 1.05


@dataclass(frozen=True)
class Soaked:
    """What was seen, a value for each tenth."""

    seconds: list[float]
    """Median of a review."""
    memory: list[float]
    """MiB, after it."""
    processor: float
    """Milliseconds of a processor that the server took for one review."""
    bad: int


def node(number: int) -> dict[str, Any]:
    """A node with eight GPUs, as NVIDIA's operator and node feature discovery label it."""
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.{index}": "true" for index in range(LABELS)}
    labels |= {
        "kubernetes.io/hostname": f"node-{number}", "nvidia.com/gpu.product": PRODUCTS[number % len(PRODUCTS)],
        "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920", "nvidia.com/mig.strategy": "single",
    }  # fmt: skip
    capacity = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
    status = {"capacity": capacity, "allocatable": capacity}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels}, "status": status,
    }  # fmt: skip


@contextmanager
def cluster_of(nodes: int) -> Iterator[Cluster | None]:
    """An API server with so many nodes, of which one after the other changes; None without any."""
    if not nodes:
        yield None
        return
    with running() as cluster:
        for number in range(nodes):
            status, answer = cluster.call("POST", "/api/v1/nodes", node(number))
            if status != 201:
                raise OSError(f"node {number}: {status}: {json.dumps(answer)[:300]}")
        numbers = count()

        def beat() -> None:
            number = next(numbers)
            change = {"metadata": {"annotations": {"seen": str(number)}}}
            cluster.patch(f"/api/v1/nodes/node-{number % nodes}", change)

        with repeated(beat, HEARTBEAT / nodes):
            yield cluster


def nodes_seen(port: int) -> int:
    """How many nodes the server says that it knows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(f"https://{HOST}:{port}/metrics", context=context) as answer:
        found = re.search(rb'^podfit_cluster_objects\{kind="nodes"\} ([0-9.]+)', answer.read(), re.MULTILINE)
    return int(float(found[1])) if found else 0


def run(reviews: int, nodes: int) -> Soaked:
    """One connection, every third Pod of one template."""
    seconds: list[float] = []
    memory: list[float] = []
    bad = 0
    with tempfile.TemporaryDirectory() as name, cluster_of(nodes) as cluster:
        certificates(Path(name))
        with podfit(Path(name), *([f"--kubeconfig={cluster.kubeconfig()}"] if cluster else [])) as server:
            connection = Connection(server.port)
            while cluster and nodes_seen(server.port) < nodes:
                time.sleep(0.1)
            before = server.processor()
            for tenth in range(10):
                took = []
                for number in range(tenth * reviews // 10, (tenth + 1) * reviews // 10):
                    body = review(pod(number if number % 3 else 0), str(number))
                    begun = time.perf_counter()
                    status, answer = connection.post(body, "/validate" if number % 2 else "/mutate")
                    took.append(time.perf_counter() - begun)
                    bad += status != 200 or f'"uid": "{number}"'.encode() not in answer
                took.sort()
                seconds.append(took[len(took) // 2])
                memory.append(server.memory())
            processor = (server.processor() - before) / reviews * 1000
    return Soaked(seconds, memory, processor, bad)


def main(argv: Sequence[str]) -> int:
    """Prints each tenth; 1 where a goal was missed."""
    reviews = int(argv[0]) if argv else REVIEWS
    nodes = int(argv[1]) if len(argv) > 1 else NODES
    seen = run(reviews, nodes)
    for tenth, (took, memory) in enumerate(zip(seen.seconds, seen.memory, strict=True), 1):
        print(f"     tenth {tenth:2}: median {took * 1000:.2f} ms, {memory:.1f} MiB")
    print(f"     {seen.processor:.2f} ms of a processor a review")
    slower, last = seen.seconds[-1] / seen.seconds[0], seen.memory[-1]
    grown = last / seen.memory[0]
    for good, text in (
        (last <= MEMORY, f"{last:.1f} MiB after {reviews} reviews, {nodes} nodes watched (goal <= {MEMORY:.0f})"),
        (grown <= SLOWER, f"memory of the last tenth / the first {grown:.3f} (goal <= {SLOWER})"),
        (slower <= SLOWER, f"time of the last tenth / the first {slower:.3f} (goal <= {SLOWER}; {load()})"),
        (seen.bad == 0, f"{seen.bad} bad answers"),
    ):
        print("ok  " if good else "MISS", text)
    return not (last <= MEMORY and grown <= SLOWER and slower <= SLOWER and not seen.bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
