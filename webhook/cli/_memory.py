"""The memory that the server may take: what would go beyond it is an error of one review, not the process' end."""

from __future__ import annotations

import resource
from pathlib import Path

LIMIT = Path("/sys/fs/cgroup/memory.max")
"""The container's limit in bytes, or "max" (cgroup v2)."""
SHARE = 0.75
"""Of that the worker may take as its own; the rest is for gunicorn's first process and files in memory."""
LEAST = 128 << 20
"""Bytes that it takes in any case: a smaller limit is none that it could keep."""


def bound(limit: Path = LIMIT) -> int | None:
    """Bounds this process's private memory by its container's limit; returns the bound in bytes, None without a limit.

    Python then raises MemoryError where the kernel would have killed the whole container (memory.oom.group), and a rule
    that eats memory is a rule that raises.
    """
    try:
        text = limit.read_text().strip()
    except OSError:
        return None
    if not (text.isascii() and text.isdigit()):
        return None
    size = max(int(int(text) * SHARE), LEAST)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        size = min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))
    return size
