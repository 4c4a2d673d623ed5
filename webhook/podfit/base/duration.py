"""Durations for people: "64 s", "8 min", "8 min (2–44 min)"."""

from __future__ import annotations


def human(seconds: float) -> str:
    """A duration that was estimated: seconds up to two minutes, minutes up to two hours, then hours."""
    number, unit = _parts(seconds)
    return f"{number} {unit}"


def exact(seconds: float) -> str:
    """A duration that a field sets: minutes or hours only if they are whole."""
    for width, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * width and seconds % width == 0:
            return f"{seconds // width:.0f} {unit}"
    return f"{seconds:g} s"


def interval(low: float, high: float) -> str:
    """ "2–44 min", "30 s–9 min"."""
    (least, small), (most, large) = _parts(low), _parts(high)
    if least == most and small == large:
        return f"{most} {large}"
    return f"{least}–{most} {large}" if small == large else f"{least} {small}–{most} {large}"


def estimate(likely: float, low: float, high: float) -> str:
    """ "8 min (2–44 min)"."""
    return f"{human(likely)} ({interval(low, high)})"


def _parts(seconds: float) -> tuple[str, str]:
    """(number, unit) as text: hours from two hours on, minutes from two minutes on, else seconds."""
    for least, width, unit in ((7200, 3600, "h"), (120, 60, "min")):
        if seconds >= least:
            return f"{seconds / width:.0f}", unit
    return f"{seconds:.0f}", "s"
