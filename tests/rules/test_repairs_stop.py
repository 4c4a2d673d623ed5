"""What a repair leaves to its reader: very long waits, a limit tripled on a guess; and the author's own words."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube.patch import apply, json_patch
from podfit.vllm.facts import Facts

HEALTH = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}


def _pod(model: str, image: str = "vllm/vllm-openai:v0.27.1", **container: Any) -> dict[str, Any]:
    spec = {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"},
        "containers": [
            {
                "name": "vllm",
                "image": image,
                "args": [model, "--max-model-len", "8192"],
                "ports": [{"name": "http", "containerPort": 8000}],
                "readinessProbe": HEALTH,
                "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}, "requests": {"memory": "24Gi"}},
                **container,
            }
        ],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llm"}, "spec": spec}


def _repaired(pod: dict[str, Any], rule: str) -> dict[str, Any]:
    """The only container after the repairs of one rule."""
    report = lint(pod, builtin(), Facts(), where="check")
    edits = [edit for one in report.findings if one.rule == rule for edit in one.finding.fix]
    container: dict[str, Any] = apply(pod, json_patch(pod, edits))["spec"]["containers"][0]
    return container


def test_a_new_probe_names_the_port_as_the_author_does() -> None:
    pod = _pod("Qwen/Qwen3-8B", livenessProbe={**HEALTH, "failureThreshold": 1, "periodSeconds": 10})

    probe = _repaired(pod, "liveness-probe-kills-startup")["startupProbe"]

    assert probe["httpGet"] == {"path": "/health", "port": "http"}


@pytest.mark.parametrize(("model", "added"), [("Qwen/Qwen3-8B", True), ("meta-llama/Llama-3.1-405B-Instruct", False)])
def test_a_probe_that_waits_for_hours_is_only_suggested(model: str, added: bool) -> None:
    pod = _pod(model, livenessProbe={**HEALTH, "failureThreshold": 1, "periodSeconds": 10})

    report = lint(pod, builtin(), Facts(), where="check")
    found = next(one for one in report.findings if one.rule == "liveness-probe-kills-startup")

    assert found.finding.suggestions
    assert bool(found.finding.fix) == added


@pytest.mark.parametrize(
    ("model", "image", "limit", "raised"),
    [
        ("Qwen/Qwen3-8B", "vllm/vllm-openai:v0.27.1", "3Gi", True),
        ("Qwen/Qwen3-8B", "registry.example.com/llm/server:7", "3Gi", False),
        ("Qwen/Qwen3-0.6B", "registry.example.com/llm/server:7", "7Gi", True),
    ],
)
def test_a_limit_is_not_tripled_on_a_guess(model: str, image: str, limit: str, raised: bool) -> None:
    resources = {"limits": {"nvidia.com/gpu": "1", "memory": limit}, "requests": {"memory": limit}}
    pod = _pod(model, image, command=["vllm", "serve"], resources=resources)

    after = {
        _repaired(pod, rule)["resources"]["limits"]["memory"]
        for rule in ("memory-limit-too-low", "memory-headroom-missing")
    }

    assert (after != {limit}) == raised
