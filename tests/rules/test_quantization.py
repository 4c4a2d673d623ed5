"""--quantization and the checkpoint: a method that its release rejects, and a similar one that it accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts, GivenModel
from tests.vllm.memory.engines import LLAMA_8B

FP8: Mapping[str, Any] = {"quant_method": "fp8", "activation_scheme": "dynamic"}
MXFP4: Mapping[str, Any] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
PACKED: Mapping[str, Any] = {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
        "num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True, "dynamic": False}}},
}  # fmt: skip
GPTQ: Mapping[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
ASYMMETRIC: Mapping[str, Any] = {**GPTQ, "sym": False}


def said(
    pod: dict[str, Any], release: str, scheme: Mapping[str, Any] | None, *args: str, rule: str = "quantization-mismatch"
) -> list[GradedFinding]:
    """The findings about one command line on an H100."""
    config = {**LLAMA_8B, **({"quantization_config": {**scheme}} if scheme else {})}
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    container = pod["spec"]["containers"][0]
    container.update(image=f"vllm/vllm-openai:v{release}", args=["--model", "acme/ours", *args])
    container["resources"] = {"limits": {"nvidia.com/gpu": "1", "memory": "640Gi"}}
    report = lint(pod, builtin(), Facts(models={"acme/ours": GivenModel(config, "models.yaml")}), where="check")
    assert not report.errors
    return [one for one in report.findings if one.rule == rule]


@pytest.mark.parametrize(
    ("release", "scheme", "method", "problem"),
    [
        ("0.33.0", None, "compressed-tensors", "is not quantized"),
        ("0.11.0", None, "quark", "is not quantized"),
        ("0.33.0", None, "online", "is not quantized"),
        ("0.19.1", None, "experts_int8", "is deprecated"),
        ("0.11.0", FP8, "ptpc_fp8", "is quantized with fp8"),
        ("0.33.0", PACKED, "moe_wna16", "is quantized with compressed-tensors"),
        ("0.33.0", FP8, "fp8_per_block", "is quantized with fp8"),
        ("0.28.0", GPTQ, "fp8_per_tensor", "is quantized with gptq"),
        ("0.28.0", PACKED, "int8_per_channel_weight_only", "is quantized with compressed-tensors"),
        ("0.19.1", GPTQ, "mxfp8", "is quantized with gptq"),
        ("0.11.0", MXFP4, "bitsandbytes", "is quantized with mxfp4"),
        ("0.19.1", ASYMMETRIC, "gptq_marlin", "needs symmetric weights"),
    ],
)
def test_a_method_that_is_refused_is_denied(
    pod: dict[str, Any], release: str, scheme: Mapping[str, Any] | None, method: str, problem: str
) -> None:
    (found,) = said(pod, release, scheme, "--quantization", method)
    assert found.mode == "deny"
    assert problem in found.finding.message


@pytest.mark.parametrize(
    ("release", "scheme", "args"),
    [
        ("0.33.0", None, ["--quantization", "fp8"]),
        ("0.11.0", None, ["--quantization", "experts_int8"]),
        ("0.19.1", None, ["--quantization", "experts_int8", "--allow-deprecated-quantization"]),
        ("0.33.0", MXFP4, ["--quantization", "bitsandbytes"]),
        ("0.33.0", FP8, []),
        ("0.19.1", GPTQ, ["--quantization", "moe_wna16"]),
        ("0.19.1", GPTQ, ["--quantization", "gptq_marlin"]),
        ("0.19.1", ASYMMETRIC, ["--quantization", "gptq"]),
        ("0.33.0", GPTQ, []),
    ],
)
def test_a_method_that_is_taken_is_not_mentioned(
    pod: dict[str, Any], release: str, scheme: Mapping[str, Any] | None, args: list[str]
) -> None:
    assert said(pod, release, scheme, *args) == []


def test_asymmetric_weights_are_reported_without_the_flag(pod: dict[str, Any]) -> None:
    (found,) = said(pod, "0.33.0", ASYMMETRIC)
    assert found.mode == "warn"
    assert "symmetric weights alone" in found.finding.message


def test_an_override_of_another_value_leaves_the_scheme_known(pod: dict[str, Any]) -> None:
    (found,) = said(pod, "0.33.0", None, "--quantization", "quark", "--hf-overrides", '{"num_hidden_layers": 4}')
    assert found.mode == "deny"
    (found,) = said(pod, "0.33.0", None, "--quantization", "quark", "--hf-overrides", '{"quantization_config": {}}')
    assert found.mode == "warn"


@pytest.mark.parametrize("method", ["awq", "awq_marlin", "gptq", "gptq_marlin", "moe_wna16", "modelopt", "inc"])
def test_a_private_checkpoint_may_have_the_methods_own_file(pod: dict[str, Any], method: str) -> None:
    """`quantize_config.json`, `hf_quant_config.json` or their like, which podfit does not see."""
    (found,) = said(pod, "0.19.1", None, "--quantization", method)
    assert found.mode == "warn"


def test_a_method_that_looks_into_config_json_alone_is_denied(pod: dict[str, Any]) -> None:
    (found,) = said(pod, "0.19.1", None, "--quantization", "compressed-tensors")
    assert found.mode == "deny"


@pytest.mark.parametrize(
    ("release", "scheme", "refused"), [("0.19.1", ASYMMETRIC, 1), ("0.19.1", GPTQ, 0), ("0.22.0", ASYMMETRIC, 0)]
)
def test_asymmetric_weights_are_computed_in_float16(
    pod: dict[str, Any], release: str, scheme: Mapping[str, Any], refused: int
) -> None:
    """gptq.py, which loads them before 0.22, takes float16 alone."""
    found = said(pod, release, scheme, "--dtype", "bfloat16", rule="quantization-lacks-dtype")
    assert ["because its weights are asymmetric" in one.finding.message for one in found] == [True] * refused
    assert not said(pod, release, scheme, "--dtype", "half", rule="quantization-lacks-dtype")
