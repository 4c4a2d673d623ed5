"""An API server that answers by a script, and a clock and a stop that a test controls: no network, no waiting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any

from kubernetes.client import Configuration

from podfit.cluster import decoding
from podfit.cluster.access import Access, Client, StatusError
from podfit.cluster.watch import KindWatch, WatchState
from podfit.kube.snapshot import JSON, WATCHED_KINDS, WatchedKind

NODES, CLAIM_TEMPLATES = (next(kind for kind in WATCHED_KINDS if kind.name == name) for name in (
    "nodes", "resourceclaimtemplates",
))  # fmt: skip


def access(server: str = "https://127.0.0.1:1") -> Access:
    """A way to an API server, by default to none."""
    return Access(Configuration(host=server), "podfit-system")


class Clock:
    """Seconds that only pass where a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Pauses(Event):
    """A stop whose pauses take no time, and are remembered. At the script's end it is set."""

    def __init__(self, script: list[Any]) -> None:
        super().__init__()
        self.taken: list[float] = []
        self.pass_time: Callable[[], None] = lambda: None
        """What a pause does besides."""
        self._script = script

    def wait(self, timeout: float | None = None) -> bool:
        """Returns at once."""
        self.taken.append(timeout or 0.0)
        self.pass_time()
        if not self._script:
            self.set()
        return self.is_set()


class Scripted(Client):
    """Each request takes the next line of the script: a page, a list of events and of seconds that pass between them,
    or an error to raise."""

    def __init__(self, stop: Event, script: list[Any], clock: Clock) -> None:
        self.clock = clock
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self._script = script
        self._stop = stop

    @property
    def namespace(self) -> str:
        """podfit's own."""
        return "podfit-system"

    def page(self, path: str, query: Mapping[str, str], take: Callable[[JSON], object]) -> JSON:
        """A page."""
        return decoding.page(as_text(self._next(path, query)), take)

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str], silence: float) -> Iterator[Iterator[bytes]]:
        """A watch."""
        yield self._lines(self._next(path, query))

    def _lines(self, events: list[Any]) -> Iterator[bytes]:
        for event in events:
            if isinstance(event, float):
                self.clock.now += event
                continue
            if isinstance(event, Exception):
                raise event
            yield as_text(event)

    def _next(self, path: str, query: Mapping[str, str]) -> Any:
        if not self._script:
            self._stop.set()
            return [] if "watch" in query else page()
        self.asked.append((path, dict(query)))
        answer = self._script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """There is nothing to close."""


def as_text(answer: dict[str, Any] | str) -> bytes:
    """What an API server sends; a text is sent as it is."""
    return (answer if isinstance(answer, str) else json.dumps(answer)).encode()


def follow(*script: Any, kind: WatchedKind = NODES) -> tuple[list[WatchState], Scripted, Pauses]:
    """Runs a watch to the script's end: every state that it published, what it asked, and its pauses."""
    lines, states = list(script), list[WatchState]()
    stop = Pauses(lines)
    client = Scripted(stop, lines, clock := Clock())
    KindWatch(kind, client, states.append, clock, stop).run()
    return states, client, stop


def page(*objects: dict[str, Any], version: str = "10", more: str | None = None) -> dict[str, Any]:
    """A page of a list."""
    return {"metadata": {"resourceVersion": version, **({"continue": more} if more else {})}, "items": list(objects)}


def node(name: str, product: str = "NVIDIA-L4", version: str = "1", **spec: Any) -> dict[str, Any]:
    """A node of four GPUs."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "resourceVersion": version, "labels": {"nvidia.com/gpu.product": product}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "32", "nvidia.com/gpu": "4"}},
    }


def event(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    """A watch event."""
    return {"type": kind, "object": obj}


def bookmark(version: str) -> dict[str, Any]:
    """Nothing has happened up to here."""
    return event("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": version}})


GONE = event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
FORBIDDEN = StatusError(403, 'nodes is forbidden: User "podfit" cannot list resource "nodes"')
AWAY = ConnectionRefusedError("connection refused")
