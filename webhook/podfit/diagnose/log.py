"""A log → what killed its program: the first cause that nothing survived, not what followed from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from podfit.diagnose.line import LogLine
from podfit.diagnose.sighting import Compiled, Sighting, quiet_signatures, signatures

_ALIVE = re.compile(
    r"Application startup complete|\" 200 OK|\" 200$|Avg prompt throughput|Uvicorn running on|"
    r"Started server process|Starting vLLM API server (?:\d+ )?on\b"
)
"""vLLM serves: what went wrong before was dealt with."""
_DEAD = re.compile(
    r"EngineDeadError|EngineCore (?:encountered|hit)|EngineCore failed|[Ee]ngine core initialization failed|"
    r"died unexpectedly|WorkerProc (?:hit|failed)|Engine process failed to start|Worker failed with error|"
    r"WorkerProc initialization failed|Application startup failed|AsyncEngineDeadError|"
    r"Engine loop is not running|Background loop|Exception in worker|died, exit code|died with exit|"
    r"core dumped|terminate called|^\s*Killed\b|Fatal Python error|Error in engine|engine is dead|"
    r"_log_task_completion|Error executing method|sys\.exit\(main\(\)\)|Shutting down|shutting down"
)
"""A process of the engine ends, or says that another did."""
_BANNER = re.compile(r"vLLM API server version|vLLM server version")
_LOADED = re.compile(r"Loading (?:model )?weights took|Model loading took|GPU KV cache size|# GPU blocks: [1-9]")
_AGAIN = re.compile(r"\b[Rr]etrying\b|\b[Rr]etry \d|will retry|thrown while requesting|attempt \d+ (?:of|/)", re.ASCII)
_QUOTED = re.compile(
    r"Received request|[\"']?\b(?:prompt|messages|content|role|query|question|"
    r"completion)\b[\"']?\s*[:=]\s*[\"'\[{]|Added request|\buser(?: (?:said|asked|message))?:|"
    r"\bGET /|\bPOST /|Output: |output_text"
)
"""What a user of the model wrote, or the model answered: no word of ours."""
_FRAME = re.compile(r"^\s*(?:File \"|raise \w|return |self\.|\^+|~+|[\w.]+ ?= ?\w+\(|#|//|logger\.|msg = |f?\"|')")
"""A line of source in a traceback: its text is not what happened."""
_PLAIN_ERROR = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Timeout)\b(?:: |$)|\bError: ")
_CASCADE = re.compile(
    _DEAD.pattern + r"|stack trace|root cause|leaked shared_memory|"
    r"destroy_process_group|CancelledError|SystemExit|RayActorError|ActorDiedError"
)
_FOLLOWS = re.compile(
    r"[Ee]ngine core initialization failed|EngineDeadError: |[Ee]ngine process failed to start|died unexpectedly"
)
"""What says that something failed, and not what: shown where nothing else is left of the log."""
_TOLD = re.compile(
    r"received signal=SIG|shutdown triggered|^INFO: +Shutting down|Shutting down FastAPI|Gracefully stopping"
)
"""SIGTERM arrived."""
_WORDS = re.compile(r"oom|OOM|[Mm]emory|nodes are|[Pp]ull|Multi-Attach|probe, will|space|storage")
"""Every text that counts at any level has one of these: most lines of a long log are healthy."""
CONTEXT = 120
"""Lines before an error that may belong to its traceback: 0.33's longest through compilation is about a hundred."""
_AFTER = 60


@dataclass(frozen=True)
class LogReading:
    """What a log says."""

    sightings: tuple[Sighting, ...]
    """Strong ones in their order, then the weak."""
    unexplained: LogLine | None
    """The first error, where no cause is known for it."""


def read(lines: Sequence[LogLine]) -> LogReading:
    """Looks for what the log's program died of."""
    alive = [index for index, line in enumerate(lines) if _ALIVE.search(line.text) and line.level in (None, "info")]
    dead = [index for index, line in enumerate(lines) if _ends_the_process(line)]
    loaded = [index for index, line in enumerate(lines) if line.level == "info" and _LOADED.search(line.text)]
    stopped = _stopped(lines, alive, dead)
    found: list[tuple[int, Compiled]] = []
    error: LogLine | None = None
    cascade: LogLine | None = None
    for index, line in enumerate(lines):
        hit = _signature_of_line(lines, index)
        if index > stopped and (hit is None or hit.signature.weak):
            continue  # the output of a process that is ending
        if hit is not None and hit.signature.weak and error is not None:
            continue  # a consequence of an unknown error
        if hit is not None:
            if not _is_survived(hit, index, lines, alive, dead, loaded):
                found.append((index, hit))
        elif error is None and _is_unexplained_error(line) and not any(at > index for at in alive):
            error = line
        elif cascade is None and line.level in (None, "error") and _FOLLOWS.search(line.text):
            cascade = line if not any(at > index for at in alive) else None
    started = max((index for index, line in enumerate(lines) if _BANNER.search(line.text)), default=-1)
    now_alive = any(at > started for at in alive)
    if started > 0 and now_alive and not any(index > started for index, _ in found):
        found = []  # the last start of several succeeded
    elif any(index > started and not one.signature.weak for index, one in found):
        found = [(index, one) for index, one in found if index > started]  # the last start of several failed
    sightings = [_sighting(lines, index, one) for index, one in found]
    strong = [one for one in sightings if not one.signature.weak]
    weak = [one for one in sightings if one.signature.weak]
    return LogReading((*strong, *weak), None if found else error or cascade)


def _stopped(lines: Sequence[LogLine], alive: Sequence[int], dead: Sequence[int]) -> int:
    """Where a running vLLM got a signal to end; past the last line if it got none."""
    for index, line in enumerate(lines):
        if alive and index > alive[0] and line.level in (None, "info") and _TOLD.search(line.text):
            failed = any(at < index and lines[at].level in (None, "error") for at in dead)
            return len(lines) if failed else index
    return len(lines)


def _ends_the_process(line: LogLine) -> bool:
    """Whether the line says that the process ends."""
    if line.level in ("debug", "info", "warning") and "hutting down" not in line.text:
        return False
    return _DEAD.search(line.text) is not None


def _signature_of_line(lines: Sequence[LogLine], index: int) -> Compiled | None:
    """The signature that a line fits, the first of the table; None for what is not an error, or is tried again."""
    line = lines[index]
    quiet = line.level in ("debug", "info", "warning")
    if not quiet and _FRAME.match(line.text):
        return None
    around: str | None = None
    symptom: Compiled | None = None
    if quiet and not _WORDS.search(line.text):
        return None
    for one in quiet_signatures() if quiet else signatures("log"):
        if not one.pattern.search(line.text):
            continue
        if _AGAIN.search(line.text) or _QUOTED.search(line.text) or _FRAME.match(line.text):
            return None
        if one.within or one.unless:
            around = _traceback(lines, index) if around is None else around
            if (one.unless and one.unless.search(around)) or (one.within and not one.within.search(around)):
                continue
        if not one.signature.weak:
            return one
        symptom = symptom or one
    return symptom


def _traceback(lines: Sequence[LogLine], index: int) -> str:
    """The line and what is above it of the same process, up to the head of its traceback; two lines below, where a
    message goes on."""
    source = lines[index].source
    text = [lines[index].text]
    for at in range(index - 1, max(-1, index - CONTEXT), -1):
        line = lines[at]
        if line.source != source:
            continue
        if line.level in ("info", "debug"):
            break
        text.append(line.text)
        if line.text.startswith(("Traceback (most recent", "Process ")):
            break
    text += [
        line.text
        for line in lines[index + 1 : index + 3]
        if line.source == source and line.level not in ("info", "debug")
    ]
    return "\n".join(text)


def _is_survived(
    hit: Compiled,
    index: int,
    lines: Sequence[LogLine],
    alive: Sequence[int],
    dead: Sequence[int],
    loaded: Sequence[int],
) -> bool:
    """vLLM went on after it."""
    near = any(index - CONTEXT <= at <= index + _AFTER and _same_block(lines, at, index) for at in dead)
    if any(at > index for at in alive):
        return not near
    early = hit.cause.plane in ("network", "config", "storage")
    return early and not near and any(at > index for at in loaded)


def _same_block(lines: Sequence[LogLine], at: int, index: int) -> bool:
    """Nothing between the two says that vLLM is well."""
    first, last = sorted((at, index))
    return not any(_ALIVE.search(line.text) and "200" not in line.text for line in lines[first + 1 : last])


def _is_unexplained_error(line: LogLine) -> bool:
    """Whether the line is an error that no signature knows."""
    if _AGAIN.search(line.text) or _QUOTED.search(line.text):
        return False
    if _PLAIN_ERROR.match(line.text):
        return line.level in (None, "error") and not _CASCADE.search(line.text)
    return False


def _sighting(lines: Sequence[LogLine], index: int, one: Compiled) -> Sighting:
    return Sighting(one.cause, one.signature, (lines[index].raw.strip(),), lines[index].number)
