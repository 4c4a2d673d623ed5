"""Alerts and dashboard: Prometheus itself reads them, each alert fires and keeps silent, and every series exists."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import binaries
from webhook.metrics import Metrics

FOLDER = Path(__file__).parents[2] / "monitoring"
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
TESTS = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
PROMTOOL = binaries.tool("promtool")

EXPORTED = {
    # vLLM: metric → the releases that export it, read off v1/metrics/loggers.py and, before 0.12, engine/metrics.py of
    # 0.4.2, 0.6.6, 0.8.5, 0.10.2, 0.11.0, 0.13.0, 0.17.1, 0.20.2, 0.24.0, 0.27.1, 0.30.0 and 0.33.0.
    "vllm:gpu_cache_usage_perc": "0.4–0.11",
    "vllm:kv_cache_usage_perc": "0.10.2–",
    "vllm:num_requests_running": "0.4–",
    "vllm:num_requests_waiting": "0.4–",
    "vllm:num_preemptions_total": "0.6–",
    "vllm:time_to_first_token_seconds_bucket": "0.4–",
    "vllm:time_per_output_token_seconds_bucket": "0.4–0.13",
    "vllm:inter_token_latency_seconds_bucket": "0.10.2–",
    "vllm:admission_rejections_total": "0.33–",
    # cAdvisor 0.56 metrics/prometheus.go, in the kubelet of Kubernetes 1.36
    "container_memory_usage_bytes": "",
    "container_memory_working_set_bytes": "",
    "container_memory_total_active_file_bytes": "",
    "container_memory_total_inactive_file_bytes": "",
    "container_oom_events_total": "",
    "container_pressure_memory_stalled_seconds_total": "KubeletPSI, on by default from Kubernetes 1.34",
    # Kubernetes 1.36 pkg/kubelet/prober/prober_manager.go
    "prober_probe_total": "",
    # kube-state-metrics docs/metrics/workload/pod-metrics.md
    "kube_pod_container_info": "",
    "kube_pod_container_resource_limits": "",
    "kube_pod_container_status_last_terminated_reason": "",
    "kube_pod_container_status_ready": "",
    "kube_pod_container_status_restarts_total": "",
    "kube_pod_container_status_running": "",
    "kube_pod_status_unschedulable": "",
    # NVIDIA's DCGM exporter etc/default-counters.csv, in MiB
    "DCGM_FI_DEV_FB_FREE": "",
    "DCGM_FI_DEV_FB_USED": "",
    # k8s.io/apiserver 0.36 pkg/admission/metrics/metrics.go
    "apiserver_admission_webhook_admission_duration_seconds_bucket": "",
    "apiserver_admission_webhook_fail_open_count": "",
    "apiserver_admission_webhook_rejection_count": "",
}
SERIES = re.compile(r"\b(?:vllm:|container_|kube_|prober_|DCGM_|apiserver_admission_|podfit[_:])[a-zA-Z0-9_:]+")


def queries() -> Iterator[tuple[str, str]]:
    """Every query of alerts and dashboard: where it stands and its text."""
    for rule in RULES:
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets") or ():
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


@pytest.mark.skipif(
    PROMTOOL is None, reason="no promtool: put it on PATH, in $PROMTOOL, or `python -m tests.e2e.binaries promtool`"
)
@pytest.mark.parametrize("arguments", ["check rules alerts.yaml", "test rules alerts_test.yaml"])
def test_promtool_agrees(arguments: str) -> None:
    done = subprocess.run(
        [str(PROMTOOL), *arguments.split()], cwd=FOLDER, capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_a_case_that_fires_and_one_that_does_not(alert: str) -> None:
    cases = [one for test in TESTS for one in test["alert_rule_test"] if one["alertname"] == alert]
    sick = [fired for one in cases for fired in one["exp_alerts"]]
    labels = {str(value) for fired in sick for value in fired["exp_labels"].values()}

    assert sick
    assert not any("well" in label for label in labels)
    well = [test for test in TESTS if any(alert == one["alertname"] for one in test["alert_rule_test"])]
    assert any("well" in str(test["input_series"]) or not test["alert_rule_test"][0]["exp_alerts"] for test in well)


@pytest.mark.parametrize(("where", "query"), list(queries()))
def test_every_series_is_one_that_somebody_exports(where: str, query: str) -> None:
    own = {line.split()[2] for line in Metrics("", "", "").text().decode().splitlines() if line.startswith("# TYPE")}
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    known = EXPORTED.keys() | own | recorded | {"podfit_certificate_expiry_timestamp_seconds"}
    query = re.sub(r'"vllm:\((\w+)\|(\w+)\)(\w+)"', r'"vllm:\1\3" "vllm:\2\3"', query)

    found = set(SERIES.findall(query))

    assert found, where
    assert found - known == set(), where


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_says_what_is_where_and_what_next(alert: str) -> None:
    rule = ALERTS[alert]

    assert {"summary", "description", "runbook"} == rule["annotations"].keys()
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert alert in (FOLDER.parent / "docs" / "monitoring.md").read_text()


def test_the_dashboards_panels_stand_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_names_of_panels_and_uid_are_stable() -> None:
    titles: list[Any] = [panel["title"] for panel in DASHBOARD["panels"]]

    assert DASHBOARD["uid"] == "podfit-vllm"
    assert len(titles) == len(set(titles))
