"""A rule yields to another only if that one is at least as strong under the policy in force."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import load
from podfit.vllm.facts import Facts

SHORT = {"httpGet": {"path": "/health", "port": 8000}, "initialDelaySeconds": 20}
DELAYED = {"httpGet": {"path": "/health", "port": 8000}, "initialDelaySeconds": 1200}
PATIENT = {"httpGet": {"path": "/health", "port": 8000}, "failureThreshold": 360}
MISSING, KILLS = "startup-probe-missing", "liveness-probe-kills-startup"
DELAY = "initial-delay-instead-of-startup-probe"


def _modes(pod: dict[str, Any], probe: dict[str, Any] | None, modes: dict[str, str]) -> dict[str, str]:
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    container = pod["spec"]["containers"][0]
    container.pop("startupProbe", None)
    container.update(image="vllm/vllm-openai:v0.27.1", args=["Qwen/Qwen3-8B", "--max-model-len=8192"])
    container["resources"] = {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}}
    if probe is not None:
        container["livenessProbe"] = probe
    rules = "".join(f"\n    {rule}: {{mode: {mode}}}" for rule, mode in modes.items())
    header = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: default}\nspec:\n  rules:"
    policy = load([("policy.yaml", f"{header}{rules or ' {}'}\n")])
    report = lint(pod, policy, Facts(), where="check")
    assert not report.errors
    return {one.rule: one.mode for one in report.findings if one.rule in (MISSING, KILLS, DELAY)}


@pytest.mark.parametrize(
    ("probe", "modes", "found"),
    [
        (None, {}, {MISSING: "audit"}),
        (None, {MISSING: "deny"}, {MISSING: "deny"}),
        (SHORT, {}, {KILLS: "warn"}),
        (SHORT, {KILLS: "deny", MISSING: "warn"}, {KILLS: "warn"}),
        (SHORT, {MISSING: "deny"}, {KILLS: "warn", MISSING: "deny"}),
        (SHORT, {KILLS: "ignore"}, {MISSING: "warn"}),
        (SHORT, {KILLS: "audit"}, {KILLS: "audit", MISSING: "warn"}),
        (DELAYED, {}, {DELAY: "warn"}),
        (DELAYED, {MISSING: "deny"}, {DELAY: "warn", MISSING: "deny"}),
        (DELAYED, {MISSING: "deny", DELAY: "deny"}, {DELAY: "deny"}),
        (PATIENT, {MISSING: "deny"}, {}),
    ],
)
def test_the_worse_manifest_does_not_pass(
    pod: dict[str, Any], probe: dict[str, Any] | None, modes: dict[str, str], found: dict[str, str]
) -> None:
    assert _modes(pod, probe, modes) == found
