"""`podfit scan` as a user types it, against a real API server with real controllers."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from podfit.report.policy_report import LABEL
from tests.conftest import GOOD_POD
from tests.e2e import reports
from tests.e2e.controlplane import HOST, STRANGER, Cluster
from tests.e2e.process import kill, start, until
from tests.e2e.release import SOURCES, Podfit, render
from tests.e2e.user import User
from tests.reviews import deployment, doomed

JSONDict = dict[str, Any]
UserOf = Callable[[Podfit], User]
POLICY, OPEN = "wgpolicyk8s.io/v1alpha2", "openreports.io/v1alpha1"


def scan(cluster: Cluster, *words: str, user: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command on a machine without kubectl, with a user's own kubeconfig."""
    env = {**os.environ, "PATH": "", "KUBECONFIG": str(cluster.kubeconfig(user=user))}
    command = [sys.executable, "-m", "podfit.cli", "scan", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def told(done: subprocess.CompletedProcess[str]) -> JSONDict:
    """Its JSON."""
    assert done.stdout, done.stderr
    found: JSONDict = json.loads(done.stdout)
    return found


@pytest.fixture(name="user")
def _user(podfit: Podfit, user_of: UserOf) -> User:
    """A user with a bad Deployment, whose Pods the controllers made, and a good Pod."""
    user = user_of(podfit)
    user.write("bad.yaml", deployment(doomed(GOOD_POD)))
    user.write("good.yaml", {**GOOD_POD, "metadata": {"name": "good"}})
    with user.before_podfit():
        user.kubectl("apply -f bad.yaml -f good.yaml")
        until("the Deployment's Pods", lambda: len(user.listed("pods")) > 1)
    return user


def test_a_deployment_and_its_pods_count_once(user: User) -> None:
    done = scan(user.cluster, "-n", user.namespace, "--format", "json")

    found = told(done)
    assert done.returncode == 1, done.stderr
    assert [(one["object"]["kind"], one["object"]["name"], one["state"]) for one in found["results"]] == [
        ("Deployment", "llama-8b", "denied"),
        ("Pod", "good", "clean"),
    ]
    assert [one["kind"] for one in found["not_read"]] == ["configmaps (podfit's policy)"], "no chart is installed"
    assert not found["errors"]


def test_all_namespaces_and_what_a_stricter_rule_would_break(user: User) -> None:
    done = scan(user.cluster, "--what-if", "model-cache-missing=deny", "--limit", "0")

    assert f"Deployment {user.namespace}/llama-8b" in done.stdout
    assert "what if: " in done.stdout


def test_who_may_read_nothing_is_told_what_to_type(user: User) -> None:
    done = scan(user.cluster, user=STRANGER)

    assert done.returncode == 3
    assert 'User "stranger" cannot list' in done.stderr
    assert "podfit scan -n NAMESPACE" in done.stderr


def test_reports_are_written_where_a_cluster_has_their_kinds(user: User) -> None:
    done = scan(user.cluster, "-n", user.namespace, "--write-reports")

    assert done.returncode == 3
    assert "has neither wgpolicyk8s.io/v1alpha2 nor openreports.io/v1alpha1" in done.stderr


def found_reports(user: User, version: str, plural: str) -> dict[str, JSONDict]:
    """Workload → its report."""
    status, answer = user.cluster.call("GET", f"/apis/{version}/namespaces/{user.namespace}/{plural}")
    assert status == 200, answer
    return {one["scope"]["name"]: one for one in answer["items"]}


@pytest.mark.parametrize("groups", [("wgpolicyk8s.io", "openreports.io"), ("openreports.io",)])
def test_a_report_lives_as_long_as_what_it_says(user: User, groups: tuple[str, ...]) -> None:
    with reports.installed(user.cluster, *groups):
        done = scan(user.cluster, "-n", user.namespace, "--write-reports", "--fail-on", "never")
        assert done.returncode == 0, done.stderr
        assert f"{2 * len(groups)} reports written" in done.stderr

        first = found_reports(user, OPEN, "reports")
        llama = user.get("apps/deployments", "llama-8b")["metadata"]["uid"]
        assert set(first) == {"llama-8b", "good"}
        assert first["llama-8b"]["metadata"]["ownerReferences"][0]["uid"] == llama
        failed = [one for one in first["llama-8b"]["results"] if one["result"] == "fail"]
        assert [one["rule"] for one in failed] == ["unknown-flag"]
        assert failed[0]["properties"]["plane"] == "config"
        assert first["llama-8b"]["summary"]["fail"] == 1
        assert first["good"]["summary"] == {"pass": 1, "fail": 0, "warn": 0, "error": 0, "skip": 0}
        if POLICY.partition("/")[0] in groups:
            assert set(found_reports(user, POLICY, "policyreports")) == {"llama-8b", "good"}

        # fixed: the next scan replaces the report
        user.write("mended.yaml", deployment(GOOD_POD))
        user.kubectl("apply -f mended.yaml")
        scan(user.cluster, "-n", user.namespace, "--write-reports", "--fail-on", "never")
        assert found_reports(user, OPEN, "reports")["llama-8b"]["summary"]["fail"] == 0

        # the Pod is gone, and took its report along; what is left of ours without a workload goes, others' stays
        for name, labels in (("podfit-old", dict([LABEL])), ("kyverno-1", {LABEL[0]: "kyverno"})):
            stale = {"metadata": {"name": name, "labels": labels}, "scope": {"name": name}}
            path = f"/apis/{OPEN}/namespaces/{user.namespace}/reports"
            status, answer = user.cluster.call("POST", path, {"apiVersion": OPEN, "kind": "Report", **stale})
            assert status == 201, answer
        user.kubectl("delete -f good.yaml --now")
        until("the Pod's report to go with it", lambda: "good" not in found_reports(user, OPEN, "reports"))
        last = scan(user.cluster, "-n", user.namespace, "--write-reports")
        assert " stale removed" in last.stderr
        assert set(found_reports(user, OPEN, "reports")) == {"llama-8b", "kyverno-1"}


@contextmanager
def with_the_charts_rights(user: User, values: JSONDict) -> Iterator[None]:
    """A user without rights gets those of the chart's scanner until the block ends."""
    rbac, own = "/apis/rbac.authorization.k8s.io/v1", user.podfit.name
    with ExitStack() as stack:
        for obj in render(user.cluster.helm, own, own, {"scan": values}):
            roles = obj["kind"] in ("ClusterRole", "ClusterRoleBinding")
            if not roles or not obj["metadata"]["name"].endswith("-scan"):
                continue
            if "subjects" in obj:
                obj["subjects"] = [{"kind": "User", "name": STRANGER, "apiGroup": "rbac.authorization.k8s.io"}]
            path = f"{rbac}/{obj['kind'].lower()}s"
            status, answer = user.cluster.call("POST", path, obj)
            assert status == 201, answer
            stack.callback(user.cluster.call, "DELETE", f"{path}/{obj['metadata']['name']}")
        yield


def test_the_charts_rights_are_enough_to_scan_and_to_write_reports(user: User) -> None:
    rights = with_the_charts_rights(user, {"cronJob": {"enabled": True}})
    with rights, reports.installed(user.cluster, "openreports.io"):
        said = [""]

        def scanned() -> subprocess.CompletedProcess[str] | None:
            """Rights hold a moment after they were written."""
            done = scan(user.cluster, "--format", "json", "--write-reports", "--fail-on", "never", user=STRANGER)
            said[:] = [done.stderr]
            return done if done.returncode == 0 else None

        done = until("the rights to hold", scanned, lambda: said[0])

        assert {one["kind"] for one in told(done)["not_read"]} <= {
            "configmaps", "configmaps (by name)", "configmaps (podfit's policy)",
        }  # fmt: skip
        assert set(found_reports(user, OPEN, "reports")) == {"llama-8b", "good"}


def test_an_exporter_with_the_charts_rights_writes_an_event_per_bad_workload_once(user: User, tmp_path: Path) -> None:
    def ours() -> list[JSONDict]:
        return [one for one in user.listed("events") if one["reason"] == "PodfitWouldNotStart"]

    def scanned(port: int) -> str:
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=30) as answer:
            return str(answer.read().decode())

    with socket.socket() as free:
        free.bind((HOST, 0))
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "podfit.cli", "scan", f"--serve={HOST}:{port}", "--every=0.1", "--write-events"]
    command.append(f"--namespace={user.namespace}")  # the workloads of other tests would use up the Events of a minute
    env = {**os.environ, "KUBECONFIG": str(user.cluster.kubeconfig(user=STRANGER)), "PYTHONPATH": SOURCES}
    with with_the_charts_rights(user, {"exporter": {"enabled": True, "events": True}}):
        process = start(command, tmp_path / "exporter.log", env)
        try:
            (event,) = until("an Event", ours, lambda: (tmp_path / "exporter.log").read_text())
            until("a repeat", lambda: re.search(r'outcome="repeated"} [1-9]', scanned(port)))
        finally:
            kill(process)

    assert event["message"].startswith("vLLM would not start: 1 problem (unknown-flag) in container")
    assert event["involvedObject"]["uid"] == user.get("apps/deployments", "llama-8b")["metadata"]["uid"]
    assert len(ours()) == 1, "none of the Pods, and none again"
    assert "PodfitWouldNotStart" in user.kubectl("events --for deployment/llama-8b")
