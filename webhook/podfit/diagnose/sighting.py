"""A text of a cause, seen at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from podfit.diagnose.cause import Cause, Channel, Signature
from podfit.diagnose.causes import CAUSES


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


@dataclass(frozen=True)
class Compiled:
    """A signature with its patterns compiled."""

    cause: Cause
    signature: Signature
    pattern: re.Pattern[str]
    within: re.Pattern[str] | None
    unless: re.Pattern[str] | None


@cache
def signatures(channel: Channel) -> tuple[Compiled, ...]:
    """The signatures of one channel, in the order of the table: if several match one line, the first is meant."""
    return tuple(
        Compiled(cause, one, re.compile(one.pattern), _compiled(one.within), _compiled(one.unless))
        for cause in CAUSES.values()
        for one in cause.signatures
        if one.channel == channel
    )


@cache
def quiet_signatures() -> tuple[Compiled, ...]:
    """The signatures that count at any log level."""
    return tuple(one for one in signatures("log") if one.signature.any_level)


def _compiled(pattern: str) -> re.Pattern[str] | None:
    return re.compile(pattern) if pattern else None


def matching_signatures(channel: Channel, text: str) -> Iterator[Compiled]:
    """The signatures that `text` alone fits."""
    return (one for one in signatures(channel) if one.pattern.search(text) and not _is_excluded(one, text))


def _is_excluded(one: Compiled, text: str) -> bool:
    """Whether the text contains what a signature excludes."""
    return one.unless is not None and one.unless.search(text) is not None
