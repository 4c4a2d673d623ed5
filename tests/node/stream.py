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
    seen: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    """Answers that were not as they should be."""

    def __str__(self) -> str:
        found = ", ".join(f"{self.seen[what]} {what}" for what in (GOOD, BAD, LOST, WRONG, THROUGH))
        return "\n".join([found, *self.told[:3]])


@contextmanager
def streaming(cluster: Cluster, namespace: str, pause: float = PAUSE) -> Iterator[Stream]:
    """Creates Pods in that namespace until the block ends."""
    stream, numbers, done = Stream(namespace), count(), threading.Event()

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
