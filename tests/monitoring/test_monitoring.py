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
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard
from prometheus_client.metrics_core import Metric

from podfit.cli.support.exporter import Planned
from podfit.evaluation.scan import Scan
from podfit.generate import autoscale
from podfit.report.checked import RULE_PAGES
from podfit.server.live import Live
from podfit.server.metrics import Metrics
from podfit.vllm.release import Release
from tests.e2e import binaries

FOLDER = Path(__file__).parents[2] / "charts" / "podfit" / "monitoring"
PAGE = Path(__file__).parents[2] / "docs" / "monitoring.md"
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
TESTS = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
PROMTOOL = binaries.tool("promtool")

VLLM: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "vllm_metrics.json").read_text())
"""Metric → release → file, of thirteen releases (scripts/vllm_metrics.py)."""
EXPORTED = {
    **{f"{name}_bucket" if name.endswith("_seconds") else name: "" for name in VLLM},
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
    "kube_deployment_status_replicas_available": "docs/metrics/workload/deployment-metrics.md",
    # NVIDIA's DCGM exporter etc/default-counters.csv, in MiB
    "DCGM_FI_DEV_FB_FREE": "",
    "DCGM_FI_DEV_FB_USED": "",
    # k8s.io/apiserver 0.36 pkg/admission/metrics/metrics.go
    "apiserver_admission_webhook_admission_duration_seconds_bucket": "",
    "apiserver_admission_webhook_fail_open_count": "",
    "apiserver_admission_webhook_rejection_count": "",
}
SERIES = re.compile(r"\b(?:vllm:|container_|kube_|prober_|DCGM_|apiserver_admission_|podfit[_:])[a-zA-Z0-9_:]+")


def _planned() -> Iterator[Metric]:
    """What `podfit scan --serve` exports."""
    planned = Planned()
    planned.scan = Scan()
    return planned.collect()


def queries() -> Iterator[tuple[str, str]]:
    """Every query of alerts and dashboard: its place and its text."""
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


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool")
def test_prometheus_reads_every_panels_query(tmp_path: Path) -> None:
    variables = {"$namespace": ".*", "$pod": ".*", "$__rate_interval": "5m", "$__interval": "1m", "$__range": "1h"}
    rules: list[dict[str, str]] = []
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets") or ():
            query = target["expr"]
            for name, value in variables.items():
                query = query.replace(name, value)
            assert "$" not in query, panel["title"]
            rules.append({"record": f"panel:{len(rules)}", "expr": query})
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", "panels.yaml"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
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
    metrics = Metrics("", "", "")
    metrics.watch_policy(Live([]))
    metrics.watch_switch(lambda: False)
    metrics.watch_cluster(lambda: ())
    own = {line.split()[2] for line in metrics.text().decode().splitlines() if line.startswith("# TYPE")}
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    own |= {one.name for one in _planned()}
    known = EXPORTED.keys() | own | recorded | {"podfit_certificate_expiry_timestamp_seconds"}
    query = re.sub(r'"vllm:\((\w+)\|(\w+)\)(\w+)"', r'"vllm:\1\3" "vllm:\2\3"', query)

    found = set(SERIES.findall(query))

    assert found, where
    assert found - known == set(), where


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_says_what_is_where_and_what_next(alert: str) -> None:
    rule = ALERTS[alert]

    assert {"summary", "description", "runbook", "runbook_url"} == rule["annotations"].keys()
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert alert in PAGE.read_text()


@pytest.mark.parametrize("alert", ALERTS)
def test_every_runbook_url_is_a_section_that_names_the_alert(alert: str) -> None:
    page, _, anchor = ALERTS[alert]["annotations"]["runbook_url"].partition("#")
    sections = re.split(r"(?m)^## ", PAGE.with_name("runbook.md").read_text())[1:]
    bodies = {
        re.sub("[^a-z0-9 -]", "", title.lower()).replace(" ", "-"): body
        for title, _, body in (section.partition("\n") for section in sections)
    }

    assert page == RULE_PAGES.replace("rules/{rule}", "runbook")
    assert f"`{alert}`" in bodies[anchor]


@pytest.mark.parametrize("alert", ALERTS)
def test_a_counter_that_begins_with_the_failure_counts(alert: str) -> None:
    """`increase` over a series that was not there is nothing: the alternative takes its whole value."""
    expression = ALERTS[alert]["expr"]
    for counter in re.findall(r"increase\(\s*(\w+_total|\w+_count)\b", expression):
        from_zero = counter.startswith(("container_", "kube_"))  # of each container, from its start on
        assert from_zero or re.search(rf"unless last_over_time\(\s*{counter}\b", expression), counter


def test_the_page_says_which_releases_export_a_metric_and_every_release_has_what_the_alerts_need() -> None:
    rows = re.findall(r"(?m)^\| [^|]*\| ([^|]+) \| ([^|]+) \|$", PAGE.read_text().partition("## Names by vLLM")[2])
    said = {name: span for names, span in rows for name in re.findall(r"`(vllm:\w+)`", names)}
    newest = max(VLLM["vllm:num_requests_waiting"], key=_order)

    assert {name: _span(list(releases), newest) for name, releases in VLLM.items()} == said
    for release in VLLM["vllm:num_requests_waiting"]:
        assert {release} & {*VLLM["vllm:gpu_cache_usage_perc"], *VLLM["vllm:kv_cache_usage_perc"]}, release
        name = autoscale.usage_metric(Release(*_order(release)))
        assert release in VLLM[name], (release, name)


def _span(releases: list[str], newest: str) -> str:
    """ "0.4 to 0.11", "0.6 and newer"; with the patch release where that is the first."""
    first, last = ".".join(releases[0].split(".")[:2]), ".".join(releases[-1].split(".")[:2])
    first = "0.10.2" if releases[0] == "0.10.2" else first
    return f"{first} and newer" if releases[-1] == newest else f"{first} to {last}"


def _order(release: str) -> tuple[int, int, int]:
    major, minor, patch = map(int, release.split("."))
    return major, minor, patch


def test_the_dashboard_is_of_grafanas_own_schema() -> None:
    """Its models are generated from Grafana's schema: what they do not know is lost when it is read and written."""
    read = dashboard.Dashboard.from_json(DASHBOARD)

    written = json.loads(json.dumps(read, cls=JSONEncoder))
    for panel, again in zip(DASHBOARD["panels"], written["panels"], strict=True):
        assert panel == again, panel["title"]
    assert written == DASHBOARD


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
