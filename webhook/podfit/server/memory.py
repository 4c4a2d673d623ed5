"""The memory that the server may take: what would go beyond it is an error of one review, not the process' end."""

from __future__ import annotations

import ctypes
import re
import resource
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

CGROUP_LIMITS = {"": Path("/sys/fs/cgroup/memory.max"), "memory": Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")}
"""Controller in OWN_CGROUPS → the container's limit in bytes: of cgroup v2, which has "max" without one, and of cgroup
v1."""
OWN_CGROUPS = Path("/proc/self/cgroup")
"""The cgroups of this process. Without a cgroup namespace of its own (a unit of systemd, a container with the host's),
its limit is in a folder below the files of CGROUP_LIMITS (cgroups(7))."""
UNLIMITED = 1 << 62
"""From this number on there is no limit: without one, cgroup v1 has the largest multiple of a page below 2^63."""
WORKER_SHARE = 0.5
"""The worker's share of the limit with all connections open: its tables, watched objects, bodies and evaluations."""
KERNEL_SHARE = 0.1
"""The share for sockets, page tables, files in memory, and stacks of threads that have not started."""
FIRST_PROCESS = 64 << 20
"""Bytes of gunicorn's first process, where its size cannot be read."""
MIN_FOR_REVIEWS = 128 << 20
"""Bytes that the worker may always take, since it could not keep a smaller limit."""
BODIES = {False: 0.1, True: 0.2}
"""large → share of the worker's bytes that bodies of this lane may take while they arrive and wait."""
MAX_BODIES = {False: 32 << 20, True: 64 << 20}
"""large → maximum bytes that bodies of this lane may take while they arrive and wait."""


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

CONNECTION = 384 << 10
"""Bytes of a connection at most: uvloop's buffer to read TLS (256 KiB, SSL_READ_MAX_SIZE), a small body twice (64 KiB),
and the objects of OpenSSL and uvicorn. With 31 KB of a body it has 132 KiB, since most of the buffer is not touched."""
MIN_CONNECTIONS = 32
"""Connections that are open at once in any case."""
CLOSED, SECONDS = 64, 5.0
"""Connections that were closed, and seconds, between two calls of malloc_trim (20 ms for 150 MiB)."""
MALLOC = {-1: 128 << 10, -3: 128 << 10, -8: 2}
"""mallopt's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD in bytes, and M_ARENA_MAX (glibc malloc.h). Unless the first two are
set, glibc raises them with the first large block, and then keeps what connections give back."""


@dataclass(frozen=True)
class Shares:
    """How the container's memory is divided."""

    data: int | None = None
    """Bytes of the worker without stacks; None: no limit."""
    connections: int = UNLIMITED
    """Open at once."""
    bodies: Mapping[bool, int] = field(default_factory=lambda: MAX_BODIES)
    """large → bytes of bodies of this lane."""


def divide(limit: int | None, first_process: int) -> Shares:
    """Divide the container's limit in bytes, of which gunicorn's first process has `first_process`; None: no limit.

    The connections take the bytes that the worker's share leaves. All of them together can't exceed the limit, whatever
    the peers send, unless it is so small that a minimum applies.
    """
    if limit is None:
        return Shares()
    data = max(limit - first_process - int(limit * KERNEL_SHARE), MIN_FOR_REVIEWS)
    worker = int(limit * WORKER_SHARE)
    bodies = {large: min(int(worker * share), MAX_BODIES[large]) for large, share in BODIES.items()}
    return Shares(data, max((data - worker) // CONNECTION, MIN_CONNECTIONS), bodies)


_shares = [Shares()]
"""One item: the shares of this process, which `bound` replaces."""


def shares() -> Shares:
    """The shares of this process, as the last `bound` divided them; without limits before it."""
    return _shares[0]


def bound(threads: int) -> int | None:
    """Bounds this process's private memory by its container's limit; returns the bound in bytes, None without a limit.

    It must be called before the first of the `threads`, whose stacks come on top. Instead of the kernel killing the
    whole container (memory.oom.group), Python then raises MemoryError. A rule that uses too much memory is thus a rule
    that raises.
    """
    threading.stack_size(STACK)
    mallopt = getattr(_C, "mallopt", None)
    if mallopt is not None:  # glibc
        for parameter, value in MALLOC.items():
            mallopt(parameter, value)
    _shares[0] = divide(_limit(), _private())
    data = _shares[0].data
    if data is None:
        return None
    size = data + (threads + OTHERS) * STACK
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        size = min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))
    return size


def give_back() -> None:
    """Returns freed memory to the system, where the C library keeps it (glibc)."""
    if (trim := getattr(_C, "malloc_trim", None)) is not None:
        trim(0)


def _limit() -> int | None:
    """The smallest memory limit in bytes of this process's cgroups and of those above them; None without one."""
    texts = [_text(file) for file in _limit_files()]
    limits = [int(text) for text in texts if text.isascii() and text.isdigit()]  # "max": no limit
    return min((limit for limit in limits if limit < UNLIMITED), default=None)


def _limit_files() -> Iterator[Path]:
    """The files with memory limits: at the mount, and of this process's cgroup and those above it. Some may not
    exist."""
    yield from CGROUP_LIMITS.values()
    for line in _text(OWN_CGROUPS).splitlines():  # "4:memory:/kubepods/pod1", in cgroup v2 "0::/kubepods/pod1"
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            file = CGROUP_LIMITS.get(controller)
            if file is None:
                continue
            own_folder = PurePosixPath(path.lstrip("/"))
            for folder in (own_folder, *own_folder.parents):
                yield file.parent / folder / file.name


def _text(path: Path) -> str:
    """The file's text without surrounding white space; empty if it can't be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _private() -> int:
    """Bytes of this process that are not part of a file (RssAnon): after a fork, those that its parent has too.
    FIRST_PROCESS if they can't be read."""
    size = re.search(r"^RssAnon:\s+(\d+) kB$", _text(Path("/proc/self/status")), re.MULTILINE)
    return int(size[1]) << 10 if size else FIRST_PROCESS


_C = ctypes.CDLL(None)
