"""The facts in use: the packaged tables, or a set in a folder (`--facts`), looked at every second.

A set that can't be used changes nothing: the last good one stays in use, and the reason is in the log, /readyz and the
metrics. Without a good one the packaged tables are.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

from podfit.base.data import Tables, using
from podfit.base.facts_set import DIGESTS, LARGEST, NAMES, FactsError, of_files
from podfit.vllm import gpu, release
from podfit.vllm.args import flags
from podfit.vllm.facts import Facts
from podfit.vllm.model import catalogue

INTERVAL = 1.0
"""Seconds between two looks."""
FILES = (DIGESTS, *(f"{name}.json" for name in NAMES))
_Stamp = tuple[tuple[int, ...] | None, ...]
log = logging.getLogger(__name__)


def read(folder: Path) -> Tables:
    """The set in a folder, verified; raises FactsError with the file and the reason."""
    files: dict[str, bytes] = {}
    for name in FILES:
        left = LARGEST - sum(map(len, files.values()))
        try:
            files[name] = _content(folder / name, left + 1)
        except OSError as error:
            raise FactsError(f"{folder / name}: {(error.strerror or type(error).__name__).lower()}") from None
        if len(files[name]) > left:
            raise FactsError(f"{folder / name}: with the files before it larger than {LARGEST >> 20} MiB")
    try:
        tables = of_files(files)
    except FactsError as error:
        raise FactsError(f"{folder}/{error}") from None
    _try("its tables", folder, lambda: _make(tables))
    return tables


def _content(path: Path, most: int) -> bytes:
    """The first bytes of a file; raises OSError. A pipe or a device, which may never end, is none."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read(most)


def _make(tables: Tables) -> None:
    """Make what all evaluations use of a set: its errors are found here."""
    with using(tables):
        release.known_releases()
        flags.builtin()
        gpu.all_products()
        for table in (catalogue.ids, catalogue.aliases, catalogue.last_parts, catalogue.relatives):
            table()


def _try(what: str, folder: Path, attempt: Callable[[], None]) -> None:
    """Raises FactsError if the attempt raises."""
    try:
        attempt()
    except Exception as error:
        raise FactsError(f"{folder}: {what} can't be used ({type(error).__name__})") from error


class LiveFacts:
    """Safe for threads: `facts` is replaced whole."""

    def __init__(self, base: Facts, folder: Path | None, judge: Callable[[Facts], None] = lambda _: None) -> None:
        """Reads the folder once.

        `judge` evaluates an object with new facts, so that no review waits for their tables. Facts with which it raises
        are not used."""
        self.facts = base
        """What is in use."""
        self.problem: str | None = None
        """Why the newest state of the folder is not in use; None if it is."""
        self._folder = folder
        self._judge = judge
        self._seen: _Stamp | None = None
        self.look()

    def look(self) -> None:
        """Takes over a set that has changed and is good."""
        if self._folder is None:
            return
        stamp = self._stamp()
        if stamp == self._seen:
            return
        before, self._seen = self.problem, stamp
        try:
            facts = replace(self.facts, tables=read(self._folder))
            if facts.tables.version != self.facts.tables.version:
                _try("the set", self._folder, lambda: self._judge(facts))
                self.facts = facts
                log.info("%s", facts.tables.age())
            self.problem = None
        except FactsError as error:
            if stamp != self._stamp():  # files of two sets: the next look reads one of them whole
                self._seen = None
                return
            self.problem = str(error)
            if self.problem != before:
                log.error("facts not used, %s: %s", self._instead(), error)

    def _stamp(self) -> _Stamp:
        """What changes with any file of the folder."""
        return tuple(_stamp(self._folder / name) for name in FILES) if self._folder is not None else ()

    def report(self) -> list[str]:
        """For /readyz: what is in use, and why nothing newer is."""
        age = self.facts.tables.age()
        return [age] if self.problem is None else [age, f"facts not used, {self._instead()}: {self.problem}"]

    def _instead(self) -> str:
        name = self.facts.tables.name
        return "the packaged ones stay in use" if name is None else f"{name} stays in use"

    def run(self, stop: Event) -> None:
        """Looks until `stop` is set. Never raises."""
        while not stop.wait(INTERVAL):
            try:
                self.look()
            except Exception:  # our fault: logged, and tried again
                log.exception("looking for changed facts failed")

    def start(self) -> None:
        """Looks in the background, for as long as the process lives."""
        if self._folder is not None:
            Thread(target=self.run, args=(Event(),), name="facts", daemon=True).start()


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What changes with a file's content, and with who may read it; None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
