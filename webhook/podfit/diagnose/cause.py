"""The definition of a cause of failure, with the texts by which it is recognized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from podfit.rules.rule import Plane

Channel = Literal["log", "event", "status", "statistics", "shutdown"]
"""Where a text is: a line of a log, `Reason: message` of an Event, or what the kubelet says of a container. The last
two are vLLM's statistics of a whole minute, and the line of a signal at the end of a probe's window."""


@dataclass(frozen=True)
class Signature:
    """One text that a cause prints. All patterns are regular expressions that are searched, not matched."""

    pattern: str
    source: str
    """The program that prints it: a file of a release, or an issue that quotes it."""
    releases: str = ""
    """The releases of vLLM whose source has it; empty if another program prints it."""
    channel: Channel = "log"
    weak: bool = False
    """A symptom: it counts only where nothing else explains the failure."""
    within: str = ""
    """A pattern that must match the traceback (or the lines just before), too."""
    innermost: str = ""
    """A pattern that must match the last frame of the traceback: the file that raised the error."""
    unless: str = ""
    """A pattern that must match neither the line nor its traceback."""
    any_level: bool = False
    """Also where the line is logged as information or a warning."""
    ambiguous: bool = False
    """Other causes print this text too: the cause is likely, not certain."""
    vague: bool = False
    """Shows that something failed, not what: any other sighting of the log explains it."""
    running: bool = False
    """Printed by a server that runs, for a request that it rejects: requests that succeed later do not refute it."""
    rules: tuple[str, ...] = ()
    """The rules that catch this text's case, where they are not the cause's."""
    plane: Plane | None = None
    """Where it is not the cause's."""


@dataclass(frozen=True)
class Cause:
    """Why vLLM did not start or did not stay up."""

    id: str
    title: str
    """One line, no full stop: "The GPU has not enough memory"."""
    remedy: str
    """The remedy, for people."""
    signatures: tuple[Signature, ...]
    rules: tuple[str, ...] = ()
    """The rules that find it in the manifest, the likeliest first."""
    meanings: tuple[tuple[str, str], ...] = ()
    """(regular expression, sentence): the meaning of a word of the evidence beyond the remedy, and its fix."""
    plane: Plane | None = None
    """The plane, where it is not its file's (`causes`)."""
