"""The server's memory is bounded by its container's limit: Python says so before the kernel kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from podfit.server import memory as _memory

HUNGRY = """
import sys
from pathlib import Path
from podfit.server import memory as _memory
_memory.CGROUP_LIMITS = [Path(sys.argv[1])]
assert _memory.bound(4) == (384 << 20) + (4 + _memory.OTHERS) * _memory.STACK
try:
    bytearray(1 << 30)
except MemoryError:
    print("an error of one review")
print(len(bytearray(1 << 20)))
"""


def test_what_goes_beyond_it_is_an_error_and_the_process_goes_on(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(f"{512 << 20}\n")

    done = subprocess.run([sys.executable, "-c", HUNGRY, limit], capture_output=True, text=True, check=True)

    assert done.stdout == "an error of one review\n1048576\n"


@pytest.mark.parametrize("text", ["max\n", "", "-1", "9223372036854771712\n"])
def test_without_a_limit_there_is_no_bound(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "limit").write_text(text)

    for names in (["limit"], ["none"], ["none", "limit"]):
        monkeypatch.setattr(_memory, "CGROUP_LIMITS", [tmp_path / name for name in names])
        assert _memory.bound(4) is None


def test_the_limit_is_that_of_the_containers_version_of_cgroups() -> None:
    """The files of the two versions are never in one container."""
    assert [str(path) for path in _memory.CGROUP_LIMITS] == [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]


DEEP = """
import threading
from podfit.evaluation import review
from podfit.server import memory as _memory
_memory.bound(1)
def read():
    for text in ("[" * 10_000 + "]" * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000, "[" * 8_000 + "]" * 8_000):
        try:
            review.parse(text.encode())
        except review.BadReview:
            print("refused")
thread = threading.Thread(target=read)
thread.start()
thread.join()
"""


def test_a_body_nested_ten_thousand_deep_ends_no_thread_of_that_size() -> None:
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, check=True)

    assert done.stdout == "refused\n" * 3
