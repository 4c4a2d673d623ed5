#!/usr/bin/env python3
"""A stand-in for `vllm`: it reads vLLM's arguments, takes host memory and /dev/shm as vLLM does, and answers /health.

Host memory is divided by $STANDIN_SCALE, so that a node of 24 GiB holds it; the test divides the limits by the same.
"""

import argparse
import http.server
import mmap
import os
import shutil
import sys
import time
from pathlib import Path

GIB, MIB = 1 << 30, 1 << 20
IMPORTED = 0.39 * GIB
"""Anonymous memory of a process that imported vLLM 0.33's server: measured, as
webhook/podfit/vllm/memory/host/processes.py has it."""
WORKER = 3.1e9
"""anon-rss of a worker: the kernel's report in vllm#57469."""
RING = 160 * MIB
"""What engines of several processes want in /dev/shm: vLLM 0.27's own text, which names this number."""
SECONDS = float(os.environ.get("STANDIN_SECONDS", "0"))
"""From the start until it listens."""


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("serve")
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("-tp", "--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--cpu-offload-gb", type=float, default=0.0)
    options, _ = parser.parse_known_args()
    ranks = options.tensor_parallel_size
    began = time.monotonic()
    print(f"INFO: starting {options.model or options.model_tag} on {ranks} GPUs", flush=True)
    if ranks > 1:
        ring()
    processes = 2 + (ranks if ranks > 1 else 0)  # the API server, the engine, and workers where there are several
    needed = processes * IMPORTED + ranks * (WORKER - IMPORTED + options.cpu_offload_gb * GIB)
    kept = take(int(needed / float(os.environ.get("STANDIN_SCALE", "1"))))
    time.sleep(max(0.0, began + SECONDS - time.monotonic()))
    print(f"INFO: Application startup complete, {len(kept) >> 20} MiB taken.", flush=True)
    http.server.ThreadingHTTPServer(("", options.port), Health).serve_forever()


def ring() -> None:
    """Takes its part of /dev/shm, and exits with an error if there is less, as vLLM 0.27 does."""
    free = shutil.disk_usage("/dev/shm").free
    if free < RING:
        sys.exit(
            "RuntimeError: Insufficient space in /dev/shm for shared-memory allocation: "
            f"{RING // MIB} MiB required, {free // MIB} MiB free."
        )
    Path("/dev/shm/ring").write_bytes(bytes(RING))


def take(size: int) -> mmap.mmap:
    """That many bytes of anonymous memory, each page written."""
    memory = mmap.mmap(-1, size)
    for start in range(0, size, mmap.PAGESIZE):
        memory[start] = 1
    return memory


class Health(http.server.BaseHTTPRequestHandler):
    """GET /health."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()


if __name__ == "__main__":
    main()
