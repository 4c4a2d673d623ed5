"""Creates Events in a cluster, at most so many a minute."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from podfit.cluster.access import Client, StatusError

PER_MINUTE = 20
"""Most requests in a minute: etcd and the readers of Events are others', too."""
MINUTE = 60.0
OUTCOMES = ("created", "repeated", "left", "failed")
"""`left`: not sent, because there were too many in this minute; the next scan sends them first."""


class EventWriter:
    """Creates Events, those first that were never sent, then those that were sent longest ago.

    The API server removes an Event after an hour, so a repeat is sent at each scan: mostly it answers AlreadyExists."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        """Outcome → number of Events since the start."""
        self._clock = clock
        self._sent: dict[str, float] = {}
        self._recent: deque[float] = deque()

    def write(self, client: Client, events: Iterable[Mapping[str, Any]]) -> str:
        """Creates as many Events as the limit allows, those first that were not sent or longest ago. Returns the first
        error, empty without one; that an Event exists, or its namespace is gone, is none."""
        given = {str(event["metadata"]["name"]): event for event in events}
        self._sent = {name: at for name, at in self._sent.items() if name in given}
        error = ""
        for name in sorted(given, key=lambda name: self._sent.get(name, -1.0)):
            if not self._may_send():
                self.counts["left"] += 1
                continue
            self._sent[name] = self._clock()
            try:
                client.send("POST", f"/api/v1/namespaces/{given[name]['metadata']['namespace']}/events", given[name])
                self.counts["created"] += 1
            except StatusError as refusal:
                self.counts["repeated" if refusal.code == 409 else "failed"] += 1
                if refusal.code not in (404, 409):  # the namespace is gone; it exists
                    error = error or str(refusal)
        return error

    def _may_send(self) -> bool:
        """True if fewer than PER_MINUTE were sent in the last minute; counts one that may."""
        now = self._clock()
        while self._recent and now - self._recent[0] >= MINUTE:
            self._recent.popleft()
        if len(self._recent) >= PER_MINUTE:
            return False
        self._recent.append(now)
        return True
