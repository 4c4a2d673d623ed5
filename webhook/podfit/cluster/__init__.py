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

log = logging.getLogger(__name__)


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
        self._facts: tuple[Facts, Snapshot, Facts] | None = None
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
        """Called by the watches. The snapshot is only replaced where something in it has changed."""
        before = self._states[state.kind]
        changed = state.objects is not before.objects or state.unknown is not before.unknown
        models = _models(state) if state.kind == "configmaps" and changed else None
        with self._lock:
            self._states[state.kind] = state
            if models is not None:
                self._models = models
            if changed:
                self._renew_snapshot(self._snapshot.stale)

    def _renew_snapshot(self, stale: frozenset[str]) -> None:
        """Replaces the snapshot; its version is a digest of all objects that decisions depend on."""
        watch_states = [watch_state for watch_state in self._states.values() if watch_state.objects is not None]
        unknown = {
            watch_state.kind: frozenset(watch_state.unknown) for watch_state in watch_states if watch_state.unknown
        }
        text = repr(
            (
                [
                    (watch_state.kind, watch_state.digest, sorted(watch_state.unknown))
                    for watch_state in watch_states
                    if watch_state.kind not in _ASIDE
                ],
                sorted(stale),
            )
        )
        self._snapshot = Snapshot(
            {watch_state.kind: watch_state.objects for watch_state in watch_states if watch_state.objects is not None},
            stale,
            hashlib.sha256(text.encode()).hexdigest()[:8],
            unknown,
        )

    def snapshot(self) -> Snapshot:
        """Everything known at this moment."""
        with self._lock:
            now = self._clock()
            stale = frozenset(
                watch_state.kind
                for watch_state in self._states.values()
                if watch_state.objects is not None and now - watch_state.contact > STALE
            )
            if stale != self._snapshot.stale:
                self._renew_snapshot(stale)
            return self._snapshot

    def facts(self, base: Facts) -> Facts:
        """`base` with what the cluster says, and the models that its ConfigMaps teach; the same object until it
        changes. What was given by hand wins over a ConfigMap."""
        snapshot = self.snapshot()
        if self._facts is None or self._facts[0] is not base or self._facts[1] is not snapshot:
            models = given.joined(base.models, self._models) if self._models else base.models
            self._facts = (base, snapshot, replace(base, cluster=snapshot, models=models))
        return self._facts[2]

    def status(self) -> tuple[Status, ...]:
        """Each watched kind, for /readyz and the metrics."""
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
        """True if the API server has a watched kind; True until it has denied that."""
        with self._lock:
            return self._states[kind].served

    def report(self) -> list[str]:
        """A line a kind, for people."""
        return [str(status) for status in self.status()]


@dataclass(frozen=True)
class Status:
    """How well a kind is known."""

    kind: str
    objects: int | None
    """How many; None: not seen."""
    silence: float
    """Seconds since the API server last said something of it; meaningless where it never did."""
    fresh: bool
    problem: str
    """In one line; empty where all is well."""
    served: bool = True
    """False: the API server has no such kind."""
    unknown: int = 0
    """How many are too large or too many to be known."""

    def __str__(self) -> str:
        why = f" ({self.problem})" if self.problem else ""
        if self.objects is None:
            return f"{self.kind}: not seen{why or ' yet'}"
        unknown = f", {self.unknown} too large or too many to be known" if self.unknown else ""
        age = "fresh" if self.fresh else f"stale for {self.silence:.0f} s"
        return f"{self.kind}: {self.objects}, {age}{unknown}{why}"


def _models(state: WatchState) -> dict[str, GivenModel]:
    """The models in labelled ConfigMaps; one that can't be read is reported and skipped."""
    entries: dict[str, GivenModel] = {}
    for config_map in (state.objects or {}).values():
        taught, errors = given.of_config_map(config_map)
        entries.update(taught)
        for error in errors:
            log.warning("%s", error)
    return entries
