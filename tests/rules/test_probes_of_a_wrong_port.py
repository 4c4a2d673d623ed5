"""A probe on a port where nothing listens: its other problems are reported at once, not one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import load
from podfit.evaluation.repair import repair
from podfit.vllm.facts import Facts

RULES = ("probe-wrong-path", "probe-wrong-port", "startup-window-too-short")


def pod(**changes: Any) -> dict[str, Any]:
    """A Pod whose startup probe has a wrong port and path, and gives up after 30 s."""
    container: dict[str, Any] = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.21.0",
        "args": ["--model=Qwen/Qwen3-32B", "--max-model-len=8192"],
        "startupProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 5, "failureThreshold": 6},
        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "80Gi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "qwq", **changes.pop("metadata", {})},
        "spec": {
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "containers": [{**container, **changes}],
        },
    }


def found(obj: dict[str, Any], policy: str = "") -> dict[str, GradedFinding]:
    """Rule → its finding."""
    texts = [("policy.yaml", policy)] if policy else []
    report = lint(obj, load(texts), Facts(), where="check")
    return {one.rule: one for one in report.findings if one.rule in RULES}


def test_all_problems_of_the_probe_are_reported_at_once() -> None:
    assert {rule: one.level for rule, one in found(pod()).items()} == {
        "probe-wrong-path": "denied",
        "probe-wrong-port": "denied",
        "startup-window-too-short": "likely",
    }


@pytest.mark.parametrize("mode", ["warn", "audit", "ignore"])
def test_they_are_at_most_as_strong_as_the_wrong_port(mode: str) -> None:
    policy = f"""
apiVersion: podfit.dev/v1alpha1
kind: Policy
metadata:
  name: here
spec:
  rules:
    probe-wrong-port: {{mode: {mode}}}
"""
    modes = {one.mode for one in found(pod(), policy).values()}
    assert modes <= {mode}
    assert modes == {mode} or mode == "ignore"


def test_another_listener_makes_them_disappear() -> None:
    hook = {"postStart": {"exec": {"command": ["start-listener"]}}}
    assert set(found(pod(lifecycle=hook))) == {"probe-wrong-port"}


def test_fix_names_no_finding_that_check_does_not_show() -> None:
    shown = {one.rule for one in lint(pod(), load([]), Facts(), where="check").findings if one.is_reported}
    repaired = repair(pod(), load([]), Facts(), audited=False)
    assert sorted(one.rule for one in (*repaired.repairs, *repaired.left)) == sorted(shown)


@pytest.mark.parametrize("flags", [[], ["--headless"], ["--port=9000"]], ids=["port 8000", "no port", "port 9000"])
@pytest.mark.parametrize(("declared", "reported"), [(8080, False), (9090, True)])
def test_a_port_that_another_container_declares_is_its_own(flags: list[str], declared: int, *, reported: bool) -> None:
    obj = pod(args=["--model=Qwen/Qwen3-32B", *flags])
    obj["spec"]["containers"].append({"name": "nginx", "image": "nginx:1", "ports": [{"containerPort": declared}]})
    assert ("probe-wrong-port" in found(obj)) == reported


def test_a_headless_node_does_not_answer_for_its_sidecar() -> None:
    obj = pod(
        args=["--model=Qwen/Qwen3-32B", "--headless"], startupProbe={"httpGet": {"path": "/healthz", "port": 8000}}
    )
    assert "probe-wrong-port" in found(obj)
    obj["spec"]["containers"].append({"name": "nginx", "image": "nginx:1", "ports": [{"containerPort": 8000}]})
    assert "probe-wrong-port" not in found(obj)


@pytest.mark.parametrize(
    ("policy", "reported"), [({"restartPolicy": "Always"}, False), ({}, True)], ids=["sidecar", "init"]
)
def test_an_init_container_answers_only_as_a_sidecar(policy: dict[str, str], *, reported: bool) -> None:
    obj = pod(args=["--model=Qwen/Qwen3-32B"])
    obj["spec"]["initContainers"] = [
        {"name": "nginx", "image": "nginx:1", "ports": [{"containerPort": 8080}], **policy}
    ]
    assert ("probe-wrong-port" in found(obj)) == reported
