"""Which libraries and sources a release is compared with, and the bound of the cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oracle.environment import libraries, size, trim
from podfit.vllm.release import Release


@pytest.mark.parametrize(
    ("release", "transformers"),
    [
        (Release(0, 8, 4), "4.51.3"),
        (Release(0, 9, 2), "4.53.3"),
        (Release(0, 11), "4.57.6"),
        (Release(0, 19, 1), "5.5.4"),
    ],
)
def test_libraries_by_release(release: Release, transformers: str) -> None:
    assert libraries(release)[0] == f"transformers=={transformers}"


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    for number, name in enumerate(("vllm-0.8.0", "vllm-0.9.0", "vllm-0.10.0", "transformers-5.0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_bytes(bytes(100))
        os.utime(tmp_path / name, (number, number))
    kept = tmp_path / "vllm-0.8.0"
    assert trim(tmp_path, 300, kept) == []
    assert trim(tmp_path, 150, kept) == [tmp_path / "vllm-0.9.0", tmp_path / "vllm-0.10.0"]
    assert size(tmp_path) == 200
