"""Findings where nothing can happen are only audited, and where podfit does not know they are only possible."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts


def _findings(
    image: str,
    args: list[str],
    resources: dict[str, Any] | None = None,
    kind: str = "Pod",
    gpu: str = "NVIDIA-H100-80GB-HBM3",
    **container: Any,
) -> dict[str, GradedFinding]:
    spec: dict[str, Any] = {
        "nodeSelector": {"nvidia.com/gpu.product": gpu},
        "containers": [
            {
                "name": "vllm",
                "image": image,
                "args": args,
                "resources": resources or {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}},
                **container,
            }
        ],
    }
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vllm"}, "spec": spec}
    if kind != "Pod":
        obj = {
            "apiVersion": "serving.kserve.io/v1alpha2",
            "kind": kind,
            "metadata": {"name": "vllm"},
            "spec": {"template": {"containers": [{**spec["containers"][0], "name": "main"}]}},
        }
    report = lint(obj, builtin(), Facts(), where="check")
    assert not report.errors
    return {judged.rule: judged for judged in report.findings}


@pytest.mark.parametrize(("request_", "mode"), [(None, "warn"), ("1Gi", "warn"), ("16Gi", "audit")])
def test_a_memory_request_that_covers_the_need_replaces_the_limit(request_: str | None, mode: str) -> None:
    requests = {"requests": {"memory": request_}} if request_ else {}
    resources = {"limits": {"nvidia.com/gpu": "1"}, **requests}
    findings = _findings("vllm/vllm-openai:v0.27.1", ["Qwen/Qwen3-8B", "--max-model-len=8192"], resources)
    assert findings["memory-limit-missing"].mode == mode


@pytest.mark.parametrize(("model", "mode"), [("Qwen/Qwen3-0.6B", "audit"), ("Qwen/Qwen3-32B", "warn")])
def test_a_container_that_fits_every_gpu_may_get_any(model: str, mode: str) -> None:
    args = ["--model", model, "--max-model-len=4096", "--dtype=float16"]
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.10.2",
        "args": args,
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vllm"}, "spec": {"containers": [container]}}
    report = lint(obj, builtin(), Facts(plans_table=True), where="check")
    (finding,) = [judged for judged in report.findings if judged.rule == "unknown-gpu"]
    assert finding.mode == mode


def test_the_model_of_a_preset_is_that_of_its_services() -> None:
    args = ["{{ .Spec.Model.Name }}"]
    preset = _findings("vllm/vllm-openai:v0.27.1", args, kind="LLMInferenceServiceConfig", command=["vllm", "serve"])
    assert preset["unknown-model"].mode == "audit"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            "acme/house-70b",
            "unknown model 'acme/house-70b'; its name says 70B parameters: only its weights are estimated",
        ),
        ("acme/house", "unknown model 'acme/house': its memory is not checked"),
    ],
)
def test_an_unknown_model_names_the_known_part(model: str, message: str) -> None:
    assert _findings("vllm/vllm-openai:v0.27.1", [model])["unknown-model"].message == message


@pytest.mark.parametrize(("release", "is_found"), [("0.7.3", False), ("0.8.5", False), ("0.9.2", True)])
def test_float16_of_gemma_is_denied_since_there_is_a_table(release: str, *, is_found: bool) -> None:
    findings = _findings(f"vllm/vllm-openai:v{release}", ["--model", "google/gemma-2-9b-it", "--dtype=float16"])
    assert ("model-lacks-dtype" in findings) is is_found


@pytest.mark.parametrize(("length", "level"), [([], "advice"), (["--max-model-len=131072"], "likely")])
def test_requests_need_not_reach_a_default_length(length: list[str], level: str) -> None:
    args = ["openai/gpt-oss-20b", "--gpu-memory-utilization=0.74", *length]
    findings = _findings("vllm/vllm-openai:v0.14.1", args, gpu="NVIDIA-L4")
    assert findings["request-never-finishes"].level == level


@pytest.mark.parametrize(
    ("script", "is_repaired"),
    [
        ("export NIXL_PLUGIN_DIR=/opt/nvda_nixl/plugins\nvllm serve Qwen/Qwen3-8B", True),
        ("export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\nvllm serve Qwen/Qwen3-8B", False),
    ],
)
def test_a_script_is_repaired_unless_it_has_a_secret(script: str, *, is_repaired: bool) -> None:
    findings = _findings("vllm/vllm-openai:v0.27.1", [script], command=["sh", "-c"])
    finding = findings["shell-swallows-sigterm"].finding
    assert bool(finding.fix) is is_repaired
    assert ("not repaired: the text contains a secret" in finding.details) is not is_repaired


def test_a_script_with_the_name_of_a_signal_hides_none_in_messages() -> None:
    script = "trap 'kill -SIGTERM $!' SIGTERM\nvllm serve Qwen/Qwen3-8B &\nwait"
    findings = _findings("vllm/vllm-openai:v0.27.1", [script], command=["bash", "-c"])
    assert "SIGTERM" in findings["shell-swallows-sigterm"].message


@pytest.mark.parametrize(
    ("script", "mode"),
    [
        ("vllm serve Qwen/Qwen3-8B; true", "warn"),
        ("trap 'kill $PID' TERM\nvllm serve Qwen/Qwen3-8B & PID=$!\nwait $PID", "audit"),
    ],
)
def test_a_script_with_a_trap_may_pass_the_signal_on(script: str, mode: str) -> None:
    findings = _findings("vllm/vllm-openai:v0.27.1", [script], command=["bash", "-c"])
    assert findings["shell-swallows-sigterm"].mode == mode


@pytest.mark.parametrize(("request_", "is_evicted"), [(None, True), ("1Gi", False)])
def test_a_container_without_memory_request_is_evicted_first(request_: str | None, *, is_evicted: bool) -> None:
    requests = {"requests": {"memory": request_}} if request_ else {}
    resources = {"limits": {"nvidia.com/gpu": "1"}, **requests}
    finding = _findings("vllm/vllm-openai:v0.27.1", ["Qwen/Qwen3-8B"], resources)["memory-limit-missing"].finding
    assert finding.message.startswith("no host memory request or limit;") is is_evicted
    assert any("evicts the Pod first" in detail for detail in finding.details) is is_evicted


@pytest.mark.parametrize(("gpu", "mode"), [("NVIDIA-H100-80GB-HBM3", "warn"), ("a-new-gpu", "audit")])
def test_the_default_length_is_reported_with_what_it_costs(gpu: str, mode: str) -> None:
    args = ["meta-llama/Llama-3.1-8B-Instruct"]
    assert _findings("vllm/vllm-openai:v0.27.1", args, gpu=gpu)["max-model-len-unset"].mode == mode


def test_a_model_in_the_wrong_place_is_suggested_in_the_right_one() -> None:
    args = ["--model", "Qwen/Qwen3-8B"]
    finding = _findings("vllm/vllm-openai:v0.10.2", args, command=["vllm", "serve"])["invalid-flag-value"].finding
    assert finding.suggestions == ("`vllm serve Qwen/Qwen3-8B …`, without --model",)


@pytest.mark.parametrize(("args", "mode"), [([], "audit"), (["--kv-offloading-size", "16"], "warn")])
def test_a_memory_volume_grows_only_by_what_is_offloaded(args: list[str], mode: str) -> None:
    volume = {"name": "shm", "emptyDir": {"medium": "Memory"}}
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.27.1",
        "args": ["Qwen/Qwen3-8B", *args],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    spec = {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "containers": [container],
        "volumes": [volume],
    }
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vllm"}, "spec": spec}
    report = lint(obj, builtin(), Facts(), where="check")
    (finding,) = [judged for judged in report.findings if judged.rule == "shm-unbounded"]
    assert finding.mode == mode


def test_a_placeholder_for_the_model_is_reported_once() -> None:
    findings = _findings("vllm/vllm-openai:v0.27.1", ["REPLACE_WITH_MODEL"])
    assert "placeholder-value" in findings
    assert "unknown-model" not in findings


@pytest.mark.parametrize(("release", "level"), [("0.33.0", "likely"), ("0.99.0", "advice")])
def test_what_a_release_that_was_not_read_requires_is_only_possible(release: str, level: str) -> None:
    findings = _findings(f"vllm/vllm-openai:v{release}", ["--model=zai-org/glm-4v-9b", "--trust-remote-code"])

    assert findings["flag-required-by-model"].level == level
