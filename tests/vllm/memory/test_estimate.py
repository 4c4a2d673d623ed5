"""The distribution of an estimate: its median, and the ends of its 95 % interval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.vllm.memory.estimate import Estimate

SKEWED = Estimate(floor=0, low=33, likely=233, high=402)
"""A wide interval with a longer part below."""


@pytest.mark.parametrize(
    ("amount", "probability"),
    [(33, 0.025), (233, 0.5), (402, 0.975), (233 + 0.4294 * 169, 0.8), (-1000, 0.0), (5000, 1.0)],
)
def test_the_ends_of_the_interval_leave_two_and_a_half_percent(amount: float, probability: float) -> None:
    assert SKEWED.share_below(amount) == pytest.approx(probability, abs=0.001)


@pytest.mark.parametrize(("amount", "probability"), [(9, 0.0), (10, 0.5), (11, 1.0)])
def test_an_exact_quantity_is_below_or_not(amount: int, probability: float) -> None:
    assert Estimate(10, 10, 10, 10).share_below(amount) == probability


@given(st.tuples(*[st.integers(0, 1 << 40)] * 3), st.integers(0, 1 << 41), st.integers(0, 1 << 41))
def test_more_is_never_less_likely_to_be_enough(ends: tuple[int, int, int], one: int, other: int) -> None:
    low, likely, high = sorted(ends)
    estimate = Estimate(low, low, likely, high)

    assert 0 <= estimate.share_below(min(one, other)) <= estimate.share_below(max(one, other)) <= 1
