"""What is said instead of a slip: a dash, a blank, a flag that is gone, a label of the GPU's own maker."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import GradedFinding, Result, lint
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts


def judged(*args: str, tag: str = "v0.24.0", resource: str = "nvidia.com/gpu", **spec: Any) -> Result:
    container = {
        "name": "vllm",
        "image": f"vllm/vllm-openai:{tag}",
        "args": ["Qwen/Qwen3-4B", *args],
        "resources": {"limits": {resource: "1", "memory": "64Gi"}},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container], **spec}}
    (result,) = lint(pod, builtin(), Facts(), where="check").results
    return result


def found(result: Result, rule: str) -> list[GradedFinding]:
    return [one for one in result.findings if one.rule == rule]


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("--max-model-len ", "8192"), "--max-model-len"),
        ((" --enable-prefix-caching",), "--enable-prefix-caching"),
        (("—enable-prefix-caching",), "--enable-prefix-caching"),
        (("–max-model-len", "8192"), "--max-model-len"),
        (("—max-model-len=8192",), "--max-model-len=8192"),
        (("—max_model_len=8192",), "--max_model_len=8192"),
    ],
)
def test_another_dash_or_a_blank_is_the_flag_that_is_meant(args: tuple[str, ...], meant: str) -> None:
    (only,) = found(judged(*args), "invalid-flag-value")  # and nothing about its value
    assert only.mode == "deny"
    assert only.finding.suggestions == (meant,)
    assert only.finding.fix


@pytest.mark.parametrize("args", [("—no-flag-of-vllm",), ("— max-model-len",), ("two words",)])
def test_what_is_no_flag_is_not_taken_for_one(args: tuple[str, ...]) -> None:
    (only,) = found(judged(*args), "invalid-flag-value")
    assert only.finding.suggestions == ()
    assert not only.finding.fix


def test_a_value_with_a_trailing_blank_is_the_choice_that_is_near() -> None:
    (only,) = found(judged("--dtype", "half "), "invalid-flag-value")
    assert only.finding.suggestions == ("--dtype half",)


@pytest.mark.parametrize(
    ("task", "instead"),
    [
        ("embed", "--runner pooling --convert embed"),
        ("score", "--runner pooling"),
        ("generate", "--runner generate"),
        ("nonsense", "--runner and --convert"),
    ],
)
def test_a_task_is_told_what_it_became(task: str, instead: str) -> None:
    for args in (("--task", task), (f"--task={task}",)):
        (only,) = found(judged(*args), "removed-flag")
        assert only.finding.suggestions == (instead,)


def test_tool_choice_without_a_parser_is_told_the_parsers() -> None:
    for tag, rule in (("v0.24.0", "invalid-flag-value"), ("v0.10.2", "conflicting-flags")):
        (only,) = found(judged("--enable-auto-tool-choice", tag=tag), rule)
        assert only.finding.suggestions[-1] == "without --enable-auto-tool-choice"
        assert any("hermes" in line for line in only.finding.details)


@pytest.mark.parametrize(
    ("text", "suggestions"),
    [
        (
            "--served-model-name my model",
            ('two items: "--served-model-name", "my model"', 'three items: "--served-model-name", "my", "model"'),
        ),
        ("--chat-template my file.jinja", ('two items: "--chat-template", "my file.jinja"',)),
    ],
)
def test_a_value_with_a_blank_stays_one_value(text: str, suggestions: tuple[str, ...]) -> None:
    (only,) = found(judged(text), "argument-string-not-split")
    assert only.finding.suggestions == suggestions
    assert not only.finding.fix  # whether one name is meant or two, is not for us to decide


def test_several_flags_in_one_item_are_still_split() -> None:
    (only,) = found(judged("--max-model-len 8192 --port 8001"), "argument-string-not-split")
    assert only.finding.suggestions == ('four items: "--max-model-len", "8192", "--port", "8001"',)
    assert only.finding.fix


@pytest.mark.parametrize(
    ("resource", "label"),
    [("nvidia.com/gpu", "nvidia.com/gpu.product"), ("amd.com/gpu", "amd.com/gpu.product-name")],
)
def test_an_unknown_gpu_is_told_its_makers_label(resource: str, label: str) -> None:
    (only,) = found(judged(resource=resource), "unknown-gpu")
    assert only.finding.suggestions == (f"nodeSelector {label} with the GPU's label",)


def test_what_is_computed_of_doubtful_weights_says_so() -> None:
    args = ("--model", "mistralai/Mistral-Large-3-675B-Instruct-2512", "--tensor-parallel-size", "8")
    result = judged(*args, tag="v0.10.2")
    (cache,) = found(result, "model-cache-missing")
    assert cache.finding.message.endswith("the model is downloaded again at each restart")
    assert cache.suggestions[0].startswith("a PersistentVolumeClaim mounted at")
    (probe,) = found(result, "startup-probe-missing")
    assert probe.finding.details[-1].startswith("how large the weights are is doubtful: ")
    (sure,) = found(judged(), "model-cache-missing")
    assert "7.5 GiB" in sure.finding.message


def test_a_script_that_installs_its_release_is_not_denied_for_memory() -> None:
    serve = "exec vllm serve Qwen/Qwen3-32B --max-model-len 8192"
    modes = {}
    for script in (serve, f"pip install vllm==0.24.0; {serve}"):
        container = {
            "name": "vllm",
            "image": "vllm/vllm-openai:v0.24.0",
            "command": ["bash", "-c", script],
            "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}},
        }
        spec = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}, "containers": [container]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
        (result,) = lint(pod, builtin(), Facts(), where="check").results
        (modes[script],) = {one.mode for one in found(result, "gpu-memory-exceeded")}
    assert list(modes.values()) == ["deny", "warn"]


def test_a_pod_that_is_never_restarted_downloads_once() -> None:
    assert found(judged(), "model-cache-missing")
    assert not found(judged(restartPolicy="Never"), "model-cache-missing")


def test_a_step_of_argo_is_never_restarted_in_its_pod() -> None:
    container = {
        "image": "vllm/vllm-openai:v0.24.0",
        "args": ["Qwen/Qwen3-4B"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    spec = {"entrypoint": "serve", "templates": [{"name": "serve", "container": container}]}
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "x"}, "spec": spec}
    (result,) = lint(workflow, builtin(), Facts(), where="check").results
    assert not found(result, "model-cache-missing")
