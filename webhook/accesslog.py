"""The access log: one line of JSON a review, for whoever asks later what was decided and why.

Of the manifest it says names alone, never a value; every field is bounded. Reviews never wait for whoever reads it: a
thread writes, and lines for which there is no room are counted instead.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO, FileIO
from queue import Empty, Full, Queue
from threading import Lock, Thread

from webhook.review import Decision, Webhook

LONGEST = 253
"""Characters of a name: the most that Kubernetes allows. Whatever is longer did not come from it."""
RULES = 1024
"""Characters of the list of rules."""
QUEUE = 8192
"""Lines that may wait for whoever reads them, 4 MiB of the usual ones."""
BATCH = 64
"""Lines that are written at once."""
PAUSE = 0.05
"""Seconds until the next try where the stream does not block and takes nothing now."""

log = logging.getLogger(__name__)


class AccessLog:
    """Writes to a stream; safe for threads."""

    dropped = 0
    """Lines that were not written: nobody read them in time, or they could not be."""

    def __init__(
        self, stream: BytesIO | FileIO | None, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """`stream`: where the lines go, unbuffered; None: nowhere."""
        self._stream = stream
        self._clock = clock
        self._lines: Queue[bytes | None] = Queue(QUEUE)
        self._lock = Lock()
        self._thread: Thread | None = None
        self._failing = False

    def close(self, seconds: float) -> None:
        """Writes what waits, for at most so many seconds."""
        thread = self._thread
        if thread is None:
            return
        try:
            self._lines.put(None, timeout=seconds)
        except Full:
            return
        thread.join(seconds)

    def review(self, webhook: Webhook, decision: Decision, seconds: float, waited: float) -> None:
        """An answered review: `seconds` from its first byte's reading to its answer, `waited` for a thread before."""
        if self._stream is None:
            return
        asked = decision.request
        line = {
            "webhook": webhook,
            "uid": asked.uid[:LONGEST],
            "operation": asked.operation,
            "group": asked.group[:LONGEST],
            "kind": asked.kind[:LONGEST],
            "subresource": asked.subresource[:LONGEST],
            "namespace": (asked.namespace or "")[:LONGEST],
            "name": (asked.name or "")[:LONGEST],
            "dry_run": asked.dry_run,
            "decision": decision.outcome,
            "rules": ",".join(f"{rule}={mode}" for rule, mode in sorted(set(decision.found)))[:RULES],
            "remembered": decision.remembered,
            "policy": decision.versions.get("policy-version", ""),
            "seconds": round(seconds, 6),
            "waited": round(waited, 6),
        }
        self._write(line)

    def refused(self, path: str, status: int, error: str) -> None:
        """A request that was no review, and how it was answered."""
        if self._stream is not None:
            self._write({"path": path[:LONGEST], "status": status, "error": error[:LONGEST]})

    def _write(self, fields: dict[str, object]) -> None:
        if self._stream is None:
            return
        line = json.dumps({"time": self._clock().isoformat(timespec="milliseconds"), **fields}) + "\n"
        try:
            if self._thread is None or not self._thread.is_alive():
                self._start()
            self._lines.put_nowait(line.encode())
        except (Full, RuntimeError):  # nobody reads, or no thread can be had now
            self._lost(1)

    def _lost(self, lines: int) -> None:
        with self._lock:
            self.dropped += lines

    def _start(self) -> None:
        """At the first line, and where the thread is gone: threads outlive no fork."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                thread = Thread(target=self._run, name="access-log", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            lines = [line]
            end = False
            try:
                while len(lines) < BATCH and not end:
                    end = (more := self._lines.get_nowait()) is None
                    lines += [] if more is None else [more]
            except Empty:
                pass
            try:
                self._put(b"".join(lines))
                self._failing = False
            except (OSError, ValueError, MemoryError) as error:  # nobody reads it now, or it was closed
                self._lost(len(lines))
                if not self._failing:
                    log.error("lines of the access log are lost: %s", error)
                self._failing = True
            if end:
                return

    def _put(self, text: bytes) -> None:
        left = memoryview(text)
        while self._stream is not None and left:
            written = self._stream.write(left)
            if written is None:  # somebody has set the pipe to not block
                time.sleep(PAUSE)
            else:
                left = left[written:]
