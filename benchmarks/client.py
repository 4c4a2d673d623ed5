"""What the Kubernetes client costs: the start of commands, and a replica's readiness and memory.

    python -m benchmarks.client [RUNS]

Commands that need no cluster are started in turn with an empty Python. A replica that watches a real API server (the
one of `make e2e`) is started in turn with one that watches nothing. Prints medians; memory is the proportional set size
of all processes of a replica.
"""

from __future__ import annotations

import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
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
    "podfit --version": ("-m", "podfit.cli", "--version"),
    "podfit explain unknown-flag": ("-m", "podfit.cli", "explain", "unknown-flag"),
    "podfit check FILE": ("-m", "podfit.cli", "check", str(GOOD)),
    "podfit plan": ("-m", "podfit.cli", *PLAN),
}  # fmt: skip


def processor(command: Sequence[str]) -> float:
    """Seconds of a processor that a command takes: on a quiet machine, its time."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise OSError(f"{command}: exit {process.returncode}")
    return used.ru_utime + used.ru_stime


def starts(runs: int) -> dict[str, float]:
    """Median processor seconds of each command, all started in turn."""
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, words in COMMANDS.items():
            took[name].append(processor([sys.executable, *words]))
    return {name: statistics.median(times) for name, times in took.items()}


def replica(folder: Path, *options: str) -> tuple[float, float, float]:
    """Seconds, and those of a processor, from the start of a replica until /readyz says that it is ready, and MiB."""
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    begun = time.monotonic()
    with podfit(folder, *options) as server:
        while True:
            try:
                urllib.request.urlopen(f"https://{HOST}:{server.port}/readyz", context=context, timeout=5).close()
                break
            except (OSError, urllib.error.HTTPError):
                time.sleep(0.02)
        return time.monotonic() - begun, server.processor(), server.memory()


def main(argv: Sequence[str]) -> int:
    """Prints both tables."""
    print(load())
    found = starts(int(argv[0]) if argv else RUNS)
    empty = found["python -c pass"]
    for name, took in found.items():
        print(f"{name:<44} {took:.3f} s of a processor, {took / empty:4.1f} x an empty Python")
    print(f"goal: podfit <= {START} s on a quiet machine")
    with tempfile.TemporaryDirectory() as name, running() as cluster:
        folder = Path(name)
        certificates(folder)
        ways = {
            "watches an API server": (f"--kubeconfig={cluster.kubeconfig()}",),
            "watches nothing": ("--watch=none",),
        }
        seen: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
        for _ in range(REPLICAS):
            for way, options in ways.items():
                seen[way].append(replica(folder, *options))
    for way, each in seen.items():
        ready, used, memory = (statistics.median(values) for values in zip(*each, strict=True))
        print(f"a replica that {way:<21}  ready after {ready:.1f} s ({used:.1f} s of a processor), {memory:.1f} MiB")
    print(f"goal: ready <= {READY} s, memory <= {MEMORY:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
