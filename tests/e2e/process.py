"""Processes and threads that never outlive the process that started them, and waiting that ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
DEADLINE = 45.0
"""Seconds after which a wait is a failure: many times what a slow machine takes."""
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def die_with_parent() -> None:
    """For `preexec_fn`: the kernel kills the process when its parent ends, in whatever way (Linux; prctl(2))."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def start(command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Starts a process that writes to `log` and ends with this one."""
    with log.open("ab") as file:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=env,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process of `start`, and its children, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def repeated(what: Callable[[], object], every: float = 0.0) -> Iterator[None]:
    """Does it again and again in the background, `every` so many seconds, until the block ends."""
    done = threading.Event()

    def run() -> None:
        while not done.wait(every):
            what()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def until(what: str, probe: Callable[[], T | None], detail: Callable[[], str] = str, seconds: float = DEADLINE) -> T:
    """The first true answer of `probe`; after so many seconds a TimeoutError that names `what`, with `detail`."""
    end = time.monotonic() + seconds
    while True:
        if answer := probe():
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for: {what}\n{detail()}")
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def tail(log: Path, lines: int = 30) -> str:
    """The end of a log, for a failure."""
    said = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([f"── the end of {log.name}:", *said[-lines:]])
