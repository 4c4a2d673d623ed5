"""Creates Events in a cluster, at most so many a minute."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from podfit.cluster.access import Client, StatusError

PER_MINUTE = 20
"""Most requests in a minute. A choice: other clients use etcd and read Events, too."""
MINUTE = 60.0
"""Seconds."""
OUTCOMES = ("created", "repeated", "left", "failed")
"""`repeated`: the Event exists already. `left`: not sent, because there were too many in this minute; the next scan
sends them first."""


class EventWriter:
    """Creates Events, those first that were never sent, then those that were sent longest ago.

    The API server removes an Event after an hour, so a repeat is sent at each scan: mostly it answers AlreadyExists."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        """Outcome → number of Events since the start."""
        self._clock = clock
        self._sent: dict[str, float] = {}
        """Name of an Event → when it was last sent, in seconds of `clock`."""
        self._recent: deque[float] = deque()
        """When each request of the last minute was sent, in seconds of `clock`, the oldest first."""

    def write(self, client: Client, events: Iterable[Mapping[str, Any]]) -> str:
        """Creates as many Events as the limit allows, those first that were never sent, then those sent longest ago.

        Returns the first error in one line, empty without one. Not errors: the Event exists already (409), or its
        namespace is gone (404). An Event that is not among `events` any more is forgotten."""
        by_name = {str(event["metadata"]["name"]): event for event in events}
        self._sent = {name: at for name, at in self._sent.items() if name in by_name}
        never = -1.0  # before any time of the clock
        first_error = ""
        for name in sorted(by_name, key=lambda name: self._sent.get(name, never)):
            if not self._may_send():
                self.counts["left"] += 1
                continue
            self._sent[name] = self._clock()
            event = by_name[name]
            try:
                client.send("POST", f"/api/v1/namespaces/{event['metadata']['namespace']}/events", event)
                self.counts["created"] += 1
            except StatusError as error:
                self.counts["repeated" if error.code == 409 else "failed"] += 1
                if error.code not in (404, 409):
                    first_error = first_error or str(error)
        return first_error

    def _may_send(self) -> bool:
        """True if fewer than PER_MINUTE requests were sent in the last minute; then counts the one that follows."""
        now = self._clock()
        while self._recent and now - self._recent[0] >= MINUTE:
            self._recent.popleft()
        if len(self._recent) >= PER_MINUTE:
            return False
        self._recent.append(now)
        return True
