"""Pods that are created all the time (as dry runs), every third of them doomed, and what became of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count

from benchmarks.cluster import BAD, GOOD, LOST, WRONG, Creator
from tests.e2e.controlplane import Cluster

CALLERS = 2
"""Connections to the API server."""
PAUSE = 0.03
"""Seconds between two Pods of a connection: the node shares the processors with the callers."""
THROUGH = "let through"


@dataclass
class Stream:
    """What became of the Pods so far."""

    namespace: str
    failure_policy: str = "Fail"
    seen: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    """Of them, those that the tests forgive."""
    told: list[str] = field(default_factory=list)
    """Answers that were not as they should be."""

    @property
    def missing(self) -> str:
        """What becomes of a Pod without a decision."""
        return LOST if self.failure_policy == "Fail" else THROUGH

    def unexcused(self, since: Counter[str], excused: Counter[str]) -> dict[str, int]:
        """Pods that did not get the right decision, if there are more than are forgiven."""
        seen = self.seen - since
        return {what: seen[what] for what in (LOST, WRONG, THROUGH) if seen[what] > excused[what]}

    def __str__(self) -> str:
        found = ", ".join(f"{self.seen[what]} {what}" for what in (GOOD, BAD, LOST, WRONG, THROUGH))
        return "\n".join([found, *self.told[:3]])


@contextmanager
def streaming(cluster: Cluster, namespace: str, pause: float = PAUSE, failure_policy: str = "Fail") -> Iterator[Stream]:
    """Creates Pods in that namespace until the block ends."""
    stream, numbers, done = Stream(namespace, failure_policy), count(), threading.Event()

    def create() -> None:
        creator = Creator(cluster, namespace)
        with closing(creator):
            while not done.wait(pause):
                what, why = creator.create(next(numbers))
                if why:
                    what = THROUGH if why.startswith("201") else what
                    stream.told.append(why)
                stream.seen[what] += 1

    callers = [threading.Thread(target=create) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield stream
    finally:
        done.set()
        for caller in callers:
            caller.join()
