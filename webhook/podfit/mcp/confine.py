"""Keep a process within one folder: it reads nothing else, writes nothing, and starts and contacts nothing.

An audit hook of Python (PEP 578) sees each file that is opened, by whatever library, with every link resolved.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

FORBIDDEN = frozenset(
    {
        "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "pty.spawn",
        "subprocess.Popen",
        "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto",
        "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
        "os.truncate", "os.utime", "shutil.rmtree",
    }
)  # fmt: skip
"""Audit events of what a confined process never does (docs.python.org/3/library/audit_events.html)."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC


class OutsideError(PermissionError):
    """A confined process tried to leave its folder."""

    def __init__(self, path: object) -> None:
        super().__init__(errno.EACCES, "outside --root, or not for reading", str(path))


def confine(root: Path) -> None:
    """Confine this process to `root` until it ends. Python's own modules can still be imported, without writing byte
    code."""
    sys.dont_write_bytecode = True
    package = Path(__file__).resolve().parents[1]
    readable = tuple({root.resolve(), package, *(Path(place).resolve() for place in sys.path if place)})

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in FORBIDDEN:
            raise OutsideError(event)
        if event == "open" and not isinstance(arguments[0], int):
            path, _, flags = arguments
            real = os.path.realpath(os.fsdecode(path))
            if flags & _WRITES or not any(Path(real).is_relative_to(place) for place in readable):
                raise OutsideError(os.fsdecode(path))

    sys.addaudithook(hook)
