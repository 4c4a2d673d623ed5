"""Follows the objects of one kind: list, then watch from there, for ever.

It works as client-go's Reflector does: pages of 500, and bookmarks so that a quiet kind can continue where it was. It
lists again if the API server has forgotten that place (410), and from time to time. Pauses grow while the API server is
away or forbids the request.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

from podfit.cluster.access import Client, StatusError
from podfit.kube.snapshot import JSON, Key, WatchedKind, key

PAGE = 500
SILENCE = 150.0
"""Seconds without an event or a bookmark after which a connection is taken for dead: bookmarks come every minute
(k8s.io/apiserver storage/cacher, defaultBookmarkFrequency)."""
WATCH = 290
"""Seconds after which the API server is asked to end a watch, as client-go does (5 to 10 minutes)."""
RESYNC = 1800.0
"""Seconds after which everything is listed again, in case something was missed."""
FORGET = 300.0
"""Seconds of answers 401 or 403 after which what was seen is forgotten."""
FIRST, LONGEST = 0.5, 60.0
"""Seconds of the first and of the longest pause after a failure."""
SHORT = 5.0
"""Seconds; a watch that ends sooner is followed by a pause, as in client-go ("very short watch")."""

Objects = Mapping[Key, JSON]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatchState:
    """What is known of one kind."""

    kind: str
    objects: Objects | None = None
    """None: never seen, or forbidden."""
    contact: float = 0.0
    """When the API server last said something of it (`clock`); 0: never."""
    problem: str = ""
    """Why there is nothing newer, in one line; empty where all is well."""
    digest: int = 0
    """Equal for equal objects, in whatever order they came."""
    served: bool = True
    """False: the API server has no such kind, so that there can be no objects."""


class KindWatch:
    """One kind. `publish` is called from the watching thread with every new state; it must not wait."""

    def __init__(
        self,
        kind: WatchedKind,
        client: Client,
        publish: Callable[[WatchState], None],
        clock: Callable[[], float],
        stop: Event,
    ) -> None:
        self.kind = kind
        self._client = client
        self._publish = publish
        self._clock = clock
        self._stop = stop
        self._state = WatchState(kind.name)
        self._version = 0
        """Which of the kind's API versions the server has."""

    def run(self) -> None:
        """Follows until `stop` is set. Never raises."""
        pause = FIRST
        while not self._stop.is_set():
            listed, least = math.inf, 0.0
            try:
                place = self._list()
                listed = self._clock()
                self._follow(place)
            except StatusError as error:
                if self._takes_next_version(error):
                    continue
                least = self._refused(error)
            except (OSError, ValueError) as error:
                self._set_problem(f"{type(error).__name__}: {error}")
            except Exception as error:  # a bug in podfit: logged, and tried again, so that one odd object stops nothing
                log.exception("watching %s failed", self.kind.name)
                self._set_problem(f"internal error: {type(error).__name__}")
                least = LONGEST
            if self._clock() - listed > LONGEST:  # a list alone is not a success: each watch may be forbidden
                pause = FIRST
            self._stop.wait(max(least, pause) * random.uniform(0.75, 1.25))  # noqa: S311 - so that replicas do not ask together
            pause = min(pause * 2, LONGEST)
        self._client.close()

    def _takes_next_version(self, error: StatusError) -> bool:
        """Whether another version of the API is left to ask for, where the server lacks one."""
        if error.code != 404 or self._version + 1 == len(self.kind.versions):
            return False
        self._version += 1
        return True

    def _refused(self, error: StatusError) -> float:
        """How long to wait after an error, at least."""
        if error.code == 404:
            self._version = 0
            missing = "this API server does not have it"
            self._set(WatchState(self.kind.name, None, self._clock(), missing, served=False))
            return 0.0
        self._set_problem(str(error))
        # An API server that has just started forbids everything until it has read its roles. Rights that stay away were
        # taken, and what was read with them is no longer used.
        if error.code in (401, 403) and self._clock() - self._state.contact > FORGET:
            self._set(WatchState(self.kind.name, None, 0.0, str(error)))
        return error.retry_after or 0.0

    def _list(self) -> str:
        """Reads everything; the place in the history at which it was so."""
        found: dict[Key, JSON] = {}
        query = self._query() | {"limit": str(PAGE)}
        while True:
            page = self._client.get(self._path(), query)
            for obj in page.get("items") or ():
                found[key(obj)] = self._keep(obj)
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                break
            query["continue"] = str(metadata["continue"])
        digest = 0
        for name, kept in found.items():
            digest ^= _digest(self.kind, name, kept)
        self._set(WatchState(self.kind.name, found, self._clock(), digest=digest))
        return str(metadata.get("resourceVersion") or "")

    def _follow(self, place: str) -> None:
        """Watches from `place` on, until everything has to be listed again."""
        end = self._clock() + RESYNC * random.uniform(0.9, 1.1)  # noqa: S311
        pause = FIRST
        while not self._stop.is_set() and self._clock() < end:
            query = self._query() | {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": place,
                "timeoutSeconds": str(WATCH),
            }
            began, ended = self._clock(), False
            try:
                with self._client.stream(self._path(), query, SILENCE) as events:
                    self._touch()
                    for event in events:
                        if self._stop.is_set() or event.get("type") == "ERROR":
                            return self._gone(event)
                        place = self._apply(event) or place
                        pause = FIRST
                self._touch()  # it ended in order: nothing has happened since
                ended = True
            except StatusError as error:
                if error.code == 410:
                    return None
                raise
            except (OSError, ValueError) as error:
                self._set_problem(f"{type(error).__name__}: {error}")
            if not ended or self._clock() - began < SHORT:
                self._stop.wait(pause * random.uniform(0.75, 1.25))  # noqa: S311
                pause = min(pause * 2, LONGEST)
        return None

    def _gone(self, event: Mapping[str, Any]) -> None:
        """An ERROR event: the history is gone (410), or the server can't continue; a list fixes both."""
        status = event.get("object") or {}
        if status.get("code") not in (None, 410):
            raise StatusError(int(status["code"]), str(status.get("message")))

    def _apply(self, event: Mapping[str, Any]) -> str | None:
        """One event; the place after it."""
        obj = event.get("object")
        if not isinstance(obj, Mapping):
            return None
        kind, name = event.get("type"), key(obj)
        before = (self._state.objects or {}).get(name)
        after = self._keep(obj) if kind in ("ADDED", "MODIFIED") else None
        if kind in ("ADDED", "MODIFIED", "DELETED") and after != before:
            self._replace(name, before, after)
        else:  # a bookmark, or a change of fields that are not read
            self._touch()
        version = (obj.get("metadata") or {}).get("resourceVersion")
        return str(version) if version else None

    def _replace(self, name: Key, before: JSON | None, after: JSON | None) -> None:
        """Publishes the objects with one changed (`after` None: removed) and their digest."""
        known, digest = dict(self._state.objects or {}), self._state.digest
        if before is not None:
            digest ^= _digest(self.kind, name, known.pop(name))
        if after is not None:
            digest ^= _digest(self.kind, name, after)
            known[name] = after
        self._set(WatchState(self.kind.name, known, self._clock(), digest=digest))

    def _keep(self, obj: JSON) -> JSON:
        """Reduced, and with each word once: a thousand nodes have the same labels."""
        kept: JSON = _interned(self.kind.keep(obj))
        return kept

    def _touch(self) -> None:
        self._set(replace(self._state, contact=self._clock(), problem=""))

    def _set_problem(self, problem: str) -> None:
        """Publishes a problem; logs it once."""
        if problem != self._state.problem:
            log.warning("watching %s: %s", self.kind.name, problem)
        self._set(replace(self._state, problem=problem))

    def _set(self, state: WatchState) -> None:
        self._state = state
        self._publish(state)

    def _path(self) -> str:
        namespace = self._client.namespace if self.kind.own_namespace else ""
        return self.kind.path(self.kind.versions[self._version], namespace)

    def _query(self) -> dict[str, str]:
        return {"labelSelector": self.kind.label} if self.kind.label else {}


def _digest(kind: WatchedKind, name: Key, kept: JSON) -> int:
    text = json.dumps([kind.name, name, kept], sort_keys=True, default=list)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _interned(value: Any) -> Any:
    """The same value with each short text kept once: labels and names repeat on every node."""
    if isinstance(value, str):
        return sys.intern(value) if len(value) < 128 else value
    if isinstance(value, Mapping):
        return {_interned(name): _interned(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_interned(one) for one in value)
    return value
