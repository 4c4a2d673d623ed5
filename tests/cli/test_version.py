"""`podfit version`."""

from __future__ import annotations

import pytest

from podfit import __version__
from podfit.base import data
from podfit.cli import main


def test_the_version_and_the_age_of_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"podfit {__version__}\n{data.age()}\n"
