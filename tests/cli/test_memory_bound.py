"""The server's memory is bounded by its container's limit: Python says so before the kernel kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podfit.server import memory as _memory

HUNGRY = """
import sys
from pathlib import Path
from podfit.server import memory as _memory
_memory.CGROUP_LIMITS = {"": Path(sys.argv[1])}
assert _memory.bound(4) == _memory.shares().data + (4 + _memory.OTHERS) * _memory.STACK
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


@given(st.integers(256 << 20, 1 << 40), st.integers(0, 80 << 20))
@example(320 << 20, 60 << 20)
def test_the_parts_of_the_memory_are_never_more_than_all_of_it(limit: int, first_process: int) -> None:
    shares = _memory.divide(limit, first_process)

    assert shares.data is not None
    assert first_process + shares.data + int(limit * _memory.KERNEL_SHARE) <= limit
    worker = shares.data - shares.connections * _memory.CONNECTION
    assert worker >= int(limit * _memory.WORKER_SHARE) or shares.connections == _memory.MIN_CONNECTIONS
    assert sum(shares.bodies.values()) < worker / 2
    more = _memory.divide(limit + (1 << 20), first_process)
    assert more.connections >= shares.connections


def test_of_the_charts_memory_connections_and_bodies_get_these_parts() -> None:
    shares = _memory.divide(320 << 20, 60 << 20)

    assert (shares.connections, {large: size >> 20 for large, size in shares.bodies.items()}) == (
        181,
        {False: 16, True: 32},
    )


def test_a_small_limit_is_not_kept() -> None:
    shares = _memory.divide(64 << 20, 60 << 20)

    assert (shares.data, shares.connections) == (_memory.MIN_FOR_REVIEWS, 256)


def test_a_process_knows_its_private_memory() -> None:
    before = _memory._private()
    block = bytearray(b"x") * (64 << 20)

    assert 60 << 20 < _memory._private() - before < 80 << 20
    del block


@pytest.mark.parametrize("text", ["max\n", "", "-1", "9223372036854771712\n"])
def test_without_a_limit_there_is_no_bound(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "limit").write_text(text)

    for names in (["limit"], ["none"], ["none", "limit"]):
        monkeypatch.setattr(_memory, "CGROUP_LIMITS", {name: tmp_path / name for name in names})
        assert _memory.bound(4) is None


def test_the_limit_is_that_of_the_containers_version_of_cgroups() -> None:
    """The files of the two versions are never in one container."""
    assert [str(path) for path in _memory.CGROUP_LIMITS.values()] == [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]


@pytest.mark.parametrize(
    ("cgroups", "limits", "limit"),
    [
        ("0::/", {"memory.max": 320}, 320),
        ("0::/a.slice/b.service", {"a.slice/b.service/memory.max": 320}, 320),
        ("0::/a.slice/b.service", {"a.slice/memory.max": 300, "a.slice/b.service/memory.max": 320}, 300),
        ("0::/../../elsewhere", {"memory.max": 320}, 320),
        ("4:memory:/kubepods/c\n1:cpu:/\n0::/", {"memory/kubepods/c/memory.limit_in_bytes": 320}, 320),
        ("4:cpu,memory:/c\n0::/d", {"memory/c/memory.limit_in_bytes": 320, "c/memory.max": 9}, 320),
        ("4:memory:/a:b", {"memory/a:b/memory.limit_in_bytes": 320}, 320),
        ("4:pids:/c", {"memory/c/memory.limit_in_bytes": 320}, None),
        ("", {"memory/memory.limit_in_bytes": 320}, 320),
    ],
)
def test_the_limit_is_the_smallest_of_the_process_cgroups(
    cgroups: str, limits: dict[str, int], limit: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process without a cgroup namespace of its own has its limit below the folder that a container has it in."""
    for name, size in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{size}\n")
    (tmp_path / "cgroup").write_text(f"{cgroups}\n")
    places = {key: tmp_path / path.relative_to("/sys/fs/cgroup") for key, path in _memory.CGROUP_LIMITS.items()}
    monkeypatch.setattr(_memory, "CGROUP_LIMITS", places)
    monkeypatch.setattr(_memory, "OWN_CGROUPS", tmp_path / "cgroup")

    assert _memory._limit() == limit


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
