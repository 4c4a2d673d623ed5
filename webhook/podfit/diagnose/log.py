"""A log → what killed its program: the first cause that nothing survived, not what followed from it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from podfit.diagnose import phase, stall
from podfit.diagnose.line import LogLine
from podfit.diagnose.needles import Index
from podfit.diagnose.phase import Phase
from podfit.diagnose.sighting import Compiled, Sighting, candidates

_ALIVE = (
    r"Application startup complete|\" 200 OK|\" 200$|Avg prompt throughput|Uvicorn running on|"
    r"Started server process|Starting vLLM API server (?:\d+ )?on\b"
)
"""vLLM serves: what went wrong before was dealt with."""
_DEAD = (
    r"EngineDeadError|EngineCore (?:encountered|hit)|EngineCore failed|[Ee]ngine core initialization failed|"
    r"died unexpectedly|WorkerProc (?:hit|failed)|Engine process failed to start|Worker failed with error|"
    r"WorkerProc initialization failed|Application startup failed|AsyncEngineDeadError|"
    r"Engine loop is not running|Background loop|Exception in worker|died, exit code|died with exit|"
    r"core dumped|terminate called|^\s*Killed\b|Fatal Python error|Error in engine|engine is dead|"
    r"_log_task_completion|Error executing method|sys\.exit\(main\(\)\)|Shutting down|shutting down"
)
"""A process of the engine ends, or says that another did."""
_FOLLOWS = (
    r"[Ee]ngine core initialization failed|EngineDeadError: |[Ee]ngine process failed to start|died unexpectedly|"
    r"WorkerProc initialization failed"
)
"""What says that something failed, and not what."""
_TOLD = (
    r"received signal=SIG|shutdown triggered|^INFO: +Shutting down|Shutting down FastAPI|Gracefully stopping|"
    r"KeyboardInterrupt: terminated"
)
"""SIGTERM arrived."""
_MARKS: Mapping[str, re.Pattern[str]] = {
    "alive": re.compile(_ALIVE),
    "dead": re.compile(_DEAD),
    "loaded": re.compile(r"Loading (?:model )?weights took|Model loading took|GPU KV cache size|# GPU blocks: [1-9]"),
    "banner": re.compile(r"vLLM API server version|vLLM server version"),
    "follows": re.compile(_FOLLOWS),
    "told": re.compile(_TOLD),
    "statistics": re.compile(stall.STATISTICS),
    "unwell": re.compile(r"Traceback \(most recent call last\)|[Bb]ack-off|exited with code [1-9]|failed to start"),
    **{f"before-{name}": re.compile(pattern) for name, pattern in phase.MILESTONES},
}
"""What lines say of the state of the process."""
_INDEX = Index([pattern.pattern for pattern in _MARKS.values()])
_AGAIN = re.compile(r"\b[Rr]etrying\b|\b[Rr]etry \d|will retry|thrown while requesting|attempt \d+ (?:of|/)", re.ASCII)
_QUOTED = re.compile(
    r"Received request|[\"']?\b(?:prompt|messages|content|role|query|question|"
    r"completion)\b[\"']?\s*[:=]\s*[\"'\[{]|Added request|\buser(?: (?:said|asked|message))?:|"
    r"\bGET /|\bPOST /|Output: |output_text"
)
"""What a user of the model wrote, or the model answered: no word of ours."""
_FRAME = re.compile(r"^\s*(?:File \"|raise \w|return |self\.|\^+|~+|[\w.]+ ?= ?\w+\(|#|//|logger\.|msg = |f?\"|')")
"""A line of source in a traceback: its text is not what happened."""
_PLAIN_ERROR = re.compile(r"^\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Timeout)\b(?:: |$)|\bError: ")
_CASCADE = re.compile(
    _DEAD + r"|stack trace|root cause|leaked shared_memory|"
    r"destroy_process_group|CancelledError|SystemExit|RayActorError|ActorDiedError"
)
_VALIDATION = re.compile(r"\d+ validation errors? for ")
"""The head of a pydantic error: the lines below it say what is wrong."""
CONTEXT = 120
"""Lines before an error that may belong to its traceback: 0.33's longest through compilation is about a hundred."""
_AFTER = 60
MAX_UNWELL = 3
"""Lines that are shown of a log that fails without a known reason."""


@dataclass(frozen=True)
class LogReading:
    """What a log says."""

    sightings: tuple[Sighting, ...]
    """Causes of a failure in their order, then of rejected requests, then symptoms."""
    unexplained: LogLine | None
    """The first error, where no cause is known for it."""
    serves: bool = False
    """The last start came up, and nothing after that speaks against health."""
    unwell: tuple[LogLine, ...] = ()
    """Lines after which nothing says that vLLM is well: a traceback, a process that ended."""


def read(lines: Sequence[LogLine]) -> LogReading:
    """Looks for what the log's program died of; of several containers, for the first that fails."""
    streams: dict[str, list[LogLine]] = {}
    for line in lines:
        streams.setdefault(line.stream, []).append(line)
    readings = [_Reader(own).read() for own in streams.values()]
    if len(readings) == 1:
        return readings[0]
    sightings = sorted(
        (one for reading in readings for one in reading.sightings), key=lambda one: (_rank(one), one.line or 0)
    )
    return LogReading(
        tuple(sightings),
        None if sightings else next((one.unexplained for one in readings if one.unexplained), None),
        bool(readings) and all(one.serves for one in readings),
        tuple(line for one in readings for line in one.unwell)[:MAX_UNWELL],
    )


def _rank(one: Sighting) -> int:
    """The order of sightings: what ended the process, rejected requests, symptoms."""
    return 2 if one.weak else 1 if one.signature.running else 0


class _Reader:
    """One container's log, with what its lines say of the state of the process."""

    def __init__(self, lines: Sequence[LogLine]) -> None:
        self.lines = lines
        self.marks: dict[str, list[int]] = {name: [] for name in _MARKS}
        names, patterns = tuple(_MARKS), tuple(_MARKS.values())
        self.before = [-1] * len(lines)
        """Of each line, the line before it of the same process."""
        last: dict[str, int] = {}
        for index, line in enumerate(lines):
            self.before[index] = last.get(line.source, -1)
            last[line.source] = index
            for place in _INDEX.candidates(line.text):
                if patterns[place].search(line.text):
                    self.marks[names[place]].append(index)
        alive = self.marks["alive"]
        self.alive = [at for at in alive if lines[at].level in (None, "info")]
        self.up = [at for at in alive if "200" not in lines[at].text]
        self.dead = [
            at
            for at in self.marks["dead"]
            if lines[at].level not in ("debug", "info", "warning") or "hutting down" in lines[at].text
        ]
        self.loaded = [at for at in self.marks["loaded"] if lines[at].level == "info"]

    def read(self) -> LogReading:
        """What the log says."""
        lines, stopped = self.lines, self._stopped()
        found: list[tuple[int, Compiled, bool]] = []
        error: LogLine | None = None
        for index, line in enumerate(lines):
            hit = self._signature(index)
            if hit is None:
                if error is None and index <= stopped and not self._alive_after(index) and _is_unexplained(line):
                    error = line
                continue
            signature, weak = hit
            if weak and (index > stopped or error is not None):
                continue  # the output of a process that is ending, a consequence of an unknown error
            if not self._is_survived(signature, index):
                found.append((index, signature, weak))
        started = self.marks["banner"][-1] if self.marks["banner"] else -1
        is_up = any(at > started for at in self.alive[-1:])
        if started > 0 and is_up and not any(index > started for index, *_ in found):
            found = []  # the last start of several succeeded
        elif any(index > started and not weak for index, _, weak in found):
            found = [one for one in found if one[0] > started]  # the last start of several failed
        sightings = sorted((self._sighting(*one) for one in found), key=_rank)
        if (stalled := stall.find(lines, self.marks["statistics"])) is not None:
            sightings = [*(one for one in sightings if not one.weak), stalled]
        unwell = self._unwell()
        serves = is_up and not sightings and not unwell and stopped == len(lines)
        return LogReading(tuple(sightings), None if sightings else error, serves, unwell)

    def _alive_after(self, index: int) -> bool:
        return bool(self.alive) and self.alive[-1] > index

    def _unwell(self) -> tuple[LogLine, ...]:
        """The lines that speak against health and that no later line refutes."""
        last = max((*self.alive[-1:], *self.marks["banner"][-1:]), default=-1)
        lines = sorted({*self.marks["follows"], *self.marks["unwell"], *self.dead})
        quiet = ("debug", "info", "warning")
        mine = [self.lines[at] for at in lines if at > last and self.lines[at].level not in quiet]
        return tuple(mine[:MAX_UNWELL])

    def _stopped(self) -> int:
        """Where a running vLLM got a signal to end; past the last line if it got none."""
        lines = self.lines
        for index in self.marks["told"]:
            if self.alive and index > self.alive[0] and lines[index].level in (None, "info"):
                failed = any(at < index and lines[at].level in (None, "error") for at in self.dead)
                return len(lines) if failed else index
        return len(lines)

    def _signature(self, index: int) -> tuple[Compiled, bool] | None:
        """The signature that a line fits, the first of the table, and whether it is a symptom here; None for what is
        not an error, or is tried again."""
        line = self.lines[index]
        quiet = line.level in ("debug", "info", "warning")
        foreign = line.level == "warning" and not line.own
        around: str | None = None
        symptom: Compiled | None = None
        checked = False
        for one in candidates("log", line.text):
            if quiet and not one.signature.any_level and not foreign:
                continue
            if not checked and not one.signature.running:
                if _FRAME.match(line.text) or _AGAIN.search(line.text) or _QUOTED.search(line.text):
                    return None
                checked = True
            if one.within or one.unless:
                around = self._traceback(index) if around is None else around
                if (one.unless and one.unless.search(around)) or (one.within and not one.within.search(around)):
                    continue
            if not one.signature.weak and (not quiet or one.signature.any_level):
                return one, False
            symptom = symptom or one
        return (symptom, True) if symptom else None

    def _above(self, index: int) -> Iterator[LogLine]:
        """The lines above, of the same process, up to the head of the traceback."""
        for _ in range(CONTEXT):
            index = self.before[index]
            if index < 0 or self.lines[index].level in ("info", "debug"):
                return
            yield self.lines[index]
            if self.lines[index].text.startswith(("Traceback (most recent", "Process ")):
                return

    def _below(self, index: int, most: int) -> list[LogLine]:
        """The lines just below, of the same process, where a message goes on."""
        source = self.lines[index].source
        below = self.lines[index + 1 : index + 1 + most]
        return [line for line in below if line.source == source and line.level not in ("info", "debug")]

    def _traceback(self, index: int) -> str:
        """The line, what is above it in its traceback, and two lines below."""
        lines = (self.lines[index], *self._above(index), *self._below(index, 2))
        return "\n".join(line.text for line in lines)

    def _is_survived(self, hit: Compiled, index: int) -> bool:
        """vLLM went on after it."""
        if hit.signature.running:
            return False
        first = bisect_left(self.dead, index - CONTEXT)
        near = any(self._same_block(at, index) for at in self.dead[first : bisect_right(self.dead, index + _AFTER)])
        if self._alive_after(index):
            return not near
        early = hit.cause.plane in ("network", "config", "storage")
        return early and not near and bool(self.loaded) and self.loaded[-1] > index

    def _same_block(self, at: int, index: int) -> bool:
        """Nothing between the two says that vLLM is well."""
        first, last = sorted((at, index))
        return bisect_right(self.up, first) >= bisect_left(self.up, last)

    def _sighting(self, index: int, one: Compiled, weak: bool) -> Sighting:
        line = self.lines[index]
        below = self._below(index, 2) if _VALIDATION.search(line.text) else []
        shown = (*below[:1], line, *below[1:])
        evidence = tuple(dict.fromkeys(text.raw.strip() for text in shown))
        return Sighting(one.cause, one.signature, evidence, shown[0].number, phase=self._phase(index), weak=weak)

    def _phase(self, index: int) -> Phase | None:
        """What vLLM was doing at a line: what its traceback shows, else what it printed last before it."""
        if (shown := phase.of_frames(self._traceback(index))) is not None:
            return shown
        begun = self.marks["banner"][bisect_right(self.marks["banner"], index) - 1] if self.marks["banner"] else -1
        for name, _ in phase.MILESTONES:
            at = bisect_left(self.marks[f"before-{name}"], index)
            if at and self.marks[f"before-{name}"][at - 1] >= begun:
                return name
        return None


def _is_unexplained(line: LogLine) -> bool:
    """Whether the line is an error that no signature knows."""
    if line.level not in (None, "error") or not _PLAIN_ERROR.match(line.text):
        return False
    return not (_AGAIN.search(line.text) or _QUOTED.search(line.text) or _CASCADE.search(line.text))
