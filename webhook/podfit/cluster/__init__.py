"""Everything that talks to an API server. Watches feed one immutable snapshot; a scan reads a cluster once.

No request of the webhook waits for any of this. What was never seen is unknown; what was not seen lately is marked as
stale, and decisions that rest on it are softened.

Here: credentials and requests (`access`, `kubeconfig`, `signin`), `watch` (the reflector), `decoding` and `store` (no
author of objects can take much memory), `listing` (pages),
`scanning`, `objects`, `logs`, `reports` (PolicyReports), `prometheus`. Not here: what the objects mean (`kube`).
docs/dependencies.md says what of it could be the client's and why it is not. Imports `base` to `report`.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from typing import NamedTuple

from podfit.cluster.access import Access, Client, from_kubeconfig, in_cluster
from podfit.cluster.kubeconfig import AccessError
from podfit.cluster.watch import KindWatch, WatchState
from podfit.kube.snapshot import WATCHED_BY_DEFAULT, WATCHED_KINDS, Snapshot
from podfit.vllm.facts import Facts, GivenModel
from podfit.vllm.model import given

__all__ = ["STALE", "Access", "AccessError", "Cluster", "Status", "from_kubeconfig", "in_cluster"]

STALE = 240.0
"""Seconds of silence after which a kind counts as stale: a quiet one has a bookmark a minute."""

_ASIDE = frozenset(kind.name for kind in WATCHED_KINDS if kind.aside)
"""Kinds whose changes leave the version of the snapshot as it is (`WatchedKind.aside`)."""
VERSION_DIGITS = 8
"""Hexadecimal digits of a snapshot's version. A choice: short enough to be compared by eye."""

log = logging.getLogger(__name__)


class _JoinedFacts(NamedTuple):
    """The last result of `Cluster.facts`, with the two objects that it was made of."""

    base: Facts
    snapshot: Snapshot
    facts: Facts


class Cluster:
    """The present state of the cluster. Safe for threads; `start` it once."""

    def __init__(
        self, access: Access, names: Iterable[str] = WATCHED_BY_DEFAULT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        chosen = set(names)
        self.access = access
        self.watched = frozenset(chosen)
        self._clock = clock
        self._stop = Event()
        self._lock = Lock()
        self._states = {kind.name: WatchState(kind.name) for kind in WATCHED_KINDS if kind.name in chosen}
        self._snapshot = Snapshot()
        self._models: dict[str, GivenModel] = {}
        self._joined: _JoinedFacts | None = None
        self._watches = [
            KindWatch(kind, Client(access), self._publish, clock, self._stop)
            for kind in WATCHED_KINDS
            if kind.name in chosen
        ]
        self._threads: list[Thread] = []

    def start(self) -> None:
        """Begins to watch, each kind in a thread of its own: if the API server forbids one, the others continue."""
        self._threads = [
            Thread(target=watch.run, name=f"watch-{watch.kind.name}", daemon=True) for watch in self._watches
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Asks the watches to end; each does with its next event, or at its next pause."""
        self._stop.set()

    def _publish(self, state: WatchState) -> None:
        """Stores the new state of a kind, as each watch calls it from its thread. The snapshot is replaced only if its
        objects changed, and not for a mere sign of life."""
        before = self._states[state.kind]
        # A watch makes a new mapping for each change, and passes the old one on if there is none.
        changed = state.objects is not before.objects or state.unknown is not before.unknown
        models = _models(state) if state.kind == "configmaps" and changed else None
        with self._lock:
            self._states[state.kind] = state
            if models is not None:
                self._models = models
            if changed:
                self._renew_snapshot(self._snapshot.stale)

    def _renew_snapshot(self, stale: frozenset[str]) -> None:
        """Replaces the snapshot by the objects of all kinds that are known; `stale`: names of the stale kinds. The
        caller has the lock.

        The version is a digest of what decisions depend on, so that all replicas give equal content the same one."""
        known = [state for state in self._states.values() if state.objects is not None]
        objects = {state.kind: state.objects for state in known if state.objects is not None}
        unknown = {state.kind: frozenset(state.unknown) for state in known if state.unknown}
        content = [(state.kind, state.digest, sorted(state.unknown)) for state in known if state.kind not in _ASIDE]
        text = repr((content, sorted(stale)))
        version = hashlib.sha256(text.encode()).hexdigest()[:VERSION_DIGITS]
        self._snapshot = Snapshot(objects, stale, version, unknown)

    def snapshot(self) -> Snapshot:
        """Everything known at this moment; the same object until it changes.

        Kinds become stale by the mere passing of time, which no watch reports, so that is checked here."""
        with self._lock:
            now = self._clock()
            known = [state for state in self._states.values() if state.objects is not None]
            stale = frozenset(state.kind for state in known if now - state.contact > STALE)
            if stale != self._snapshot.stale:
                self._renew_snapshot(stale)
            return self._snapshot

    def facts(self, base: Facts) -> Facts:
        """`base` with the snapshot and the models in ConfigMaps; a model of `base` wins over one of a ConfigMap.

        Returns the same object until `base` or the snapshot is another object."""
        snapshot, joined = self.snapshot(), self._joined
        if joined is None or joined.base is not base or joined.snapshot is not snapshot:
            models = given.joined(base.models, self._models) if self._models else base.models
            joined = _JoinedFacts(base, snapshot, replace(base, cluster=snapshot, models=models))
            self._joined = joined
        return joined.facts

    def status(self) -> tuple[Status, ...]:
        """The status of each watched kind, in the order of WATCHED_KINDS, for /readyz and the metrics."""
        with self._lock:
            states, now = tuple(self._states.values()), self._clock()
        return tuple(
            Status(
                kind=state.kind,
                objects=None if state.objects is None else len(state.objects),
                silence=max(0.0, now - state.contact),
                fresh=state.objects is not None and now - state.contact <= STALE,
                problem=state.problem,
                served=state.served,
                unknown=sum(state.unknown.values()),
            )
            for state in states
        )

    def serves(self, kind: str) -> bool:
        """True unless the API server has answered that it has no such kind; `kind`: the name of a watched one."""
        with self._lock:
            return self._states[kind].served

    def report(self) -> list[str]:
        """One line per watched kind, for people, as `Status` formats it."""
        return [str(status) for status in self.status()]


@dataclass(frozen=True)
class Status:
    """The state of the watch of one kind at one moment."""

    kind: str
    """The name of a watched kind ("nodes")."""
    objects: int | None
    """Number of its known objects; None: it was never listed, or must not be listed any more."""
    silence: float
    """Seconds since the last answer about the kind; meaningless if there was none."""
    fresh: bool
    """True if the kind was listed, and the last answer is at most STALE seconds old."""
    problem: str
    """Why there is nothing newer, in one line; empty if the watch works."""
    served: bool = True
    """False: the API server has no such kind."""
    unknown: int = 0
    """Number of objects that exist, but are too large or too many to be known."""

    def __str__(self) -> str:
        """One line: the number of objects and their age in seconds, or "not seen", each with the problem."""
        why = f" ({self.problem})" if self.problem else ""
        if self.objects is None:
            return f"{self.kind}: not seen{why or ' yet'}"
        unknown = f", {self.unknown} too large or too many to be known" if self.unknown else ""
        age = "fresh" if self.fresh else f"stale for {self.silence:.0f} s"
        return f"{self.kind}: {self.objects}, {age}{unknown}{why}"


def _models(state: WatchState) -> dict[str, GivenModel]:
    """Name → model, of all ConfigMaps of a state; empty if it has none. A model that can't be read is logged and left
    out; of two with one name, the later ConfigMap's wins."""
    models: dict[str, GivenModel] = {}
    for config_map in (state.objects or {}).values():
        models_of_map, errors = given.of_config_map(config_map)
        models |= models_of_map
        for error in errors:
            log.warning("%s", error)
    return models
