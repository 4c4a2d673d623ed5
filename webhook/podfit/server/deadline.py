"""An answer in time: how long the API server waits, and the end of an evaluation that takes too long.

An evaluation is pure Python without input or output, so only a loop in Python can run forever. Ten times a second a
second thread looks for evaluations that are over their time, and raises `OutOfTime` inside them. In this way no thread
is lost, and no review is passed to another thread, which would cost a fifth of the whole answer. Code that does not
return to Python at all (a pathological regular expression) blocks the whole process. Then gunicorn's heartbeat stops,
and the worker is replaced.
"""

from __future__ import annotations

import ctypes
import logging
import re
import time
from collections.abc import Callable
from functools import lru_cache
from threading import Event, Lock, Thread, get_ident
from typing import NamedTuple, TypeVar

T = TypeVar("T")

DEFAULT_TIMEOUT = 10.0
"""Seconds; how long the API server waits by default (admissionregistration `timeoutSeconds`)."""
LONGEST_TIMEOUT = 30.0
"""Seconds; the API server allows no more."""
REVIEW_SHARE = 0.8
"""Share of the API server's timeout after which the answer is given: the rest is for the network."""
JUDGING = 2.0
"""Seconds of processor time that one evaluation may take, with any timeout of the API server: a thousand times the
usual. It is not wall-clock time, since an evaluation that waits for its turn on a busy machine is not at fault."""
TICK = 0.1
"""Seconds between two looks at the running evaluations."""

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""Unit of a Go duration → seconds."""
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(h|ms|us|µs|ns|m|s)")
"""One number of a Go duration with its unit ("1m30s" has two)."""
_RAISE = ctypes.pythonapi.PyThreadState_SetAsyncExc
"""Raises an exception in another thread, when CPython next looks for one there."""

log = logging.getLogger(__name__)


class OutOfTime(BaseException):
    """The evaluation took too long. Not an `Exception`: the handlers around a rule must not catch it."""


@lru_cache(64)
def patience(query: str) -> float:
    """Seconds within which the answer to a request with this query (`timeout=10s`, a Go duration) must be given.
    It is a share of that timeout, which is DEFAULT_TIMEOUT if it is absent or not valid, and at most
    LONGEST_TIMEOUT."""
    timeouts = [field.removeprefix("timeout=") for field in query.split("&") if field.startswith("timeout=")]
    text = timeouts[0] if timeouts else ""
    parts = _PART.findall(text)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    is_valid = seconds > 0 and "".join(number + unit for number, unit in parts) == text
    return REVIEW_SHARE * (min(seconds, LONGEST_TIMEOUT) if is_valid else DEFAULT_TIMEOUT)


class _Limits(NamedTuple):
    """When the call of a thread must be over, whichever comes first."""

    end: float
    """In seconds of the watch's clock."""
    processor_end: float
    """In seconds of processor time of the thread."""


class DeadlineWatch:
    """Ends calls that take too long; safe for threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, failed: Callable[[], None] = lambda: None) -> None:
        """`failed` is called when looking went wrong, which is logged here."""
        self._clock = clock
        self._failed = failed
        self._lock = Lock()
        self._limits: dict[int, _Limits] = {}
        """Thread with a running call → its limits."""
        self._busy = Event()
        """Set while there may be running calls."""
        self._thread: Thread | None = None
        """The thread that looks; None before the first call."""

    def within(self, seconds: float, call: Callable[[], T], judging: float | None = None) -> T:
        """The result of `call`; raises OutOfTime if it takes longer than `seconds`.

        It also does so after `judging` (None: `JUDGING`) seconds of processor time."""
        if self._thread is None or not self._thread.is_alive():
            self._start()
        thread = get_ident()
        processor_seconds = JUDGING if judging is None else judging
        self._limits[thread] = _Limits(self._clock() + seconds, time.thread_time() + processor_seconds)
        if not self._busy.is_set():
            self._busy.set()
        is_raised = False
        try:
            return call()
        except OutOfTime:
            is_raised = True
            raise
        finally:
            with self._lock:
                is_ended = self._limits.pop(thread, None) is None  # `look` has removed it
            if is_ended and not is_raised:
                # It is set but not raised yet, and must not be raised after this call: CPython looks when a function in
                # C returns. To withdraw it (with NULL) would leave the interpreter's mark that one is set. CPython 3.11
                # with that mark loops forever in the first function under a profiler or tracer.
                time.sleep(0)

    def look(self) -> None:
        """Raise OutOfTime in each thread whose call is over its time by one of its two limits."""
        now = self._clock()
        with self._lock:  # so that no call ends between the check and the exception: see `within`
            for thread, limits in list(self._limits.items()):
                if limits.end <= now or _processor_time(thread) >= limits.processor_end:
                    del self._limits[thread]
                    _RAISE(ctypes.c_ulong(thread), ctypes.py_object(OutOfTime))

    def _start(self) -> None:
        """Starts the thread that looks, or a new one if it has ended.

        If no thread can be started now, only gunicorn's heartbeat limits an evaluation, and the next call tries again.
        """
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            thread = Thread(target=self._run, name="deadlines", daemon=True)
            try:
                thread.start()
            except (RuntimeError, MemoryError) as error:
                self._wrong(error)
            else:
                self._thread = thread

    def _run(self) -> None:
        """Looks at all deadlines every TICK while there are any."""
        while self._busy.wait():
            self._busy.clear()
            time.sleep(TICK)
            try:
                self.look()
            except Exception as error:  # the next look may go well
                self._wrong(error)
            if self._limits:
                self._busy.set()

    def _wrong(self, error: Exception) -> None:
        """Log and report that the watch does not work now."""
        log.error("deadlines can't be watched now", exc_info=error)
        self._failed()


def _processor_time(thread: int) -> float:
    """Seconds of processor time that this thread has used; 0 if the system does not show those of others (macOS)."""
    clock: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)
    return time.clock_gettime(clock(thread)) if clock is not None else 0.0
