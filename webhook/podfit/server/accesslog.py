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

MAX_NAME_LENGTH = 253
"""Characters of a name: the most that Kubernetes allows. Whatever is longer did not come from it."""
MAX_RULES_BYTES = 1024
"""Bytes of the list of rules. A choice: some thirty rules fit."""
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
        """Writes the waiting lines, for at most `seconds`."""
        if self._lines is not None:
            self._lines.close(seconds)

    def review(self, webhook: Webhook, decision: Decision, seconds: float, waited: float) -> None:
        """Write the line of an answered review: it took `seconds` from the reading of its first byte to its answer,
        and had waited `waited` seconds for a thread before."""
        if self._lines is None:  # making the line takes time
            return
        request, audit = decision.request, decision.annotations
        rules = sorted({f"{finding.rule}={finding.mode}" for finding in decision.rules})
        line = {
            "webhook": webhook,
            "uid": request.uid[:MAX_NAME_LENGTH],
            "user": request.user[:MAX_NAME_LENGTH],
            "operation": request.operation,
            "group": request.group[:MAX_NAME_LENGTH],
            "kind": request.kind[:MAX_NAME_LENGTH],
            "subresource": request.subresource[:MAX_NAME_LENGTH],
            "namespace": (request.namespace or "")[:MAX_NAME_LENGTH],
            "name": (request.name or "")[:MAX_NAME_LENGTH],
            "dry_run": request.dry_run,
            "decision": decision.outcome,
            "rules": join_bounded(rules, MAX_RULES_BYTES),
            **{name: audit.get(key, "") for name, key in AUDIT_KEYS.items()},
            "remembered": decision.remembered,
            "policy": decision.versions.get("policy-version", ""),
            "seconds": round(seconds, 6),  # to the microsecond
            "waited": round(waited, 6),
        }
        self._write(line)

    def refused(self, path: str, status: int, error: str) -> None:
        """Write the line of a request that was not a review: its path, and the HTTP status and error of its answer."""
        if self._lines is not None:
            self._write({"path": path[:MAX_NAME_LENGTH], "status": status, "error": error[:MAX_NAME_LENGTH]})

    def _write(self, fields: dict[str, object]) -> None:
        """Write a line with the present time and these fields, if there is an output."""
        if self._lines is not None:
            line = {"time": self._clock().isoformat(timespec="milliseconds"), **fields}
            self._lines.put(json.dumps(line).encode() + b"\n")


def _lost(error: Exception) -> None:
    """Logs that the output does not take lines; they are counted in `dropped`."""
    log.error("lines of the access log are lost: %s", error)
