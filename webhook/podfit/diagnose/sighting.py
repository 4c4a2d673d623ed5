"""A text of a cause, seen at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from podfit.diagnose.cause import Cause, Channel, Signature
from podfit.diagnose.causes import CAUSES
from podfit.diagnose.needles import Index
from podfit.diagnose.phase import Phase

MAX_EVIDENCE = 5
"""Lines that are shown of a cause."""


@dataclass(frozen=True)
class Sighting:
    """One signature, found."""

    cause: Cause
    signature: Signature
    evidence: tuple[str, ...]
    line: int | None
    """In the file, from 1; None where it is a field of an object."""
    at: float = 0.0
    """For events: when it was first seen; only the order counts."""
    phase: Phase | None = None
    """The phase of vLLM at a failure in a log; None if the log does not show it."""
    weak: bool = False
    """Only a symptom: it counts if nothing else explains the failure."""


@dataclass(frozen=True)
class Compiled:
    """A signature with its patterns compiled."""

    cause: Cause
    signature: Signature
    pattern: re.Pattern[str]
    within: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    innermost: re.Pattern[str] | None


@cache
def signatures(channel: Channel) -> tuple[Compiled, ...]:
    """The signatures of one channel, in the order of the table: if several match one line, the first is meant."""
    return tuple(
        Compiled(
            cause,
            signature,
            re.compile(signature.pattern),
            _compiled(signature.within),
            _compiled(signature.unless),
            _compiled(signature.innermost),
        )
        for cause in CAUSES.values()
        for signature in cause.signatures
        if signature.channel == channel
    )


@cache
def _index(channel: Channel) -> Index:
    return Index([signature.signature.pattern for signature in signatures(channel)])


def _compiled(pattern: str) -> re.Pattern[str] | None:
    return re.compile(pattern) if pattern else None


def candidates(channel: Channel, text: str) -> Iterator[Compiled]:
    """The signatures whose pattern `text` fits, in the order of the table."""
    table = signatures(channel)
    return (table[place] for place in _index(channel).candidates(text) if table[place].pattern.search(text))


def matching_signatures(channel: Channel, text: str) -> Iterator[Compiled]:
    """The signatures that `text` alone fits."""
    return (
        candidate for candidate in candidates(channel, text) if not (candidate.unless and candidate.unless.search(text))
    )
