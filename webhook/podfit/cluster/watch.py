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
from podfit.cluster.access import DENIED, Client, StatusError
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
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds of the first and of the longest pause after a failure. A choice: the pause doubles from one failure to the
next."""
JITTER = (0.75, 1.25)
"""Random factors of a pause: replicas that failed at the same moment do not ask again together."""
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
    """Seconds of `clock` at the API server's last answer about the kind; 0: none yet."""
    problem: str = ""
    """Why there is nothing newer, in one line; empty if the watch works."""
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
        pause = FIRST_PAUSE
        while not self._stop.is_set():
            listed_at, least_pause = math.inf, 0.0
            try:
                place = self._list()
                listed_at = self._clock()
                self._follow(place)
            except StatusError as error:
                if self._takes_next_version(error):
                    continue
                least_pause = self._note_error(error)
            except (OSError, ValueError) as error:
                self._set_problem(f"{type(error).__name__}: {error}")
            except Exception as error:  # a bug in podfit: logged, and tried again, so that one odd object stops nothing
                log.exception("watching %s failed", self.kind.name)
                self._set_problem(f"internal error: {type(error).__name__}")
                least_pause = LONGEST_PAUSE
            # A list alone is not a success, because the API server may forbid each watch.
            if self._clock() - listed_at > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            self._stop.wait(_jittered(max(least_pause, pause)))
            pause = min(pause * 2, LONGEST_PAUSE)
        self._client.close()

    def _takes_next_version(self, error: StatusError) -> bool:
        """True if the server lacks the version of the kind that was asked for, and another one is left; then changes to
        that."""
        if error.code != 404 or self._version + 1 == len(self.kind.versions):
            return False
        self._version += 1
        return True

    def _note_error(self, error: StatusError) -> float:
        """Publishes the API server's error, and that the kind does not exist, or is forgotten after FORGET seconds
        without rights. Returns the seconds to wait at least; 0.0 if the server names none."""
        if error.code == 404:  # no version is left, so the next try starts with the newest again
            self._version = 0
            missing = "this API server does not have it"
            self._set(WatchState(self.kind.name, None, self._clock(), missing, served=False))
            return 0.0
        self._set_problem(str(error))
        # An API server that has just started forbids everything until it has read its roles. Rights that stay away were
        # taken, and what was read with them is no longer used.
        if error.code in DENIED and self._clock() - self._state.contact > FORGET:
            self._set(WatchState(self.kind.name, None, 0.0, str(error)))
        return error.retry_after or 0.0

    def _list(self) -> str:
        """Reads and publishes all objects. Returns the resourceVersion of the list, from which a watch continues.

        A page that can't be decoded is asked for again with half as many objects, down to one, which is then unknown.
        After a page that could be decoded, the next one is twice as large again, up to PAGE."""
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
                    # Without a token the list starts again, at another moment. With one, the same page is read again,
                    # and objects of it that were added before are replaced.
                    if "continue" not in query:
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
        """Watches from `place` on, a resourceVersion. Returns when all objects must be listed again: after about RESYNC
        seconds, or because the API server has forgotten the place (410). Also returns when `stop` is set.

        Raises StatusError for another error of the server; a broken connection is made again after a pause."""
        end = self._clock() + RESYNC * random.uniform(0.9, 1.1)  # noqa: S311 - not all kinds and replicas list together
        pause = FIRST_PAUSE
        while not self._stop.is_set() and self._clock() < end:
            query = self._query() | {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": place,
                "timeoutSeconds": str(WATCH),
            }
            began, has_ended_in_order = self._clock(), False
            try:
                with self._client.stream(self._path(), query, SILENCE) as events:
                    self._touch()
                    for line in events:
                        if self._stop.is_set():
                            return
                        place = self._read_event(line) or place
                        pause = FIRST_PAUSE
                self._touch()  # it ended in order: nothing has happened since
                has_ended_in_order = True
            except StatusError as error:
                if error.code == 410:
                    return
                raise
            except (OSError, ValueError) as error:
                self._set_problem(f"{type(error).__name__}: {error}")
            if not has_ended_in_order or self._clock() - began < SHORT:
                self._stop.wait(_jittered(pause))
                pause = min(pause * 2, LONGEST_PAUSE)

    def _read_event(self, line: bytes) -> str | None:
        """Applies a line of a watch; returns and raises as `_apply`. The object of a line that can't be decoded is
        unknown."""
        try:
            return decoding.event(line, self._apply)
        except decoding.UnreadableError as error:
            return self._apply(str(error.fields.get("type")), {"metadata": error.metadata}, is_readable=False)

    def _apply(self, event_type: str, obj: JSON, *, is_readable: bool = True) -> str | None:
        """Applies one event, and publishes the result. Returns the resourceVersion after it; None if it has none.

        `is_readable`: False if only the object's metadata is known. Raises StatusError for an event that is an error of
        the server, with code 410 (the place is forgotten) if it has none."""
        if event_type == "ERROR":
            code = obj.get("code")
            raise StatusError(code if isinstance(code, int) else 410, str(obj.get("message")))
        changed, metadata = False, mapping(obj.get("metadata"))
        if event_type == "DELETED":
            changed = self._store.remove(metadata)
        elif event_type in ("ADDED", "MODIFIED") and is_readable:
            changed = self._store.add(obj, is_new=event_type == "ADDED")
        elif event_type in ("ADDED", "MODIFIED"):
            changed = self._store.add_unknown(metadata, is_new=event_type == "ADDED")
        if changed:
            self._set_objects()
        else:  # a bookmark, or a change of fields that are not read
            self._touch()
        version = metadata.get("resourceVersion")
        return str(version) if version else None

    def _set_objects(self) -> None:
        """Publishes the objects as they are now, or that they are too many; logs each unknown object once."""
        store = self._store
        for key in sorted(store.unknown_objects - self._logged):
            title = "/".join(filter(None, key)) or "without a readable name"
            log.warning("%s %s is too large to be known", self.kind.name, title)
        self._logged = frozenset(store.unknown_objects)
        self._set(
            WatchState(
                self.kind.name,
                objects=None if store.is_dropped else dict(store.objects),
                contact=self._clock(),
                problem=f"more than {self.kind.max_bytes >> 20} MiB" if store.is_dropped else "",
                digest=store.digest,
                unknown=store.unknown,
            )
        )

    def _touch(self) -> None:
        """Publishes that the objects are still the present ones."""
        self._set(replace(self._state, contact=self._clock(), problem=""))

    def _set_problem(self, problem: str) -> None:
        """Publishes a problem, in one line, and keeps the objects; logs it if it is another one than before."""
        if problem != self._state.problem:
            log.warning("watching %s: %s", self.kind.name, problem)
        self._set(replace(self._state, problem=problem))

    def _set(self, state: WatchState) -> None:
        """Replaces and publishes the state."""
        self._state = state
        self._publish(state)

    def _path(self) -> str:
        """The path of the kind's list, in the version that the server has; of one namespace for some kinds."""
        namespace = self._client.namespace if self.kind.own_namespace else ""
        return self.kind.path(self.kind.versions[self._version], namespace)

    def _query(self) -> dict[str, str]:
        """The query that selects the kind's label, if it has one."""
        return {"labelSelector": self.kind.label} if self.kind.label else {}


def _jittered(pause: float) -> float:
    """A random length near that of the pause, in seconds."""
    return pause * random.uniform(*JITTER)  # noqa: S311 - not for secrets
