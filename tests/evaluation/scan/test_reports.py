"""PolicyReports: what becomes of a finding, whose report it is, and what is written and removed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from podfit.cluster import reports
from podfit.cluster.access import StatusError
from podfit.evaluation.policy import load
from podfit.report import policy_report
from podfit.report.policy_report import APIS
from tests.evaluation.scan.cluster import DOOMED, Api, meta, pod, workload
from tests.evaluation.scan.test_scan import Run, _command, observed, scanned

command_fixture = _command
NOW = datetime(2026, 11, 21, tzinfo=UTC)
POLICY, OPEN = APIS
SERVED = {"wgpolicyk8s.io/v1alpha2": ("PolicyReport", "ClusterPolicyReport")}
BOTH = {**SERVED, "openreports.io/v1alpha1": ("Report", "ClusterReport")}


def test_a_report_is_its_workloads_own() -> None:
    [made] = policy_report.reports(scanned(Api(workload("Deployment", "llama", args=DOOMED))), POLICY, NOW)

    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama", "uid": "uid-chat-llama"}
    assert made["metadata"]["ownerReferences"] == [owner]
    assert made["metadata"]["name"] == "podfit-uid-chat-llama"
    assert made["scope"] == {**owner, "namespace": "chat"}
    assert (made["apiVersion"], made["kind"]) == ("wgpolicyk8s.io/v1alpha2", "PolicyReport")
    assert made["summary"]["fail"] == 1


def results(obj: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Rule → its result."""
    [made] = policy_report.reports(scanned(Api(obj)), OPEN, NOW)
    return {one["rule"]: one for one in made["results"]}


def test_each_mode_has_its_result() -> None:
    bad = results(workload("Deployment", "llama", args=[*DOOMED, "--gpu-memory-utilization", "0.99"]))

    assert (bad["unknown-flag"]["result"], bad["unknown-flag"]["severity"]) == ("fail", "high")
    warned = [one for one in bad.values() if one["result"] == "warn"]
    assert warned
    assert {one["severity"] for one in warned} <= {"medium", "low"}
    assert all(isinstance(value, str) for one in bad.values() for value in one["properties"].values())
    assert bad["unknown-flag"]["timestamp"] == {"seconds": int(NOW.timestamp()), "nanos": 0}


def test_nothing_found_is_a_pass() -> None:
    good = results(pod("well"))

    assert {rule: one["result"] for rule, one in good.items()} == {"all": "pass"}


def test_what_enforcing_would_deny_fails_under_every_limit() -> None:
    doomed = Api(workload("Deployment", "llama", args=DOOMED))
    [free], [limited] = (policy_report.reports(scanned(doomed, policy=policy), POLICY, NOW)
                         for policy in (None, observed()))  # fmt: skip

    assert limited["summary"] == free["summary"]
    assert limited["summary"]["fail"] == 1


def test_what_is_only_audited_is_skipped_and_no_pass() -> None:
    doomed = pod("doomed")
    doomed["spec"]["containers"][0]["args"] = DOOMED
    [made] = policy_report.reports(scanned(Api(doomed), policy=load([("p.yaml", AUDITED)])), POLICY, NOW)

    assert made["summary"] == {"pass": 0, "fail": 0, "warn": 0, "error": 0, "skip": 1}


AUDITED = """
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata: {name: p}
spec: {rules: {unknown-flag: {mode: audit}}}
"""


def test_what_has_no_namespace_has_a_cluster_report() -> None:
    runtime: dict[str, Any] = {
        "apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterServingRuntime",
        "metadata": {key: value for key, value in meta("vllm", "", None).items() if key != "namespace"},
        "spec": workload("Deployment", "x", args=DOOMED)["spec"]["template"]["spec"],
    }  # fmt: skip
    [made] = policy_report.reports(scanned(Api(runtime)), POLICY, NOW)

    assert made["kind"] == "ClusterPolicyReport"
    assert "namespace" not in made["metadata"]


def write(api: Api, **options: Any) -> reports.Written:
    """What is done of a scan of the same API."""
    options = {"namespace": None, "is_full": True, **options}
    return reports.write(api, scanned(api), NOW, tell=lambda _: None, **options)


def stale(name: str, **labels: str) -> dict[str, Any]:
    """A report of an earlier scan."""
    metadata = {"name": name, "namespace": "chat", "labels": labels}
    return {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": metadata}


OURS = {"app.kubernetes.io/managed-by": "podfit"}


@pytest.mark.parametrize(("kinds", "paths"), [
    (BOTH, ["/apis/wgpolicyk8s.io/v1alpha2/namespaces/chat/policyreports/podfit-uid-chat-a",
            "/apis/openreports.io/v1alpha1/namespaces/chat/reports/podfit-uid-chat-a"]),
    (SERVED, ["/apis/wgpolicyk8s.io/v1alpha2/namespaces/chat/policyreports/podfit-uid-chat-a"]),
    ({}, []),
])  # fmt: skip
def test_they_are_written_in_each_api_that_is_served(kinds: dict[str, tuple[str, ...]], paths: list[str]) -> None:
    api = Api(workload("Deployment", "a"), kinds=kinds)
    done = write(api)

    assert [path for path, _ in api.written] == paths
    assert (done.reports, len(done.apis)) == (len(paths), len(kinds))


def test_what_is_no_longer_true_is_removed_and_nothing_of_others() -> None:
    old, foreign = stale("podfit-gone", **OURS), stale("kyverno-1")
    api = Api(workload("Deployment", "a"), old, foreign, kinds=SERVED)

    assert write(api).removed == 1
    assert api.deleted == ["/apis/wgpolicyk8s.io/v1alpha2/namespaces/chat/policyreports/podfit-gone"]


@pytest.mark.parametrize(("options", "refuse"), [({"is_full": False}, ()), ({}, ("statefulsets",))])
def test_where_not_everything_was_seen_nothing_is_removed(options: dict[str, Any], refuse: tuple[str, ...]) -> None:
    api = Api(workload("Deployment", "a"), stale("podfit-gone", **OURS), kinds=SERVED, refuse=refuse)

    assert write(api, **options).removed == 0
    assert api.deleted == []


def test_where_a_group_does_not_say_what_it_has_nothing_is_removed() -> None:
    served = {**SERVED, "serving.kserve.io/v1beta1": ("InferenceService",)}
    api = Api(workload("Deployment", "a"), stale("podfit-uid-of-a-service", **OURS), kinds=served)

    def fault(path: str, _: object) -> None:
        if "serving.kserve.io" in path:
            raise StatusError(503, "service unavailable")

    api.fault = fault

    assert write(api).removed == 0
    assert api.deleted == []


def test_one_that_may_not_be_written_stops_no_other(command: Run) -> None:
    api = Api(workload("Deployment", "a"), workload("Deployment", "b", "other"), kinds=SERVED)

    def fault(path: str, _: object) -> None:
        if "/namespaces/chat/policyreports" in path:
            raise StatusError(403, "forbidden")

    api.fault = fault
    code, _, err = command(api, "--write-reports", "--fail-on", "never")

    assert code == 3
    assert len(api.written) == 1
    assert "error: --write-reports: policyreports.wgpolicyk8s.io in chat: 403: forbidden" in err


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (403, 'policyreports "x" is forbidden: unable to create new content in namespace chat because it is being '
              "terminated"),
        (404, 'namespaces "chat" not found'),
    ],
)  # fmt: skip
def test_a_namespace_that_goes_away_is_no_error(command: Run, code: int, message: str) -> None:
    api = Api(workload("Deployment", "a"), workload("Deployment", "b", "other"), kinds=SERVED)

    def fault(path: str, _: object) -> None:
        if "/namespaces/chat/policyreports" in path:
            raise StatusError(code, message)

    api.fault = fault

    exit_code, _, err = command(api, "--write-reports", "--fail-on", "never")

    assert (exit_code, len(api.written)) == (0, 1)
    assert "error: " not in err


def test_as_a_list_for_kubectl(command: Run) -> None:
    _, out, _ = command(Api(workload("Deployment", "a")), "--format", "policyreport")

    assert json.loads(out)["items"][0]["kind"] == "PolicyReport"
