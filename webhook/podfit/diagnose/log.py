"""A log → what killed its program: the first cause that nothing survived, not what followed from it."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import NamedTuple

from podfit.diagnose import phase, stall
from podfit.diagnose.line import LogLine, per_shape
from podfit.diagnose.phase import Phase
from podfit.diagnose.sighting import MAX_EVIDENCE, Compiled, Sighting
from podfit.diagnose.traits import HEADINGS, MARKS, Traits, traits_of

_VALIDATION = re.compile(r"\d+ validation errors? for ")
"""The head of a pydantic error: the lines below it say what is wrong."""
CONTEXT = 120
"""Lines before an error that may belong to its traceback: 0.33's longest through compilation is about a hundred."""
_AFTER = 60
BELOW = 2
"""Lines below an error in which its message may go on."""
CHAIN = 3
"""Lines from an error to the sentence that makes it the reason of the next one: an empty line is between them."""
MAX_UNWELL = 3
"""Lines that are shown of a log that fails without a known reason."""


@dataclass(frozen=True)
class Stop:
    """SIGTERM that arrives while vLLM starts."""

    line: LogLine
    seconds: float
    """Since the first line of the start; 0 if the lines have no times."""


@dataclass(frozen=True)
class LogReading:
    """The findings of one log."""

    sightings: tuple[Sighting, ...]
    """Causes of a failure in their order, then of rejected requests, then symptoms: each with `MAX_EVIDENCE` lines."""
    unexplained: LogLine | None
    """The first error, where no cause is known for it."""
    serves: bool = False
    """The last start came up, and nothing after that speaks against health."""
    unwell: tuple[LogLine, ...] = ()
    """Lines after which nothing says that vLLM is well: a traceback, a process that ended."""
    engine_died: bool = False
    """The log says EngineDeadError."""
    stop: Stop | None = None
    """A signal that ended the last start before it came up."""


def read(lines: Sequence[LogLine]) -> LogReading:
    """The findings of a log: of several containers in it, those of all, by rank and line. It serves if each of them
    does."""
    streams: dict[str, list[LogLine]] = {}
    for line in lines:
        streams.setdefault(line.stream, []).append(line)
    traits = per_shape(traits_of)
    readings = [_Reader(own, traits).read() for own in streams.values()]
    if len(readings) == 1:
        return readings[0]
    sightings = sorted(
        (sighting for reading in readings for sighting in reading.sightings),
        key=lambda sighting: (_rank(sighting), sighting.line or 0),
    )
    return LogReading(
        tuple(sightings),
        None if sightings else next((reading.unexplained for reading in readings if reading.unexplained), None),
        bool(readings) and all(reading.serves for reading in readings),
        tuple(line for reading in readings for line in reading.unwell)[:MAX_UNWELL],
        any(reading.engine_died for reading in readings),
        next((reading.stop for reading in readings if reading.stop), None),
    )


def _rank(sighting: Sighting) -> int:
    """The order of sightings: what ended the process, rejected requests, symptoms."""
    return 2 if sighting.weak else 1 if sighting.signature.running else 0


@dataclass(slots=True)
class _Process:
    """The lines of one process, as far as they were read."""

    last: int = -1
    """The last line, as an index of all lines."""
    count: int = 0
    begin: int = 0
    """The first of its lines (by count) that belongs to the traceback of the next one."""
    frame: int = -1
    """The last frame of a traceback, by count."""
    frames: tuple[str, ...] = ()
    """The conditions on innermost frames that it fulfills."""
    chained: array[int] = field(default_factory=lambda: array("l"))
    """The lines (by count) after which another error has the one above as its reason."""
    around: dict[str, array[int]] = field(default_factory=dict)
    """Condition of a signature → the numbers of the lines that fulfill it."""


class _Hit(NamedTuple):
    """A line that fits a signature."""

    at: int
    """The index of the line."""
    signature: Compiled
    weak: bool
    """It is only a symptom here."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A line that may be a sighting or an unknown error."""

    index: int
    process: _Process
    first: int
    """The first line of its traceback, by count of its process."""
    count: int
    frames: tuple[str, ...]
    """The conditions on innermost frames that the last frame above it fulfills."""
    traits: Traits


class _Reader:
    """One container's log, with what its lines say of the state of the process."""

    def __init__(self, lines: Sequence[LogLine], traits: Callable[[LogLine], Traits]) -> None:
        self.lines = lines
        self.marks: dict[str, array[int]] = {name: array("l") for name in MARKS}
        self.before = array("l")
        """Line → the number of the line before it of the same process."""
        self.candidates: list[_Candidate] = []
        processes: dict[str, _Process] = {}
        for index, line in enumerate(lines):
            process = processes.get(line.source)
            if process is None:
                process = processes[line.source] = _Process()
            self._take(index, line, process, traits(line))
        alive = self.marks["alive"]
        self.alive = [at for at in alive if lines[at].level in (None, "info")]
        self.up = [at for at in alive if "200" not in lines[at].text]
        self.dead = [
            at
            for at in self.marks["dead"]
            if lines[at].level not in ("debug", "info", "warning") or "hutting down" in lines[at].text
        ]
        self.loaded = [at for at in self.marks["loaded"] if lines[at].level == "info"]

    def _take(self, index: int, line: LogLine, process: _Process, traits: Traits) -> None:
        """Record a line: its marks, the conditions that it fulfills, and as a candidate if it may be an error. A
        traceback begins after the last informational line of its process, or at its heading."""
        count = process.count
        for name, pattern in traits.marks:
            if not pattern.checked or pattern.search(line.text):
                self.marks[name].append(index)
        for name, pattern in traits.around:
            if not pattern.checked or pattern.search(line.text):
                process.around.setdefault(name, array("l")).append(count)
        if traits.signatures or traits.is_error:
            first = max(process.begin, count - CONTEXT)
            frames = process.frames if process.frame >= first else ()
            self.candidates.append(_Candidate(index, process, first, count, frames, traits))
        if traits.frames is not None:
            process.frame, process.frames = count, traits.frames
        if traits.is_chain:
            process.chained.append(count)
        if line.level in ("info", "debug"):
            process.begin = count + 1
        elif traits.is_heading:
            process.begin = count
        self.before.append(process.last)
        process.last = index
        process.count = count + 1

    def read(self) -> LogReading:
        """Read all lines and return the findings of the log."""
        lines, stopped = self.lines, self._stopped()
        hits: list[_Hit] = []
        error: LogLine | None = None
        chained = False
        for candidate in self.candidates:
            index, line = candidate.index, lines[candidate.index]
            match = self._signature(candidate, line)
            if match is None:
                if (
                    (error is None or chained)
                    and index <= stopped
                    and not self._alive_after(index)
                    and candidate.traits.is_error
                    and line.level in (None, "error")
                ):
                    error = error or line
                    chained = _is_chained(candidate)
                continue
            signature, weak = match
            if weak and (index > stopped or (error is not None and not chained)):
                continue  # the output of a process that is ending, a consequence of an unknown error
            if not self._is_survived(signature, index):
                hits.append(_Hit(index, signature, weak))
        started = self.marks["banner"][-1] if self.marks["banner"] else -1
        is_up = any(at > started for at in self.alive[-1:])
        if started > 0 and is_up and not any(hit.at > started for hit in hits):
            hits = []  # the last start of several succeeded
        elif any(hit.at > started and not hit.weak for hit in hits):
            hits = [hit for hit in hits if hit.at > started]  # the last start of several failed
        sightings = sorted(self._sightings(hits), key=_rank)
        sightings = [sighting for sighting in sightings if not sighting.signature.vague] or sightings
        if (stalled := stall.find(lines, self.marks["statistics"])) is not None:
            sightings = [*(sighting for sighting in sightings if not sighting.weak), stalled]
        unwell = self._unwell()
        serves = is_up and not sightings and not unwell and stopped == len(lines)
        died = any("EngineDeadError" in lines[at].text for at in self.dead)
        return LogReading(tuple(sightings), None if sightings else error, serves, unwell, died, self._stop(started))

    def _alive_after(self, index: int) -> bool:
        return bool(self.alive) and self.alive[-1] > index

    def _unwell(self) -> tuple[LogLine, ...]:
        """The lines that speak against health and that no later line refutes."""
        last = max((*self.alive[-1:], *self.marks["banner"][-1:]), default=-1)
        against = (self.marks["follows"], self.marks["unwell"], self.dead)
        unwell: dict[int, LogLine] = {}
        for at in merge(*(marks[bisect_right(marks, last) :] for marks in against)):
            if self.lines[at].level not in ("debug", "info", "warning"):
                unwell[at] = self.lines[at]
            if len(unwell) == MAX_UNWELL:
                break
        return tuple(unwell.values())

    def _stopped(self) -> int:
        """Where a running vLLM got a signal to end; past the last line if it got none."""
        lines = self.lines
        for index in self.marks["told"]:
            if self.alive and index > self.alive[0] and lines[index].level in (None, "info"):
                failed = any(at < index and lines[at].level in (None, "error") for at in self.dead)
                return len(lines) if failed else index
        return len(lines)

    def _stop(self, started: int) -> Stop | None:
        """The signal that ended the start which begins at a line, before it came up; None without one. Its seconds are
        0 if the log has no times."""
        at = next((at for at in self.marks["told"] if at > started), None)
        if at is None or any(started < up < at for up in self.alive):
            return None
        begin = next((line for line in self.lines[max(started, 0) : at] if stall.TIME.search(line.raw)), None)
        end = next((self.lines[index] for index in range(at, max(started, at - CONTEXT, 0) - 1, -1)
                    if stall.TIME.search(self.lines[index].raw)), None)  # fmt: skip
        return Stop(self.lines[at], stall.seconds_between(begin, end) if begin and end else 0)

    def _signature(self, candidate: _Candidate, line: LogLine) -> tuple[Compiled, bool] | None:
        """The signature that a line fits, the first of the table, and whether it is a symptom here; None for what is
        not an error, or is tried again."""
        quiet = line.level in ("debug", "info", "warning")
        foreign = line.level == "warning" and not line.own
        symptom: Compiled | None = None
        for compiled, pattern in candidate.traits.signatures:
            if (quiet and not compiled.signature.any_level and not foreign) or (
                pattern.checked and not pattern.search(line.text)
            ):
                continue
            if candidate.traits.is_told and not compiled.signature.running:
                return None
            if compiled.unless and self._is_around(compiled.unless, candidate):
                continue
            if compiled.innermost and compiled.innermost.pattern not in candidate.frames:
                continue
            if compiled.within and not self._is_around(compiled.within, candidate):
                continue
            if not compiled.signature.weak and (not quiet or compiled.signature.any_level):
                return compiled, False
            symptom = symptom or compiled
        return (symptom, True) if symptom else None

    def _is_around(self, condition: re.Pattern[str], candidate: _Candidate) -> bool:
        """True if the line, a line of its traceback or one of the two below it fulfills a condition."""
        counts = candidate.process.around.get(condition.pattern, ())
        at = bisect_left(counts, candidate.first)
        if at == len(counts) or counts[at] > candidate.count + BELOW:
            return False
        return counts[at] <= candidate.count or any(
            condition.search(below.text) for below in self._below(candidate.index, BELOW)
        )

    def _above(self, index: int) -> Iterator[LogLine]:
        """The lines above, of the same process, up to the head of the traceback."""
        for _ in range(CONTEXT):
            index = self.before[index]
            if index < 0 or self.lines[index].level in ("info", "debug"):
                return
            yield self.lines[index]
            if self.lines[index].text.startswith(HEADINGS):
                return

    def _below(self, index: int, most: int) -> list[LogLine]:
        """The lines just below, of the same process, where a message goes on."""
        source = self.lines[index].source
        below = self.lines[index + 1 : index + 1 + most]
        return [line for line in below if line.source == source and line.level not in ("info", "debug")]

    def _traceback(self, index: int) -> str:
        """The line, what is above it in its traceback, and two lines below."""
        lines = (self.lines[index], *self._above(index), *self._below(index, BELOW))
        return "\n".join(line.text for line in lines)

    def _is_survived(self, hit: Compiled, index: int) -> bool:
        """vLLM went on after it."""
        if hit.signature.running:
            return False
        if self._alive_after(index):
            return not self._is_dead_near(index)
        early = hit.cause.plane in ("network", "config", "storage")
        return early and bool(self.loaded) and self.loaded[-1] > index and not self._is_dead_near(index)

    def _is_dead_near(self, index: int) -> bool:
        """A process ends near the line, and nothing between the two says that vLLM is well."""
        before, after = bisect_left(self.up, index), bisect_right(self.up, index)
        first = max(index - CONTEXT, self.up[before - 1] if before else 0)
        last = min(index + _AFTER, self.up[after] if after < len(self.up) else len(self.lines))
        return bisect_left(self.dead, first) < bisect_right(self.dead, last)

    def _sightings(self, hits: Sequence[_Hit]) -> Iterator[Sighting]:
        """The sightings of a cause up to `MAX_EVIDENCE` different lines of one rank."""
        lines: dict[tuple[str, bool, bool], set[str]] = {}
        for hit in hits:
            rank = (hit.signature.cause.id, hit.weak, hit.signature.signature.running)
            texts = lines.setdefault(rank, set())
            raw = self.lines[hit.at].raw
            if len(texts) < MAX_EVIDENCE and raw not in texts:
                texts.add(raw)
                yield self._sighting(hit)

    def _sighting(self, hit: _Hit) -> Sighting:
        """The sighting of a cause at a line, with the evidence; of a validation error also the lines below it, the
        first of which names the field."""
        line = self.lines[hit.at]
        below = self._below(hit.at, BELOW) if _VALIDATION.search(line.text) else []
        log_lines = (*below[:1], line, *below[1:])
        evidence = tuple(dict.fromkeys(text.raw.strip() for text in log_lines))
        return Sighting(
            cause=hit.signature.cause,
            signature=hit.signature.signature,
            evidence=evidence,
            line=log_lines[0].number,
            phase=self._phase(hit.at),
            weak=hit.weak,
        )

    def _phase(self, index: int) -> Phase | None:
        """The phase of vLLM at a line: the phase of its traceback, else of the last milestone that its start printed
        before it; None if it shows neither."""
        traceback_phase = phase.of_frames(self._traceback(index))
        if traceback_phase is not None:
            return traceback_phase
        begun = self.marks["banner"][bisect_right(self.marks["banner"], index) - 1] if self.marks["banner"] else -1
        for name, _ in phase.MILESTONES:
            at = bisect_left(self.marks[f"before-{name}"], index)
            if at and self.marks[f"before-{name}"][at - 1] >= begun:
                return name
        return None


def _is_chained(candidate: _Candidate) -> bool:
    """True if the next error of the traceback has this one as its reason: both are of one failure."""
    chained = candidate.process.chained
    at = bisect_right(chained, candidate.count)
    return at < len(chained) and chained[at] <= candidate.count + CHAIN
