"""Containers that take vLLM's arguments and are another server, or vLLM of a release that was not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import builtin
from podfit.kube.manifest import read
from podfit.report import files
from podfit.vllm.facts import Facts

OWN_FLAGS = ("--stage-configs-path", "/stages.yaml", "--stage-init-timeout", "600", "--kv-cache-dtype", "int3")


def pod(image: str, command: Sequence[str], gpu: str = "NVIDIA-L4", count: int = 1) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(count), "memory": "64Gi"}}
    container = {"name": "server", "image": image, "command": [*command], "resources": resources}
    spec = {"nodeSelector": {"nvidia.com/gpu.product": gpu}, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "server"}, "spec": spec}


def findings(obj: dict[str, Any]) -> dict[str, GradedFinding]:
    """Rule → its finding, of the only container."""
    report = lint(obj, builtin(), Facts(), where="check")
    assert report.errors == ()
    return {one.rule: one for one in report.findings}


@pytest.mark.parametrize(
    ("image", "command"),
    [
        ("vllm/vllm-openai:v0.27.1", ["vllm", "serve", "Qwen/Qwen2.5-Omni-7B", "--omni", *OWN_FLAGS]),
        ("vllm/vllm-omni:v0.20.0", ["vllm", "serve", "Qwen/Qwen2.5-Omni-7B", *OWN_FLAGS]),
        ("acme/speech:1", ["vllm-omni", "serve", "Qwen/Qwen2.5-Omni-7B", *OWN_FLAGS]),
        ("acme/speech:1", ["sh", "-c", "exec vllm serve Qwen/Qwen2.5-Omni-7B --omni --kv-cache-dtype int3"]),
    ],
)
def test_flags_and_memory_of_vllm_omni_are_not_checked_and_a_note_says_so(image: str, command: list[str]) -> None:
    obj = pod(image, command)
    found = findings(obj)

    assert {one.plane for one in found.values()} <= {"config", "network", "storage"}
    assert found.keys().isdisjoint({"unknown-flag", "invalid-flag-value", "removed-flag", "gpu-memory-exceeded"})
    manifests = read(yaml.safe_dump(obj).encode(), "pod.yaml")
    (note,) = files.check(files.ManifestFile("pod.yaml", manifests, Facts()), builtin()).notes
    assert "container 'server' runs vLLM-Omni, another server" in note


def test_the_same_command_without_omni_is_vllms() -> None:
    found = findings(pod("vllm/vllm-openai:v0.27.1", ["vllm", "serve", "Qwen/Qwen2.5-Omni-7B", *OWN_FLAGS]))

    assert found["unknown-flag"].mode == found["invalid-flag-value"].mode == "deny"


def test_a_program_of_the_image_may_load_a_model_of_the_image() -> None:
    command = ["python3", "/workspace/vllm/inference_api.py", "--max-model-len=4096", "--dtype=float16"]
    found = findings(pod("vllm/vllm-openai:v0.27.1", command))["unknown-model"].finding

    assert found.message == "no model is named: /workspace/vllm/inference_api.py may load one of its image"


VALUES = (
    (["--kv-cache-dtype", "fp3"], "invalid-flag-value"),
    (["--moe-backend", "spiral"], "invalid-flag-value"),
    (["--load-format", "safetensorz"], "invalid-flag-value"),
    (["--tool-call-parser", "minimax_m9", "--enable-auto-tool-choice"], "unknown-parser"),
    (["--compilation-config", '{"mode": 3, "of_a_later_release": 1}'], "unknown-config-key"),
    (["--speculative-config", '{"method": "eagle9", "model": "a/b"}'], "invalid-flag-value"),
)


@pytest.mark.parametrize(("args", "rule"), VALUES, ids=lambda one: str(one[0]) if isinstance(one, list) else one)
def test_a_value_that_no_release_knows_is_advice_if_the_image_may_be_newer(args: list[str], rule: str) -> None:
    command = ["vllm", "serve", "Qwen/Qwen3-8B", *args]

    for image in ("nightly", "minimax-m3", "nightly-dev-abc"):
        found = findings(pod(f"vllm/vllm-openai:{image}", command))
        assert rule not in found or found[rule].level == "advice", image
    assert findings(pod("vllm/vllm-openai:v0.27.1", command))[rule].level == "denied"


def test_a_flag_and_a_value_of_another_type_stay_likely() -> None:
    command = ["vllm", "serve", "Qwen/Qwen3-8B", "--gpu-memory-utilisation", "0.9", "--max-model-len", "long"]
    found = findings(pod("vllm/vllm-openai:nightly", command))

    assert found["unknown-flag"].level == found["invalid-flag-value"].level == "likely"
