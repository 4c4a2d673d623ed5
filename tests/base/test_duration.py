"""Durations as people read them."""

from __future__ import annotations

import pytest

from podfit.base import duration


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (64, "64 s"), (119.4, "119 s"), (120, "2 min"), (488, "8 min"), (7200, "2 h")]
)
def test_an_estimate(seconds: float, said: str) -> None:
    assert duration.human(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(30, "30 s"), (90, "90 s"), (300, "5 min"), (350, "350 s"), (3600, "60 min"), (7200, "2 h")]
)
def test_a_field_keeps_its_seconds_unless_they_are_whole_minutes(seconds: float, said: str) -> None:
    assert duration.exact(seconds) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(124, 2640, "2–44 min"), (22, 100, "22–100 s"), (30, 537, "30 s–9 min"), (125, 128, "2 min")],
)
def test_an_interval(low: float, high: float, said: str) -> None:
    assert duration.interval(low, high) == said
    assert duration.estimate(low, low, high) == f"{duration.human(low)} ({said})"
