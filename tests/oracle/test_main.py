"""What `make oracle` says of a release that it can't read."""

from __future__ import annotations

import pytest

from oracle import __main__, environment
from oracle.cases import GPUS, generate
from podfit.vllm.release import Release


def test_a_release_without_a_wheel_is_counted_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise SystemExit("vllm==0.9.0: pip can't download its wheel")

    monkeypatch.setattr(environment, "folder", none)
    release = Release(0, 33)

    differences, line = __main__.run(release, list(generate(release, GPUS[0], 1, 2)), None)

    assert differences == []
    assert " 0 of 6 judged" in line
    assert "pip can't download its wheel" in line
