"""The policies in force: files, read every second, and the Policy objects of a cluster.

An invalid change is reported (log, /readyz, metrics, the object's status) and has no effect. The last good state that
this server has seen of each file and each object stays in force. A mounted ConfigMap changes by the swap of a symlink
(`..data`), so this module compares contents, not times.

Policy objects may loosen what the files say. While they are wanted and can't be known, nothing is enforced: the loss of
their CustomResourceDefinition, or of the right to read them, makes no decision stricter.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from podfit.evaluation.policy import Layer, Policy, PolicyError, document, is_schema, of_layers

POLICY_SUFFIXES = (".yaml", ".yml", ".json")
INTERVAL = 1.0
"""Seconds between two looks."""

Objects = Mapping[str, Mapping[str, Any]]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveSource:
    """One file, or one object: the content that was read last, and the layers in force."""

    content: str | None
    """The text of the file, or of the whole object, that was read last. None: a file that can't be read."""
    layers: tuple[Layer, ...] = ()
    """The last good state."""
    problems: tuple[str, ...] = ()
    """Why `content` does not hold."""


class Live:
    """Safe for threads: `policy` is replaced whole."""

    def __init__(
        self,
        paths: Iterable[Path],
        objects: Callable[[], Objects | None] | None = None,
        tell: Callable[[Objects, Mapping[str, tuple[str, ...]]], None] = lambda *_: None,
        served: Callable[[], bool] = lambda: True,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Reads the files; raises PolicyError if one can't be used: a server starts only with all its policies.

        - `objects`: name → Policy object of the cluster, or None if they are unknown; then the last ones stay. Without
          it there is no cluster, and only the files count
        - `tell`: called with the objects and their problems after every look in the background
        - `served`: whether the API server has the kind of Policy objects
        """
        self._places = tuple(paths)
        self._objects = objects
        self._tell = tell
        self._served = served
        self._clock = clock
        self._files: dict[str, LiveSource] = {}
        self._sources: dict[str, LiveSource] = {}
        self._apart: tuple[str, ...] = ()
        self.objects_seen = False
        """The cluster's objects have been read at least once."""
        self.unknown = ""
        """Why the Policy objects can't be known, so that nothing is enforced; empty if they are, or none are wanted."""
        self._complete_policy = of_layers(())
        """The policy of the last good state of everything."""
        self.policy = self._complete_policy.at(clock())
        """The policy in force."""
        self.changed = clock()
        """When it took effect."""
        self.look()
        if broken := [line for source in self._files.values() for line in source.problems] + list(self._apart):
            raise PolicyError(broken)

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems in the newest state of the files and objects, `FILE:LINE: path: message`."""
        sources = (*self._files.values(), *self._sources.values())
        return (*(line for source in sources for line in source.problems), *self._apart)

    def object_problems(self) -> dict[str, tuple[str, ...]]:
        """Name of each Policy object → why its newest state is not in force; empty if it is."""
        apart = {
            name: tuple(line for line in self._apart if line.startswith(f"policies.podfit.dev/{name}: "))
            for name in self._sources
        }
        return {name: source.problems + apart[name] for name, source in self._sources.items()}

    def report(self) -> list[str]:
        """The lines of /readyz on the policies' files and objects."""
        since = f"{self.changed:%Y-%m-%dT%H:%M:%SZ}"
        count = len(self.policy.everything)
        lines = [f"policy {self.policy.version}: {count} {'policy' if count == 1 else 'policies'}, since {since}"]
        if self.unknown:
            lines.append(f"policy: nothing is enforced: {self.unknown}")
        lines += [f"policy: the last good state is in use: {problem}" for problem in self.problems]
        return lines + [f"policy: {exception.place}: expired on {exception.until}" for exception in self.policy.expired]

    def look(self) -> None:
        """Reads everything once, and takes over what is good."""
        before, problems, expired = (self._files, self._sources, self.unknown), self.problems, self.policy.expired
        self._files = {name: _next(self._files.get(name), name, text) for name, text in self._texts()}
        objects = self._read_objects()
        if objects is not None:
            self._sources = {name: _next_object(self._sources.get(name), name, obj) for name, obj in objects.items()}
            self.objects_seen = True
        self.unknown = self._why_unknown()
        if (self._files, self._sources, self.unknown) != before:
            self._take_over()
            for problem in self.problems:
                if problem not in problems:
                    log.error("policy not taken over, the last good state is in use: %s", problem)
            if problems and not self.problems:
                log.info("all policies hold again")
        self.policy = self.policy.at(self._clock())
        for exception in self.policy.expired:
            if exception not in expired:
                log.warning(
                    "%s: an exception of policy %s expired on %s", exception.place, exception.policy, exception.until
                )

    def run(self, stop: Event) -> None:
        """Looks until `stop` is set. Never raises."""
        unknown = ""
        while not stop.wait(INTERVAL):
            try:
                self.look()
                if self.unknown and self.unknown != unknown:
                    log.error("nothing is enforced: %s", self.unknown)
                elif unknown and not self.unknown:
                    log.info("the Policy objects are known, the policies are enforced")
                unknown = self.unknown
                self._tell(self._read_objects() or {}, self.object_problems())
            except Exception:  # our fault: logged, and tried again
                log.exception("looking for changed policies failed")

    def start(self) -> None:
        """Looks in the background, for as long as the process lives."""
        Thread(target=self.run, args=(Event(),), name="policies", daemon=True).start()

    def _texts(self) -> Iterator[tuple[str, str | None]]:
        """Name and text of each policy file; None as the text of one that can't be read. A JSON Schema in a folder is
        left out."""
        for place in self._places:
            if place.is_dir():
                inside = (
                    path for path in sorted(place.iterdir()) if path.suffix in POLICY_SUFFIXES and path.name[0] != "."
                )
                read = ((str(path), _text(path)) for path in inside)
                yield from ((name, text) for name, text in read if text is None or not is_schema(text))
            else:
                yield str(place), _text(place)

    def _read_objects(self) -> Objects | None:
        """The cluster's Policy objects; None if they are unknown."""
        return None if self._objects is None else self._objects()

    def _why_unknown(self) -> str:
        """Why the Policy objects can't be known; empty if they can, or if none are wanted."""
        if self._objects is None:
            return ""
        if not self._served():
            return "the API server does not serve policies.podfit.dev (its CustomResourceDefinition is gone)"
        return "" if self.objects_seen else "the Policy objects of the cluster have not been read"

    def _take_over(self) -> None:
        """Makes one policy of the last good state of all sources. If they contradict each other, the former policy
        stays. While the Policy objects are unknown, it is only audited."""
        layers = [layer for source in (*self._files.values(), *self._sources.values()) for layer in source.layers]
        version = self.policy.version
        try:
            self._complete_policy, self._apart = of_layers(layers), ()
        except PolicyError as error:
            self._apart = tuple(error.problems)
        self.policy = (self._complete_policy.audited() if self.unknown else self._complete_policy).at(self._clock())
        if self.policy.version != version:
            self.changed = self._clock()
            log.info("policy %s is in use, made of %d policies", self.policy.version, len(layers))


def policy_now(texts: Iterable[tuple[str, str]], objects: Objects, now: datetime) -> tuple[Policy, tuple[str, ...]]:
    """The policy of a server that starts now with these files and Policy objects, and what is broken in the objects.

    Raises PolicyError as `Live`."""
    live_sources = [_next_object(None, name, obj) for name, obj in objects.items()]
    layers = [*document.read(texts), *(layer for source in live_sources for layer in source.layers)]
    return of_layers(layers).at(now), tuple(problem for source in live_sources for problem in source.problems)


def _next(last: LiveSource | None, name: str, text: str | None) -> LiveSource:
    """A file's state after it was read: with the layers of `last` if its text (None: unreadable) is not valid."""
    if last is not None and last.content == text:
        return last
    kept = last.layers if last else ()
    if text is None:
        return LiveSource(None, kept, (f"{name}:1: policy: can't be read",))
    try:
        return LiveSource(text, tuple(document.read([(name, text)])))
    except PolicyError as error:
        return LiveSource(text, kept, tuple(error.problems))


def _next_object(last: LiveSource | None, name: str, obj: Mapping[str, Any]) -> LiveSource:
    """An object's state after it was seen: if it is not valid, with the layers of `last`, or without that with those
    that its status has."""
    content = repr(obj)
    if last is not None and last.content == content:
        return last
    try:
        return LiveSource(content, (document.of_object(obj, f"policies.podfit.dev/{name}"),))
    except PolicyError as error:
        return LiveSource(content, last.layers if last else _accepted(obj, name), tuple(error.problems))


def _accepted(obj: Mapping[str, Any], name: str) -> tuple[Layer, ...]:
    """The last good state, as the object's status has it, for a server that has not seen it itself; empty if the
    status has none that is valid."""
    try:
        spec = json.loads(obj["status"]["accepted"])
        return (document.of_object({**obj, "spec": spec}, f"policies.podfit.dev/{name}"),)
    except (KeyError, TypeError, ValueError):  # PolicyError is one
        return ()


def _text(path: Path) -> str | None:
    """The text of a file; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
