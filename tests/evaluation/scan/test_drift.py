"""Planned and used memory: what a Prometheus answers (recorded of version 2.42), and what vLLM's logs say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest

from podfit.cluster import prometheus
from podfit.cluster.access import UnreachableError
from podfit.cluster.logs import LOGGED, of_log
from podfit.cluster.logs import used as logged
from podfit.cluster.prometheus import Prometheus, PrometheusError
from podfit.cluster.scanning import Scanner, WorkloadSelection
from podfit.evaluation.policy import builtin
from podfit.evaluation.scan import Scan
from podfit.evaluation.scan.drift import TOKENS, Drift, Used, compare
from podfit.kube.quantity import GI
from podfit.report import drift as shown
from podfit.vllm.facts import Facts
from tests.evaluation.scan.cluster import Api, pod, workload
from tests.evaluation.scan.test_scan import Run, _command

command_fixture = _command
ANSWERS: dict[str, Any] = {}
"""Query → what is answered."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Answers as Prometheus does."""
        query = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["query"][0]
        found: Any = next((answer for name, answer in ANSWERS.items() if name in query), [])
        good = {"status": "success", "data": {"resultType": "vector", "result": found}}
        body = json.dumps(found if isinstance(found, dict) else good).encode()
        self.send_response(400 if isinstance(found, dict) else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(name="url")
def _url() -> Iterator[str]:
    ANSWERS.clear()
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def sample(value: object, **labels: str) -> dict[str, Any]:
    """One series at one moment."""
    return {"metric": {"namespace": "chat", "pod": "llama-0", **labels}, "value": [1795299199.862, str(value)]}


def scanned(*objects: dict[str, Any]) -> Scan:
    """A scan that knows Pods."""
    return Scanner(Api(*objects), WorkloadSelection(pods=True), Facts(), builtin()).run()


@pytest.fixture(name="scan")
def _scan() -> Scan:
    """A Deployment of one running Pod."""
    top = workload("Deployment", "llama")
    one = pod("llama-0", owner=top)
    one["status"] = {"phase": "Running"}
    return scanned(top, one)


def by_line(found: list[Drift]) -> dict[str, Drift]:
    """Line → what was compared."""
    return {one.line: one for one in found}


def test_what_prometheus_knows_of_both_planes(url: str, scan: Scan) -> None:
    ANSWERS["container_memory_usage_bytes"] = [sample(7 * GI, container="vllm"), sample(9 * GI, container="sidecar")]
    ANSWERS["DCGM_FI_DEV_FB_USED"] = [sample(76000)]
    ANSWERS["cache_config_info"] = [
        sample(1, engine="0", block_size="16", num_gpu_blocks="20000", kv_cache_size_tokens="91000")
    ]

    found = by_line(compare(scan, Prometheus(url).used(), prometheus.MEASURED_KEYS))

    assert (found["steady"].used, found["steady"].plane, found["steady"].pods) == (7 * GI, "host", 1)
    assert (found["used"].used, found["used"].state) == (76000 << 20, "as-planned")
    assert (found[TOKENS].used, found[TOKENS].state, found[TOKENS].unit) == (91000, "below", "tokens")
    assert found[TOKENS].off == pytest.approx(91000 / found[TOKENS].planned.likely - 1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("engines", "tokens"),
    [
        ([{"num_gpu_blocks": "100", "block_size": "16"}], 1600),
        ([{"num_gpu_blocks": "200", "block_size": "16", "engine": str(n)} for n in (0, 1)], 1600),
        ([{"num_gpu_blocks": "100", "block_size": "16", "kv_cache_size_tokens": "1200"}], 1200),
        ([{"num_gpu_blocks": "100", "block_size": "16", "kv_cache_size_tokens": "None"}], 1600),
        ([{"num_gpu_blocks": "None", "block_size": "16"}], None),
    ],
    ids=["before 0.24", "of all engines together", "0.24", "not set", "not started"],
)
def test_cache_config_of_each_generation(url: str, engines: list[dict[str, str]], tokens: int | None) -> None:
    ANSWERS["cache_config_info"] = [sample(1, **one) for one in engines]

    assert [one.value for one in Prometheus(url).used()] == ([tokens] if tokens else [])


def test_an_exporter_that_keeps_its_own_labels_is_understood(url: str) -> None:
    ANSWERS["DCGM_FI_DEV_FB_USED"] = [
        sample(1, namespace="gpu", pod="dcgm-1", exported_namespace="chat", exported_pod="a")
    ]

    assert [(one.namespace, one.pod) for one in Prometheus(url).used()] == [("chat", "a")]


@pytest.mark.parametrize("odd", [sample("NaN"), sample("+Inf"), {"metric": {"pod": "x"}, "histogram": [1, {}]}])
def test_a_series_without_a_number_is_left_out(url: str, odd: dict[str, Any]) -> None:
    ANSWERS["DCGM_FI_DEV_FB_USED"] = [odd, sample(1)]

    assert [one.value for one in Prometheus(url).used()] == [1 << 20]


def test_a_refusal_says_what_prometheus_says(url: str) -> None:
    ANSWERS["container_memory"] = {
        "status": "error",
        "errorType": "bad_data",
        "error": "query processing would load too much",
    }

    with pytest.raises(PrometheusError, match="would load too much"):
        list(Prometheus(url).used())


def test_contradictions_come_first_and_the_unknown_last_with_its_reason(scan: Scan) -> None:
    alone = workload("Deployment", "idle", replicas=0)
    unplanned = workload("Deployment", "strange", args=["--model", "acme/strange"])
    one = pod("strange-0", owner=unplanned)
    one["status"] = {"phase": "Running"}
    top = workload("Deployment", "llama")
    serving = pod("llama-0", owner=top)
    serving["status"] = {"phase": "Running"}
    whole = scanned(top, serving, alone, unplanned, one)
    used = [
        Used("chat", "llama-0", "vllm", "host", "steady", 900 * GI, "container_memory_*"),
        Used("chat", "strange-0", None, "gpu", "used", 20 * GI, "DCGM_FI_DEV_FB_USED"),
        Used("other", "nobody", None, "gpu", "used", 20 * GI, "DCGM_FI_DEV_FB_USED"),
    ]

    found = compare(whole, used, prometheus.MEASURED_KEYS)
    text = shown.text(found)

    assert (found[0].state, str(found[0].object)) == ("above", "Deployment chat/llama")
    assert found[-1].state == "unknown"
    reasons = {(str(one.object), one.line): one.source for one in found if one.state == "unknown"}
    assert reasons["Deployment chat/idle", "used"] == "no Pod of it is running"
    assert reasons["Deployment chat/strange", "used"].startswith("no plan")
    assert reasons["Deployment chat/llama", "used"] == "not measured"
    assert text.startswith("planned and used: 1 above the plan, 0 below it, 0 as planned, ")
    assert "unknown, no Pod of it is running: Deployment chat/idle\n" in text


def test_of_several_pods_the_one_farthest_off_is_told(scan: Scan) -> None:
    scan.pods["chat", "llama-1"] = scan.pods["chat", "llama-0"]
    used = [Used("chat", f"llama-{n}", "vllm", "host", "steady", size * GI, "") for n, size in enumerate((5, 90))]

    found = by_line(compare(scan, used, frozenset(("host/steady",))))["steady"]

    assert (found.used, found.pods) == (90 * GI, 2)


LOG = """\
INFO 11-21 20:00:01 [gpu_model_runner.py:2653] Model loading took 14.9889 GiB and 3.21 seconds
INFO 11-21 20:00:09 [gpu_worker.py:298] Available KV cache memory: 54.25 GiB
INFO 11-21 20:00:09 [gpu_worker.py:298] Available KV cache memory: 53.91 GiB
INFO 11-21 20:00:10 [kv_cache_utils.py:1087] GPU KV cache size: 441,632 tokens
"""


def test_a_start_up_log_tells_three_lines() -> None:
    found = {one.line: one.value for one in of_log(LOG, "chat", "llama-0", "vllm")}

    assert found == {"weights": int(14.9889 * GI), "kv_cache": int(53.91 * GI), TOKENS: 441_632}
    assert not list(of_log("Starting…", "chat", "llama-0", "vllm"))


def test_logs_of_running_pods_are_read_through_the_api(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    api = Api()

    def text(path: str, query: Any, most: int) -> str:
        asked.append(f"{path}?container={query['container']}")
        return LOG

    monkeypatch.setattr(api, "text", text)

    found = by_line(compare(scan, logged(api, scan), LOGGED))

    assert asked == ["/api/v1/namespaces/chat/pods/llama-0/log?container=vllm"]
    assert found["weights"].state == "as-planned"
    assert found["weights"].used == int(14.9889 * GI)


def test_a_log_that_is_too_slow_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    top = workload("Deployment", "llama")
    both = [{**pod(f"llama-{n}", owner=top), "status": {"phase": "Running"}} for n in range(2)]
    scan, api = scanned(top, *both), Api()

    def text(path: str, query: Any, most: int) -> str:
        if "llama-0" in path:
            raise UnreachableError("no answer in time")
        return LOG

    monkeypatch.setattr(api, "text", text)

    assert {one.pod for one in logged(api, scan)} == {"llama-1"}
    assert scan.not_read["pods/log"] == "chat/llama-0: no answer in time"


def test_the_command_asks_prometheus_and_answers_with_0(url: str, command: Run, tmp_path: Path) -> None:
    top = workload("Deployment", "llama", args=["--model", "unsloth/Llama-3.1-8B-Instruct", "--no-such-flag"])
    page = tmp_path / "drift.html"

    code, out, _ = command(Api(top), "--drift", "--prometheus", url, "--format", "text", "--format", f"html={page}")

    assert code == 0
    assert out.startswith("planned and used: ")
    assert "Planned and used" in page.read_text()


def test_a_prometheus_that_is_away_is_exit_3(command: Run) -> None:
    code, out, err = command(Api(), "--drift", "--prometheus", "http://127.0.0.1:1")

    assert (code, out) == (3, "")
    assert err == "error: --prometheus http://127.0.0.1:1: connection refused\n"


def test_prometheus_without_drift_is_a_mistake(command: Run) -> None:
    code, _, err = command(Api(), "--prometheus", "http://127.0.0.1:1")

    assert (code, err) == (2, "error: --prometheus belongs to --drift\n")
