"""What a scan planned, as metrics: in a file, and served."""

from __future__ import annotations

import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest.mock import Mock

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from podfit.cli import main
from podfit.cli.support import exporter, user_cluster
from podfit.evaluation.scan import Scan
from tests.evaluation.scan.cluster import DOOMED, Api, pod, workload
from tests.evaluation.scan.test_drift import scanned
from tests.evaluation.scan.test_scan import Run, _command

command_fixture = _command
Series = dict[tuple[str, str], float]


def cluster() -> Scan:
    """A Deployment with one Pod that runs, and one that is denied."""
    top = workload("Deployment", "llama")
    one = pod("llama-0", owner=top)
    one["status"] = {"phase": "Running"}
    return scanned(top, one, workload("StatefulSet", "doomed", args=DOOMED))


def series(text: str) -> Series:
    """(name, workload/container/plane/line …) → value, as Prometheus reads it."""
    return {
        (one.name, "/".join(one.labels.values())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_planned_bytes_of_both_planes_and_whose_pods_they_are(tmp_path: Path) -> None:
    file = tmp_path / "podfit.prom"
    exporter.to_file(file, cluster(), 1.5)

    found = series(file.read_text())

    assert 14e9 < found["podfit_planned_bytes", "vllm/weights/chat/gpu/llama/deployment"] < 17e9
    likely = found["podfit_planned_bytes", "vllm/steady/chat/host/llama/deployment"]
    assert likely < found["podfit_planned_high_bytes", "vllm/steady/chat/host/llama/deployment"]
    assert found["podfit_planned_kv_cache_tokens", "vllm/chat/llama/deployment"] > 100_000
    assert found["podfit_planned_pod_info", "chat/llama-0/llama/deployment"] == 1
    assert found["podfit_scan_workloads", "denied"] == 1
    assert found["podfit_scan_findings", "deny/unknown-flag/deny"] == 1
    assert found["podfit_scan_duration_seconds", ""] == 1.5
    assert not [name for name, _ in found if name == "podfit_planned_high_bytes" and "weights" in _]


def test_before_the_first_scan_there_is_only_that_none_worked() -> None:
    assert series(generate_latest(exporter.registry(exporter.Planned())).decode()) == {("podfit_scan_success", ""): 0.0}


def missing(*kinds: tuple[str, str], **fields: Any) -> Scan:
    """A scan that did not see these kinds."""
    return Scan(kinds_missed=set(kinds), **fields)


def broken() -> Scan:
    """The API server is away."""
    raise OSError("away")


RAY, JOB = ("ray.io", "RayJob"), ("batch", "Job")


@pytest.mark.parametrize(
    ("reads", "worked", "kept"),
    [
        ([missing], True, 0),
        ([missing, broken], False, 0),
        ([missing, partial(missing, cut_short=True)], False, 0),
        ([missing, partial(missing, RAY)], False, 0),
        ([missing, partial(missing, RAY), missing], True, 2),
        ([partial(missing, RAY), partial(missing, RAY)], True, 1),
        ([partial(missing, RAY), partial(missing, RAY, JOB)], False, 0),
        ([partial(missing, cut_short=True)], False, None),
    ],
    ids=[
        "whole",
        "fails",
        "breaks off",
        "misses a kind",
        "is whole again",
        "may never read it",
        "and another",
        "first",
    ],
)
def test_the_last_scan_that_saw_everything_is_kept(
    monkeypatch: pytest.MonkeyPatch, reads: list[Callable[[], Scan]], worked: bool, kept: int | None
) -> None:
    made: list[exporter.Planned] = []
    monkeypatch.setattr(exporter, "registry", made.append)
    monkeypatch.setattr(exporter, "_listening", lambda *_: Mock())
    stop, found = Event(), list[Scan]()
    monkeypatch.setattr(stop, "wait", lambda _: None)

    def read() -> Scan:
        one = reads.pop(0)
        if not reads:
            stop.set()
        found.append(one())
        return found[-1]

    exporter.serve(("", 0), 60.0, read, stop)

    assert made[0].worked is worked
    assert made[0].scan is (None if kept is None else found[kept])


def test_an_exporter_keeps_the_last_good_numbers_where_a_scan_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    scans, stop, failed = [cluster()], Event(), Event()

    class Twice(Event):
        """Waits for nothing; sets `failed` after the second scan, and then for the test's end."""

        rounds = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.rounds += 1
            if self.rounds < 2:
                return False
            failed.set()
            return stop.wait(20)

        def is_set(self) -> bool:
            return stop.is_set()

    thread = Thread(target=exporter.serve, args=(("127.0.0.1", port), 60.0, scans.pop, Twice()))
    thread.start()
    try:
        assert failed.wait(20)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            found = series(answer.read().decode())
    finally:
        stop.set()
        thread.join(20)

    assert found["podfit_scan_success", ""] == 0
    assert found["podfit_scan_workloads", "denied"] == 1
    assert not thread.is_alive()


def test_each_scan_of_the_exporter_finds_its_own_way_to_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    open_now: list[Api] = []
    counts: list[int] = []

    @contextmanager
    def client(*_: object, **__: object) -> Iterator[Api]:
        open_now.append(Api(workload("Deployment", "llama")))
        counts.append(len(open_now))
        yield open_now[-1]
        open_now.pop()

    def serve(_: object, __: float, read: Callable[[], Scan], ___: Event, ____: object) -> None:
        assert [read().workloads(), read().workloads()] == [1, 1]

    monkeypatch.setattr(user_cluster, "client", client)
    monkeypatch.setattr(exporter, "serve", serve)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    assert main(["scan", "--serve", ":9095"]) == 0
    assert counts == [1, 1, 1]


def test_the_command_writes_the_file(command: Run, tmp_path: Path) -> None:
    file = tmp_path / "podfit.prom"

    code, _, _ = command(Api(workload("Deployment", "llama")), "--metrics", str(file), "--fail-on", "never")

    assert code == 0
    assert "podfit_planned_bytes{" in file.read_text()


def test_a_file_that_cannot_be_written_is_exit_3(command: Run, tmp_path: Path) -> None:
    code, _, err = command(Api(workload("Deployment", "a")), "--metrics", str(tmp_path / "no" / "x.prom"))

    assert code == 3
    assert err.startswith("error: --metrics ")
