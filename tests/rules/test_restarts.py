"""A container that is restarted before it has started: what its volumes keep makes the next start shorter."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import load
from podfit.vllm.facts import Facts

CACHE = "/root/.cache/huggingface"
EMPTY_DIR: dict[str, Any] = {"emptyDir": {}}


def probe_finding(probe: str, seconds: int, volume: dict[str, Any] | None = None, **mount: Any) -> GradedFinding | None:
    """The finding about the window of a Pod's probe. Its first start takes about 98 s, of which the download is 32 s.

    `volume`: the source of a volume, mounted at the hub's cache."""
    container: dict[str, Any] = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.27.1",
        "args": ["unsloth/Llama-3.1-8B-Instruct", "--max-model-len=8192"],
        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "32Gi"}},
        probe: {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1, "failureThreshold": seconds},
    }
    spec: dict[str, Any] = {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        "containers": [container],
    }
    if volume is not None:
        spec["volumes"] = [{"name": "files", **volume}]
        container["volumeMounts"] = [{"name": "files", "mountPath": CACHE, **mount}]
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llama"}, "spec": spec}
    rules = ("liveness-probe-kills-startup", "startup-window-too-short")
    findings = lint(obj, load([]), Facts(), where="check").findings
    return next((finding for finding in findings if finding.rule in rules), None)


@pytest.mark.parametrize("probe", ["livenessProbe", "startupProbe"])
@pytest.mark.parametrize(
    ("volume", "mount", "seconds", "level"),
    [
        (None, {}, 90, "likely"),
        (EMPTY_DIR, {}, 90, "advice"),
        (EMPTY_DIR, {"readOnly": True}, 90, "likely"),
        (EMPTY_DIR, {"mountPath": "/cache"}, 90, "likely"),
        (EMPTY_DIR, {}, 60, "likely"),
        (EMPTY_DIR, {}, 5, "denied"),
    ],
)
def test_a_restart_that_needs_no_download_may_end_the_loop(
    probe: str, volume: dict[str, Any] | None, mount: dict[str, Any], seconds: int, level: str
) -> None:
    finding = probe_finding(probe, seconds, volume, **mount)
    assert finding is not None
    assert finding.level == level
    assert any("once the files are in the volume" in line for line in finding.finding.details) == (level == "advice")
