"""Traits of one log line by its text: the texts of causes in it, and the state of the process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from podfit.diagnose import phase, stall
from podfit.diagnose.line import LogLine, depends_on_digits
from podfit.diagnose.needles import Index, is_anchored
from podfit.diagnose.sighting import Compiled, signatures

_ALIVE = (
    r"Application startup complete|HTTP/\d(?:\.\d)?\" 200\b|Avg prompt throughput|Uvicorn running on|"
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
"""Texts that report a failure without its cause."""
_REPORTED = (
    r"received signal=SIG|shutdown triggered|^INFO: +Shutting down|Shutting down FastAPI|Gracefully stopping|"
    r"KeyboardInterrupt: terminated"
)
"""SIGTERM arrived."""
MARKS: Mapping[str, re.Pattern[str]] = {
    "alive": re.compile(_ALIVE),
    "dead": re.compile(_DEAD),
    "loaded": re.compile(r"Loading (?:model )?weights took|Model loading took|GPU KV cache size|# GPU blocks: [1-9]"),
    "banner": re.compile(r"vLLM API server version|vLLM server version"),
    "follows": re.compile(_FOLLOWS),
    "told": re.compile(_REPORTED),
    "statistics": re.compile(stall.STATISTICS),
    "unwell": re.compile(r"Traceback \(most recent call last\)|[Bb]ack-off|exited with code [1-9]|failed to start"),
    **{f"before-{name}": re.compile(pattern) for name, pattern in phase.MILESTONES},
}
"""State of the process → the lines that show it."""
_AGAIN = re.compile(r"\b[Rr]etrying\b|\b[Rr]etry \d|will retry|thrown while requesting|attempt \d+ (?:of|/)", re.ASCII)
_QUOTED = re.compile(
    r"Received request|[\"']?\b(?:prompt|messages|content|role|query|question|"
    r"completion)\b[\"']?\s*[:=]\s*[\"'\[{]|Added request|\buser(?: (?:said|asked|message))?:|"
    r"\bGET /|\bPOST /|Output: |output_text"
)
"""Texts that a user of the model wrote, or that the model answered: no evidence."""
_FRAME = re.compile(r"^\s*(?:File \"|raise \w|return |self\.|\^+|~+|[\w.]+ ?= ?\w+\(|#|//|logger\.|msg = |f?\"|')")
"""A line of source in a traceback: its text is not what happened."""
_CHAIN = ("The above exception was the direct cause", "During handling of the above exception")
HEADINGS = ("Traceback (most recent", "Process ")
_PLAIN_ERROR = re.compile(r"^\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Timeout)\b(?:: |$)|\bError: ")
_CASCADE = re.compile(
    _DEAD + r"|stack trace|root cause|leaked shared_memory|"
    r"destroy_process_group|CancelledError|SystemExit|RayActorError|ActorDiedError"
)


class Pattern:
    """A regular expression, and whether the shape of a line decides if it matches."""

    __slots__ = ("checked", "regex", "search")

    def __init__(self, regex: re.Pattern[str]) -> None:
        self.regex = regex
        self.search = regex.match if is_anchored(regex.pattern) else regex.search
        self.checked = depends_on_digits(regex.pattern)
        """It must be checked for every line, not only for one of each shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Traits:
    """The traits of all lines of one shape. The patterns match unless they are `checked`."""

    marks: tuple[tuple[str, Pattern], ...]
    around: tuple[tuple[str, Pattern], ...]
    """Conditions of other lines (`Signature.within`, `unless`) that this line may fulfill."""
    signatures: tuple[tuple[Compiled, Pattern], ...]
    frames: tuple[str, ...] | None
    """The conditions on innermost frames (`Signature.innermost`) that a traceback's frame fulfills; None for other
    lines."""
    is_chain: bool
    """Another error of the traceback follows, with the one above as its reason."""
    is_heading: bool
    """A traceback begins."""
    is_told: bool
    """A line of source, a retry, or a text of users: no error happened here."""
    is_error: bool
    """An error, unless a signature knows it."""


@cache
def _patterns() -> tuple[Index, list[tuple[str, object, Pattern]]]:
    """All patterns that lines are searched for: their index, and of each its kind, its object and itself."""
    table = signatures("log")
    around = {
        pattern.pattern: pattern for signature in table for pattern in (signature.within, signature.unless) if pattern
    }
    frames = {signature.innermost.pattern: signature.innermost for signature in table if signature.innermost}
    rows: list[tuple[str, object, Pattern]] = [
        *(("mark", name, Pattern(pattern)) for name, pattern in MARKS.items()),
        *(("around", text, Pattern(pattern)) for text, pattern in around.items()),
        *(("frame", text, Pattern(pattern)) for text, pattern in frames.items()),
        *(("signature", signature, Pattern(signature.pattern)) for signature in table),
        *(("told", None, Pattern(pattern)) for pattern in (_AGAIN, _QUOTED)),
        ("follows", None, Pattern(_CASCADE)),
    ]
    return Index([pattern.regex.pattern for *_, pattern in rows]), rows


def traits_of(line: LogLine) -> Traits:
    """The traits of the shape of a line."""
    text = line.text
    index, rows = _patterns()
    matches: dict[str, list[tuple[Any, Pattern]]] = {}
    for place in index.candidates(text):
        kind, of, pattern = rows[place]
        if pattern.checked or pattern.search(text):
            matches.setdefault(kind, []).append((of, pattern))
    is_told = "told" in matches
    return Traits(
        tuple(matches.get("mark", ())),
        tuple(matches.get("around", ())),
        tuple(matches.get("signature", ())),
        tuple(text for text, _ in matches.get("frame", ())) if text.lstrip().startswith('File "') else None,
        text.startswith(_CHAIN),
        text.startswith(HEADINGS),
        is_told or _FRAME.match(text) is not None,
        not is_told and "follows" not in matches and _PLAIN_ERROR.match(text) is not None,
    )
