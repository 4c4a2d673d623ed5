"""What the Kubernetes client costs: the start of commands, and a replica's readiness and memory.

    python -m benchmarks.client [RUNS]

Commands that need no cluster are started in turn with an empty Python, so that a busy machine slows each alike. A
replica that watches a real API server (the one of `make e2e`) is started in turn with one that watches nothing. Prints
medians; memory is the proportional set size of all processes of a replica.
"""

from __future__ import annotations

import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.serving import HOST, certificates, load, podfit
from tests.e2e.controlplane import running

RUNS = 20
REPLICAS = 3
START, READY, MEMORY = 0.25, 3.0, 150.0
"""Seconds of a command on a quiet machine, seconds of a replica, MiB of a replica."""
PLAN = ("plan", "--gpu", "l4", "--", "vllm", "serve", "Qwen/Qwen2.5-7B-Instruct")
GOOD = Path(__file__).parents[1] / "examples" / "good.yaml"
COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "import kubernetes.client, .config, .dynamic": (
        "-c", "import kubernetes.client, kubernetes.config, kubernetes.dynamic; kubernetes.client.ApiClient()"
    ),
    "podfit --version": ("-m", "webhook.cli", "--version"),
    "podfit explain unknown-flag": ("-m", "webhook.cli", "explain", "unknown-flag"),
    "podfit check FILE": ("-m", "webhook.cli", "check", str(GOOD)),
    "podfit plan": ("-m", "webhook.cli", *PLAN),
}  # fmt: skip


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def starts(runs: int) -> dict[str, float]:
    """Median seconds of each command, all started in turn."""
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, words in COMMANDS.items():
            took[name].append(
                seconds(partial(subprocess.run, [sys.executable, *words], capture_output=True, check=True))
            )
    return {name: statistics.median(times) for name, times in took.items()}


def replica(folder: Path, *options: str) -> tuple[float, float]:
    """Seconds from the start of a replica until /readyz says that it is ready, and MiB then."""
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    begun = time.monotonic()
    with podfit(folder, *options) as server:
        while True:
            try:
                urllib.request.urlopen(f"https://{HOST}:{server.port}/readyz", context=context, timeout=5).close()
                break
            except (OSError, urllib.error.HTTPError):
                time.sleep(0.02)
        return time.monotonic() - begun, server.memory()


def main(argv: Sequence[str]) -> int:
    """Prints both tables."""
    print(load())
    found = starts(int(argv[0]) if argv else RUNS)
    empty = found["python -c pass"]
    for name, took in found.items():
        print(f"{name:<44} {took:.3f} s  {took / empty:4.1f} x an empty Python")
    print(f"goal: podfit <= {START} s on a quiet machine")
    with tempfile.TemporaryDirectory() as name, running() as cluster:
        folder = Path(name)
        certificates(folder)
        ways = {
            "watches an API server": (f"--kubeconfig={cluster.kubeconfig()}",),
            "watches nothing": ("--watch=none",),
        }
        seen: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(REPLICAS):
            for way, options in ways.items():
                seen[way].append(replica(folder, *options))
    for way, each in seen.items():
        ready, memory = (statistics.median(values) for values in zip(*each, strict=True))
        print(f"a replica that {way:<21}  ready after {ready:.1f} s, {memory:.1f} MiB")
    print(f"goal: ready <= {READY} s, memory <= {MEMORY:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
