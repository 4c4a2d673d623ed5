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
"""Name → Policy object."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveSource:
    """One file, or one object: the content that was read last, and the layers in force."""

    content: str | None
    """The text of the file, or of the whole object, that was read last. None: a file that can't be read."""
    layers: tuple[Layer, ...] = ()
    """The last good state."""
    problems: tuple[str, ...] = ()
    """Why `content` is not in force, each in one line; empty if it is."""


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
        """Path → state of each policy file."""
        self._sources: dict[str, LiveSource] = {}
        """Name → state of each Policy object."""
        self._conflicts: tuple[str, ...] = ()
        """Problems of valid sources that contradict each other, each in one line."""
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
        # Problems of Policy objects do not count here: their last good state is in force, or none of them.
        problems = [problem for source in self._files.values() for problem in source.problems]
        problems += self._conflicts
        if problems:
            raise PolicyError(problems)

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems in the newest state of the files and objects, `FILE:LINE: path: message`."""
        sources = (*self._files.values(), *self._sources.values())
        return (*(problem for source in sources for problem in source.problems), *self._conflicts)

    def object_problems(self) -> dict[str, tuple[str, ...]]:
        """Name of each Policy object → why its newest state is not in force, a line each; empty if it is."""
        problems: dict[str, tuple[str, ...]] = {}
        for name, source in self._sources.items():
            prefix = f"policies.podfit.dev/{name}: "  # the place of a problem in this object
            conflicts = tuple(problem for problem in self._conflicts if problem.startswith(prefix))
            problems[name] = source.problems + conflicts
        return problems

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
        """Reads everything once, puts what is valid into force, and logs new problems and expired exceptions."""
        before = (self._files, self._sources, self.unknown)
        problems_before, expired_before = self.problems, self.policy.expired
        self._files = {name: _next(self._files.get(name), name, text) for name, text in self._texts()}
        objects = self._read_objects()
        if objects is not None:
            self._sources = {name: _next_object(self._sources.get(name), name, obj) for name, obj in objects.items()}
            self.objects_seen = True
        self.unknown = self._why_unknown()
        if (self._files, self._sources, self.unknown) != before:
            self._take_over()
            for problem in self.problems:
                if problem not in problems_before:
                    log.error("policy not taken over, the last good state is in use: %s", problem)
            if problems_before and not self.problems:
                log.info("all policies hold again")
        self.policy = self.policy.at(self._clock())
        for exception in self.policy.expired:
            if exception not in expired_before:
                log.warning(
                    "%s: an exception of policy %s expired on %s", exception.place, exception.policy, exception.until
                )

    def run(self, stop: Event) -> None:
        """Looks every INTERVAL until `stop` is set, and logs when the Policy objects become unknown and known. Never
        raises."""
        logged_unknown = ""
        while not stop.wait(INTERVAL):
            try:
                self.look()
                if self.unknown and self.unknown != logged_unknown:
                    log.error("nothing is enforced: %s", self.unknown)
                elif logged_unknown and not self.unknown:
                    log.info("the Policy objects are known, the policies are enforced")
                logged_unknown = self.unknown
                self._tell(self._read_objects() or {}, self.object_problems())
            except Exception:  # our fault: logged, and tried again
                log.exception("looking for changed policies failed")

    def start(self) -> None:
        """Looks in the background, for as long as the process lives."""
        Thread(target=self.run, args=(Event(),), name="policies", daemon=True).start()

    def _texts(self) -> Iterator[tuple[str, str | None]]:
        """(path, text) of each policy file; None as the text of one that can't be read. Of a folder, its YAML and JSON
        files in the order of their names, without hidden files and JSON Schemas."""
        for place in self._places:
            if not place.is_dir():
                yield str(place), _text(place)
                continue
            for path in sorted(place.iterdir()):
                if path.suffix not in POLICY_SUFFIXES or path.name.startswith("."):
                    continue
                text = _text(path)
                if text is None or not is_schema(text):
                    yield str(path), text

    def _read_objects(self) -> Objects | None:
        """The cluster's Policy objects; None if they are unknown, or there is no cluster."""
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
        version_before = self.policy.version
        try:
            self._complete_policy, self._conflicts = of_layers(layers), ()
        except PolicyError as error:
            self._conflicts = tuple(error.problems)
        policy = self._complete_policy.audited() if self.unknown else self._complete_policy
        self.policy = policy.at(self._clock())
        if self.policy.version != version_before:
            self.changed = self._clock()
            log.info("policy %s is in use, made of %d policies", self.policy.version, len(layers))


def policy_now(texts: Iterable[tuple[str, str]], objects: Objects, now: datetime) -> tuple[Policy, tuple[str, ...]]:
    """The policy of a server that starts now with these files and Policy objects, and the problems in the objects, a
    line each. `texts`: (name, text) of each file. Raises PolicyError as `Live`."""
    sources = [_next_object(None, name, obj) for name, obj in objects.items()]
    layers = document.read(texts)
    layers += [layer for source in sources for layer in source.layers]
    problems = tuple(problem for source in sources for problem in source.problems)
    return of_layers(layers).at(now), problems


def _next(last: LiveSource | None, name: str, text: str | None) -> LiveSource:
    """A file's state after it was read: `last` itself if nothing changed. If the text is not valid, or None (can't be
    read), the layers of `last` stay, or none if `last` is None, as at the start."""
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
    """An object's state after it was read: `last` itself if nothing changed. If the object is not valid, the layers of
    `last` stay; if `last` is None, as at the start, those that the object's status has."""
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
