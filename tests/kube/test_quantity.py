"""Kubernetes quantities and bytes, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podfit.kube import quantity

PROPERTY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64Gi", 64 << 30),
        ("1.5Gi", 3 << 29),
        ("500M", 500_000_000),
        ("2", 2),
        (2, 2),
        (1.5, 2),
        ("64", 64),  # a memory limit of 64 bytes: legal, and a mistake that people make
        ("1e3", 1000),
        ("1E", 10**18),  # exa, not an exponent
        ("1E3", 1000),
        ("500m", 1),
        ("0", 0),
        (".5k", 500),
        ("1e9999", 2**63 - 1),
        (10**30, 2**63 - 1),
    ],
)
def test_parse_reads_what_kubernetes_reads(text: object, size: int) -> None:
    assert quantity.parse(text) == size


@pytest.mark.parametrize(
    "value", ["", "1 Gi", "64GB", "64gi", "Gi", "1e", "٣Gi", "1e99999", "9" * 100, "nan", True, None, [1], float("inf")]
)
def test_parse_refuses_what_is_no_quantity(value: object) -> None:
    with pytest.raises(quantity.QuantityError, match="is not a quantity"):
        quantity.parse(value)
    assert quantity.try_parse(value) is None


@PROPERTY
@given(st.one_of(st.text(), st.integers(), st.floats(), st.from_regex(r"-?[0-9.]{1,30}([eE]-?\d+|[kKMGTPE]i?)?")))
def test_try_parse_never_raises(value: Any) -> None:
    size = quantity.try_parse(value)

    assert size is None or abs(size) < 2**63


@PROPERTY
@given(st.integers(min_value=0, max_value=2**60))
def test_a_quantity_that_we_write_means_the_same_bytes(size: int) -> None:
    assert quantity.parse(quantity.quantity(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1 << 20, "1 MiB"), (64 << 20, "64 MiB"), (35_326_000_000, "32.9 GiB"), (1 << 40, "1 TiB")],
)
def test_human_sizes(size: int, text: str) -> None:
    assert quantity.human(size) == text


@PROPERTY
@given(st.integers(min_value=1, max_value=2**50))
def test_rounding_up_gives_whole_gibibytes_and_less_than_one_more(size: int) -> None:
    rounded = quantity.round_up_gi(size)

    assert rounded % quantity.GI == 0
    assert 0 <= rounded - size < quantity.GI


def test_an_integer_too_long_to_be_printed_is_capped_too() -> None:
    assert quantity.parse(10**5000) == 2**63 - 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2, 2 << 30), (0.5, 1 << 29), (0, 0), (None, 4 << 30), (float("nan"), 4 << 30), (-1, 4 << 30), (True, 4 << 30)],
)
def test_gib_of_a_flag(value: object, expected: int) -> None:
    assert quantity.gib(value, 4) == expected
