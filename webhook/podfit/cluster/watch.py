"""Follows the objects of one kind: list, then watch from there, for ever.

It works as client-go's Reflector does: pages of 500, and bookmarks so that a quiet kind can continue where it was. It
lists again if the API server has forgotten that place (410), and from time to time. Pauses grow while the API server is
away or forbids the request.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event

from podfit.cluster import decoding
from podfit.cluster.access import Client, StatusError
from podfit.cluster.store import Store
from podfit.kube.path import mapping
from podfit.kube.snapshot import JSON, Key, WatchedKind

PAGE = 500
"""Objects of a page. A page that can't be decoded is asked for again with half as many."""
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
    """The state of the watch of one kind."""

    kind: str
    objects: Objects | None = None
    """None: never seen, or forbidden."""
    contact: float = 0.0
    """When the API server last said something of it (`clock`); 0: never."""
    problem: str = ""
    """Why there is nothing newer, in one line; empty where all is well."""
    digest: int = 0
    """Equal for equal objects, in whatever order they came."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Namespace ("" if the kind has none) → number of its objects that are too large or too many to be known."""
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
        self._store = Store(kind)
        self._logged = frozenset[Key]()
        """The unknown objects that the log has named."""
        self._version = 0
        """Index of the API version of the kind that the server has."""
        self._limit = PAGE
        """Objects of the next page."""

    def run(self) -> None:
        """Follows until `stop` is set. Never raises."""
        pause = FIRST
        while not self._stop.is_set():
            listed_at, least = math.inf, 0.0
            try:
                place = self._list()
                listed_at = self._clock()
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
            if self._clock() - listed_at > LONGEST:  # a list alone is not a success: each watch may be forbidden
                pause = FIRST
            self._stop.wait(max(least, pause) * random.uniform(0.75, 1.25))  # noqa: S311 - so that replicas do not ask together
            pause = min(pause * 2, LONGEST)
        self._client.close()

    def _takes_next_version(self, error: StatusError) -> bool:
        """True if another version of the API is left to ask for, where the server lacks one."""
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
        """Reads all objects, with smaller pages while one cannot be read; returns the place in the history (a
        resourceVersion) of the list. An object that cannot be read by itself is unknown."""
        store, query = Store(self.kind), self._query()
        while True:
            query["limit"] = str(self._limit)
            try:
                take = partial(store.add, previous=self._store.objects)
                metadata = self._client.page(self._path(), query, take)
                self._limit = min(2 * self._limit, PAGE)
            except decoding.UnreadableError as error:
                if self._limit > 1:
                    self._limit //= 2
                    if "continue" not in query:  # the next answer is of another moment
                        store = Store(self.kind)
                    continue
                store.add_unknown(error.metadata)
                metadata = mapping(error.fields.get("metadata"))
            if not metadata.get("continue"):
                break
            query["continue"] = str(metadata["continue"])
        self._store = store
        self._set_objects()
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
                    for line in events:
                        if self._stop.is_set():
                            return
                        place = self._read_event(line) or place
                        pause = FIRST
                self._touch()  # it ended in order: nothing has happened since
                ended = True
            except StatusError as error:
                if error.code == 410:
                    return
                raise
            except (OSError, ValueError) as error:
                self._set_problem(f"{type(error).__name__}: {error}")
            if not ended or self._clock() - began < SHORT:
                self._stop.wait(pause * random.uniform(0.75, 1.25))  # noqa: S311
                pause = min(pause * 2, LONGEST)

    def _read_event(self, line: bytes) -> str | None:
        """Applies a line of a watch; the place after it."""
        try:
            return decoding.event(line, self._apply)
        except decoding.UnreadableError as error:
            return self._apply(str(error.fields.get("type")), {"metadata": error.metadata}, is_readable=False)

    def _apply(self, kind: str, obj: JSON, *, is_readable: bool = True) -> str | None:
        """One event; the place after it. Raises StatusError for an error of the server, by default 410: the place is
        forgotten."""
        if kind == "ERROR":
            code = obj.get("code")
            raise StatusError(code if isinstance(code, int) else 410, str(obj.get("message")))
        changed, metadata = False, mapping(obj.get("metadata"))
        if kind == "DELETED":
            changed = self._store.remove(metadata)
        elif kind in ("ADDED", "MODIFIED") and is_readable:
            changed = self._store.add(obj, is_new=kind == "ADDED")
        elif kind in ("ADDED", "MODIFIED"):
            changed = self._store.add_unknown(metadata, is_new=kind == "ADDED")
        if changed:
            self._set_objects()
        else:  # a bookmark, or a change of fields that are not read
            self._touch()
        version = metadata.get("resourceVersion")
        return str(version) if version else None

    def _set_objects(self) -> None:
        """Publishes the objects as they are now."""
        store = self._store
        for name in sorted(store.unknown_objects - self._logged):
            title = "/".join(filter(None, name)) or "without a readable name"
            log.warning("%s %s is too large to be known", self.kind.name, title)
        self._logged = frozenset(store.unknown_objects)
        self._set(
            WatchState(
                self.kind.name,
                None if store.is_dropped else dict(store.objects),
                self._clock(),
                f"more than {self.kind.max_bytes >> 20} MiB" if store.is_dropped else "",
                store.digest,
                store.unknown,
            )
        )

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
