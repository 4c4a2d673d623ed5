"""Keep a process within one folder: it reads nothing else, writes nothing, and starts and contacts nothing.

An audit hook of Python (PEP 578) sees each file that is opened and each folder that is listed, by whatever library,
with every link resolved.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORBIDDEN = frozenset(
    {
        "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "pty.spawn",
        "subprocess.Popen",
        "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyaddr", "socket.gethostbyname",
        "socket.getnameinfo", "socket.sendmsg", "socket.sendto", "sqlite3.connect",
        "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
        "os.truncate", "os.utime", "shutil.rmtree",
    }
)  # fmt: skip
"""Audit events of what a confined process never does (docs.python.org/3/library/audit_events.html)."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_LISTS = frozenset({"os.listdir", "os.scandir"})
_CODE = (".py", ".pyc")
MAX_FILE_BYTES = 64 << 20
"""Bytes of one file of the root: as much as `podfit diagnose` reads of a log."""


class OutsideError(PermissionError):
    """A confined process tried to leave its folder."""

    def __init__(self, path: object) -> None:
        super().__init__(errno.EACCES, "outside --root, or not for reading", str(path))


def confine(root: Path) -> None:
    """Confine this process to `root` until it ends. Python's own modules can still be imported, without writing byte
    code."""
    sys.dont_write_bytecode = True
    root = root.resolve()
    is_installed, is_imported = _code()

    def opened(path: str, flags: int) -> None:
        """Raise OutsideError unless a file is only read, and is below the root or part of the installation."""
        real = Path(os.path.realpath(path))
        if flags & _WRITES:
            raise OutsideError(path)
        if real.is_relative_to(root):
            _regular(real, path)
        elif not (is_installed(real) or (real.suffix in _CODE and is_imported(real))):
            raise OutsideError(path)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook of Python: raises OutsideError for forbidden events and for paths outside of the root."""
        if event in FORBIDDEN:
            raise OutsideError(event)
        if event == "open" and not isinstance(arguments[0], int):
            opened(os.fsdecode(arguments[0]), arguments[2])
        elif event in _LISTS and not isinstance(arguments[0], int):
            path = os.fsdecode(arguments[0] or ".")
            real = Path(os.path.realpath(path))
            if not (real.is_relative_to(root) or is_installed(real) or is_imported(real)):
                raise OutsideError(path)

    sys.addaudithook(hook)


def _regular(real: Path, path: str) -> None:
    """Raises OSError for a pipe, a socket or a device, of which reading may never end, and for a file that is too
    large."""
    try:
        status = real.stat()
    except OSError:
        return  # opening it says why
    if stat.S_ISDIR(status.st_mode):
        return
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if status.st_size > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_FILE_BYTES >> 20} MiB", path)


def _code() -> tuple[Callable[[Path], bool], Callable[[Path], bool]]:
    """Two tests of a file: it belongs to podfit, Python or an installed package; it is below any place of modules.

    Such a place may be the working directory of `python -m`, where anything may lie."""
    places = [Path(place).resolve() for place in sys.path if place]
    own = {Path(__file__).resolve().parents[1], *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))}
    own |= {place for place in places if place.name in ("site-packages", "dist-packages") or place.is_file()}
    installed = {place.resolve() for place in own}
    return (
        lambda real: any(real.is_relative_to(place) for place in installed),
        lambda real: any(real.is_relative_to(place) for place in places),
    )
