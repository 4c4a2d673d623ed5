"""Lines for standard output and standard error: a thread writes them, so that no other thread waits for the reader.

The reader may stop (a container runtime that hangs); then a pipe takes only 64 KiB. Lines that find no room are counted
instead.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from io import BytesIO, FileIO
from threading import Event, Lock, Thread

QUEUE = 8192
"""Lines that may wait for the reader, 4 MiB of the usual ones."""
LINES_PER_WRITE = 64
"""Lines that are written at once."""
SECONDS_BETWEEN_WRITES = 0.05
"""Seconds between two looks for new lines while the thread is awake, and until the next try if a stream that does not
block takes nothing now. Waking the thread for every line would take longer (20 us) than making the line."""


class Lines:
    """Writes to a stream; safe for threads and for forks, but not for signal handlers.

    A signal handler must not log: the code that it interrupts may hold the lock that it would wait for."""

    dropped = 0
    """Lines that were not written, because their reader was too slow or the write failed."""

    def __init__(
        self, stream: BytesIO | FileIO, name: str, lost: Callable[[Exception], None] = lambda error: None
    ) -> None:
        """`stream`: the unbuffered output; `lost` is called when it stops taking lines, which are then counted."""
        self._stream = stream
        self._name = name
        self._lost = lost
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Start with an empty queue and no thread: at first, and after a fork, which no thread outlives and which may
        leave any lock locked. What waited is the parent's to write."""
        self._lines: deque[bytes] = deque()
        self._some = Event()
        """Set if there may be lines, or the thread must end."""
        self._ending = Event()
        """Set by `close`."""
        self._lock = Lock()
        self._thread: Thread | None = None
        self._failing = False
        """True if the last write failed."""

    def put(self, line: bytes) -> None:
        """Queue a line for the thread, or drop it if the queue is full. Never waits, never raises."""
        if len(self._lines) >= QUEUE:  # the reader is too slow
            self._drop(1)
            return
        self._lines.append(line)
        if not self._some.is_set():
            self._some.set()
        if self._thread is None or not self._thread.is_alive():
            self._start()

    def close(self, seconds: float) -> None:
        """Writes the waiting lines, for at most `seconds`, and ends the thread. A thread that starts meanwhile, for a
        late line, is ended too."""
        end = time.monotonic() + seconds
        while (thread := self._thread) is not None and thread.is_alive():
            self._ending.set()
            self._some.set()
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():  # the time is over
                return

    def _drop(self, count: int) -> None:
        """Counts lines as not written."""
        with self._lock:
            self.dropped += count

    def _start(self) -> None:
        """Starts the thread at the first line, and again if it has ended. If that fails, the next line tries again."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._ending.clear()
            self._some.set()
            try:
                thread = Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
            except Exception:  # a process has only so many threads, and so much memory
                return
            self._thread = thread

    def _run(self) -> None:
        """Writes the lines, in batches, until `close`; drops those that cannot be written. Of several failed writes in
        a row, only the first is reported."""
        while self._some.wait():
            is_last_round = self._ending.is_set()  # before the queue is read: later lines start a new thread
            self._some.clear()
            while batch := self._next_batch():
                try:
                    self._write_all(b"".join(batch))
                    self._failing = False
                except (OSError, ValueError, MemoryError) as error:  # no process reads it now, or it was closed
                    self._drop(len(batch))
                    if not self._failing:
                        self._lost(error)
                    self._failing = True
            if is_last_round:
                break
            self._ending.wait(SECONDS_BETWEEN_WRITES)
        with self._lock:
            self._thread = None
        if self._lines:  # put while this thread still seemed to be there
            self._start()

    def _next_batch(self) -> list[bytes]:
        """Take the next lines from the queue, at most LINES_PER_WRITE; empty if there are none."""
        return [self._lines.popleft() for _ in range(min(len(self._lines), LINES_PER_WRITE))]

    def _write_all(self, text: bytes) -> None:
        """Writes everything, also into a pipe that does not block."""
        left = memoryview(text)
        while left:
            written = self._stream.write(left)
            if written is None:  # another process has set the pipe to not block
                time.sleep(SECONDS_BETWEEN_WRITES)
            else:
                left = left[written:]
