"""Replace a file whole or not at all: a full disk, a signal or a missing right leaves it as it was."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from podfit.cli.support import edge


def replace(path: Path, content: bytes) -> None:
    """Write a sibling, and give it the file's name. Mode, owner and extended attributes stay; of a link, the target is
    replaced.

    Raises UnusableError (exit 3) if that fails; the file is untouched then.
    """
    try:
        target = path.resolve()
        if target.exists():
            _refuse(path, target)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".podfit-") as folder:  # mode 0700
            new = Path(folder) / target.name
            with new.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                _keep_attributes(target, new)
            new.replace(target)
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself, before Python 3.13
        raise edge.UnusableError(f"{path}: can't be written: {edge.reason(error)}", 3) from error


def _refuse(path: Path, target: Path) -> None:
    """Raise UnusableError for a file that must stay as it is."""
    if not target.is_file():
        raise edge.UnusableError(f"{path}: can't be written: not a regular file", 3)
    if not os.access(target, os.W_OK):
        raise edge.UnusableError(f"{path}: can't be written: the file is read-only", 3)


def _keep_attributes(target: Path, path: Path) -> None:
    """Give the new file the mode, the owner and the extended attributes of the old one."""
    owner = target.stat()
    with suppress(AttributeError):  # Windows has no owners
        if (owner.st_uid, owner.st_gid) != (path.stat().st_uid, path.stat().st_gid):
            os.chown(path, owner.st_uid, owner.st_gid)
    shutil.copystat(target, path)
    os.utime(path)
