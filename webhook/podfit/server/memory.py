"""The memory that the server may take: what would go beyond it is an error of one review, not the process' end."""

from __future__ import annotations

import resource
import threading
from pathlib import Path

CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The container's limit in bytes: of cgroup v2, which has "max" without one, and of cgroup v1."""
UNLIMITED = 1 << 62
"""From this number on there is no limit: without one, cgroup v1 has the largest multiple of a page below 2^63."""
MEMORY_SHARE = 0.75
"""The worker's share of the limit; the rest is for gunicorn's first process and files in memory."""
MIN_FOR_REVIEWS = 128 << 20
"""Bytes that the worker may always take, since it could not keep a smaller limit."""


STACK = 4 << 20
"""Bytes of a thread's stack. The kernel counts all of it as the process' own (RLIMIT_DATA), although almost none of it
is ever touched. C functions need more stack than Python's frames.

In Python 3.12 and 3.13 C functions nest 10,000 deep (Py_C_RECURSION_LIMIT: 3.13, and 3.12 since python/cpython#115083).
With a stack of 2 MiB, reading or writing a JSON text of 9,000 nested lists ends the process.

The parser tree-sitter merges two readings of a text by a function that calls itself for each token that no reading has
used (`stack_node_add_link` in stack.c). 144 bytes for each of the 16,384 characters of a script are 2.3 MiB.

The cost is address space. A server with 8 threads has 83 MB of RLIMIT_DATA instead of 66 with 1 MiB; 63 and 61 of these
are in memory."""
OTHERS = 8
"""Threads other than those that review and watch: for policies, certificates, deadlines, the access log, standard
error, the server's call to itself, and two spare ones. Only their stacks (8 MiB at most) extend the bound beyond the
worker's share."""

CONNECTIONS_PER_STEP = 64
"""The number of connections for which `room` is made at a time."""
CONNECTION = 384 << 10
"""Bytes of a connection: uvloop allocates 256 KiB to read TLS, most of them never touched (SSL_READ_MAX_SIZE)."""


_bound: list[int] = []
"""The bound in bytes, if there is one."""


def bound(threads: int) -> int | None:
    """Bounds this process's private memory by its container's limit; returns the bound in bytes, None without a limit.

    It must be called before the first of the `threads`, whose stacks come on top. Instead of the kernel killing the
    whole container (memory.oom.group), Python then raises MemoryError. A rule that uses too much memory is thus a rule
    that raises.
    """
    threading.stack_size(STACK)
    if (limit := _limit()) is None:
        return None
    size = max(int(limit * MEMORY_SHARE), MIN_FOR_REVIEWS) + (threads + OTHERS) * STACK
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        size = min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))
    _bound[:] = [size]
    return size


def _limit() -> int | None:
    for path in CGROUP_LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        return int(text) if text.isascii() and text.isdigit() and int(text) < UNLIMITED else None
    return None


def room(connections: int) -> None:
    """Raises the bound, if there is one, so that so many connections take nothing of what reviews may have."""
    size = sum(_bound)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if size and size + connections * CONNECTION > soft:
        size += (connections + CONNECTIONS_PER_STEP) * CONNECTION
        resource.setrlimit(resource.RLIMIT_DATA, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))
