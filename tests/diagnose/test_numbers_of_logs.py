"""Numbers in a log: an attacker, or a cut line, can write any. None ends the diagnosis or becomes a remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from podfit import diagnose
from podfit.base.numbers import without_long_numbers
from podfit.report import diagnosis
from podfit.report.diagnosis import DiagnosedPod

LOGS = sorted(Path(__file__).parent.glob("*.txt"))
NUMBERS = ("0", "-5", ",", "1.2.3", "nan", "inf", "1e999", "9" * 15, "9" * 400, "9" * 5000, "9" * 310 + ".5")


def remedies(text: str) -> str:
    """The rendered diagnosis of a text."""
    return "".join(
        diagnosis.text(DiagnosedPod("a.log", one, None, None), verbose=True) for one in diagnose.diagnose(text)
    )


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:8] + str(len(number)))
def test_no_number_of_a_log_ends_the_diagnosis(number: str) -> None:
    for log in LOGS:
        text = log.read_text()
        for places in (r"\d+(?:\.\d+)?", r"(?<=[ (/])\d+(?:\.\d+)?(?= ?[GMK]iB|\)|s\b| tokens| dummy)"):
            shown = remedies(re.sub(places, number, text))

            assert re.search(r"\d{18}", shown) is None, log.name


def test_a_number_in_a_json_record_is_bounded_too() -> None:
    record = f'{{"level": "error", "lineno": {"9" * 5000}, "message": "CUDA out of memory"}}'

    assert diagnose.diagnose(record)


def test_a_log_that_contradicts_itself_brings_no_remedy_of_more_than_the_whole_gpu() -> None:
    log = (Path(__file__).parent / "gpu-out-of-memory.txt").read_text()

    assert "utilization by" not in remedies(re.sub(r"Tried to allocate \S+", "Tried to allocate 900000.00", log))


@pytest.mark.parametrize(
    ("text", "bounded"),
    [("1.50 GiB", "1.50 GiB"), ("2026-06-01 10:00:00,123", "2026-06-01 10:00:00,123"), (f"{'9' * 400} GiB", "… GiB")],
)
def test_only_numbers_that_measure_nothing_are_left_out(text: str, bounded: str) -> None:
    assert without_long_numbers(text) == bounded
