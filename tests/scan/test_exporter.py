"""What a scan planned, as metrics: in a file, and served."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path
from threading import Event, Thread

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.scan.cluster import DOOMED, Api, pod, workload
from tests.scan.test_drift import scanned
from tests.scan.test_scan import Run, _command
from webhook.cli import exporter
from webhook.scan import Scan

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
    assert found["podfit_scan_findings", "deny/unknown-flag"] == 1
    assert found["podfit_scan_duration_seconds", ""] == 1.5
    assert not [name for name, _ in found if name == "podfit_planned_high_bytes" and "weights" in _]


def test_before_the_first_scan_there_is_only_that_none_worked() -> None:
    assert series(generate_latest(exporter.registry(exporter.Planned())).decode()) == {("podfit_scan_success", ""): 0.0}


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


def test_the_command_writes_the_file(command: Run, tmp_path: Path) -> None:
    file = tmp_path / "podfit.prom"

    code, _, _ = command(Api(workload("Deployment", "llama")), "--metrics", str(file), "--fail-on", "never")

    assert code == 0
    assert "podfit_planned_bytes{" in file.read_text()


def test_a_file_that_cannot_be_written_is_exit_3(command: Run, tmp_path: Path) -> None:
    code, _, err = command(Api(workload("Deployment", "a")), "--metrics", str(tmp_path / "no" / "x.prom"))

    assert code == 3
    assert err.startswith("podfit: --metrics ")
