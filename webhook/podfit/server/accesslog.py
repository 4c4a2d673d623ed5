"""The access log: one line of JSON per review, which shows later what was decided and why.

It contains only names from the manifest, never a value; every field is bounded. Reviews never wait for the reader of
the log: see `lines`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO, FileIO

from podfit.evaluation.bounds import join_bounded
from podfit.evaluation.review import Decision, Webhook
from podfit.server.lines import Lines

LONGEST = 253
"""Characters of a name: the most that Kubernetes allows. Whatever is longer did not come from it."""
RULES = 1024
"""Bytes of the list of rules."""
AUDIT_KEYS = {"exempted": "exempted", "would": "would", "would_rules": "would-rules"}
"""Field → audit annotation, as `Decision.annotations` has it."""
log = logging.getLogger(__name__)


class AccessLog:
    """Writes to a stream; safe for threads."""

    def __init__(
        self, stream: BytesIO | FileIO | None, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """`stream`: the unbuffered output of the lines; None: no output."""
        self._lines = Lines(stream, "access-log", _lost) if stream is not None else None
        self._clock = clock

    @property
    def dropped(self) -> int:
        """Lines that were not written, because their reader was too slow or the write failed."""
        return self._lines.dropped if self._lines is not None else 0

    def close(self, seconds: float) -> None:
        """Writes what waits, for at most so many seconds."""
        if self._lines is not None:
            self._lines.close(seconds)

    def review(self, webhook: Webhook, decision: Decision, seconds: float, waited: float) -> None:
        """Write the line of an answered review: `seconds` from its first byte's reading to its answer, `waited` for a
        thread before."""
        if self._lines is None:  # before the line is made
            return
        request, audit = decision.request, decision.annotations
        line = {
            "webhook": webhook,
            "uid": request.uid[:LONGEST],
            "user": request.user[:LONGEST],
            "operation": request.operation,
            "group": request.group[:LONGEST],
            "kind": request.kind[:LONGEST],
            "subresource": request.subresource[:LONGEST],
            "namespace": (request.namespace or "")[:LONGEST],
            "name": (request.name or "")[:LONGEST],
            "dry_run": request.dry_run,
            "decision": decision.outcome,
            "rules": join_bounded(sorted({f"{item.rule}={item.mode}" for item in decision.rules}), RULES),
            **{name: audit.get(key, "") for name, key in AUDIT_KEYS.items()},
            "remembered": decision.remembered,
            "policy": decision.versions.get("policy-version", ""),
            "seconds": round(seconds, 6),
            "waited": round(waited, 6),
        }
        self._write(line)

    def refused(self, path: str, status: int, error: str) -> None:
        """Write the line of a request that was no review, and of its answer."""
        if self._lines is not None:
            self._write({"path": path[:LONGEST], "status": status, "error": error[:LONGEST]})

    def _write(self, fields: dict[str, object]) -> None:
        if self._lines is not None:
            line = {"time": self._clock().isoformat(timespec="milliseconds"), **fields}
            self._lines.put(json.dumps(line).encode() + b"\n")


def _lost(error: Exception) -> None:
    log.error("lines of the access log are lost: %s", error)
