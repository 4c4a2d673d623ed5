"""Durations for people: "64 s", "8 min", "8 min (2–44 min)"."""

from __future__ import annotations


def human(seconds: float) -> str:
    """A duration that was estimated: seconds up to two minutes, minutes up to two hours, then hours."""
    number, unit = _parts(seconds)
    return f"{number} {unit}"


def exact(seconds: float) -> str:
    """A duration that a field sets, exactly: in hours or minutes if it is a multiple of them, of two at least; else in
    seconds."""
    for unit_seconds, unit in _UNITS:
        if seconds >= 2 * unit_seconds and seconds % unit_seconds == 0:
            return f"{seconds // unit_seconds:.0f} {unit}"
    return f"{seconds:g} s"


def interval(low: float, high: float) -> str:
    """Two durations in seconds as an interval: "2–44 min", "30 s–9 min"; one of them if both are the same, rounded."""
    (low_number, low_unit), (high_number, high_unit) = _parts(low), _parts(high)
    if low_unit != high_unit:
        return f"{low_number} {low_unit}–{high_number} {high_unit}"
    if low_number == high_number:
        return f"{high_number} {high_unit}"
    return f"{low_number}–{high_number} {high_unit}"


def estimate(likely: float, low: float, high: float) -> str:
    """An estimate in seconds with its interval: "8 min (2–44 min)"."""
    return f"{human(likely)} ({interval(low, high)})"


_UNITS = ((3600, "h"), (60, "min"))
"""(seconds, name) of each unit that is used for durations of two of it or more: below, the next one is more exact."""


def _parts(seconds: float) -> tuple[str, str]:
    """(number, unit) as text: hours from two hours on, minutes from two minutes on, else seconds; rounded."""
    for unit_seconds, unit in _UNITS:
        if seconds >= 2 * unit_seconds:
            return f"{seconds / unit_seconds:.0f}", unit
    return f"{seconds:.0f}", "s"
