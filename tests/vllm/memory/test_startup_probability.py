"""How probable it is that a start takes longer than some time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.vllm.memory.ledger import Startup

START = Startup(10.0, 60.0, 240.0, 2400.0, (("imports", 40.0), ("download", 120.0), ("load", 80.0)))


@pytest.mark.parametrize(
    ("seconds", "low", "high"),
    [(0, 1, 1), (60, 0.97, 0.98), (240, 0.5, 0.5), (2400, 0.02, 0.03), (100_000, 0, 0.001)],
)
def test_the_ends_of_the_range_are_its_quantiles(seconds: float, low: float, high: float) -> None:
    assert low <= START.share_longer(seconds) <= high


def test_a_start_without_the_download_is_shorter_in_proportion() -> None:
    rest = START.without("download")
    assert (rest.low, rest.likely, rest.high, rest.floor) == (30.0, 120.0, 1200.0, 10.0)
    assert dict(rest.parts) == {"imports": 40.0, "load": 80.0}
    assert START.without("compile") == START


def test_a_start_of_one_known_length_is_longer_or_not() -> None:
    exact = Startup(50.0, 50.0, 50.0, 50.0)
    assert [exact.share_longer(seconds) for seconds in (49, 50, 51)] == [1.0, 0.5, 0.0]


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_it_is_no_more_probable_for_a_longer_time(first: float, second: float) -> None:
    shorter, longer = sorted((first, second))
    assert 0 <= START.share_longer(longer) <= START.share_longer(shorter) <= 1
