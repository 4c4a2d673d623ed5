"""Names that vLLM looks up when the engine is configured: denied if vLLM certainly looks up exactly this name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podfit.evaluation.lint import Report

Judge = Callable[..., Report]

PLAIN, AWQ, GPTQ = "unsloth/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4"
MODELOPT, FP8, MXFP4 = "nvidia/Llama-3.1-8B-Instruct-FP8", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b"
AUTO_ROUND, BNB = "Intel/Qwen3-8B-int4-AutoRound", "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit"
MARLIN = [
    (release, model, ["--quantization", "marlin"], None)
    for release in ("0.10.2", "0.11.0", "0.13.0", "0.17.1", "0.20.2", "0.24.0", "0.27.1", "0.30.0", "0.33.0")
    for model in (AWQ, GPTQ)
]
"""gptq_marlin.py and awq_marlin.py, auto_gptq.py and auto_awq.py take it for their own."""
WHATEVER = [
    (release, MODELOPT, ["--quantization", name], None)
    for release in ("0.10.2", "0.11.0", "0.17.1", "0.24.0", "0.33.0")
    for name in ("nvfp4", "FP4", "modelopt_nvfp4")
]
"""modelopt.py asks the checkpoint alone."""


@pytest.mark.parametrize(
    ("release", "model", "further", "mode"),
    [
        *MARLIN,
        *WHATEVER,
        ("0.33.0", PLAIN, ["--quantization", "marlin"], "deny"),
        ("0.33.0", FP8, ["--quantization", "marlin"], "deny"),
        ("0.33.0", AWQ, ["--quantization", "awq_marlim"], "deny"),
        ("0.33.0", GPTQ, ["--quantization", "gptq_marlim"], "warn"),  # only the name says that it is GPTQ
        ("0.33.0", AWQ, ["--quantization", "awq_marlim", "--revision", "other"], "warn"),
        ("0.33.0", PLAIN, ["--quantization", "gptq_marlim", "--hf-overrides", '{"vocab_size": 1}'], "warn"),
        ("0.33.0", "/models/ours", ["--quantization", "gptq_marlim"], "warn"),
        ("0.33.0", "/models/ours", ["--quantization", "nvfp4"], None),
        ("0.33.0", AUTO_ROUND, ["--quantization", "auto-round"], None),
        ("0.20.2", MXFP4, ["--quantization", "anything"], None),
        ("0.24.0", "deepseek-ai/DeepSeek-V4-Flash", ["--quantization", "deepseek_fp8"], None),
        ("0.11.0", PLAIN, ["--quantization", "bitsandbytes", "--load-format", "bnb"], None),
        ("0.27.1", BNB, ["--load-format", "bnb"], None),
        ("0.28.0", PLAIN, ["--load-format", "bnb"], "deny"),
        ("0.27.1", PLAIN, ["--load-format", "bnb"], "deny"),
        ("0.27.1", "/models/ours", ["--load-format", "runai-streamer"], "warn"),
        ("0.28.0", "/models/ours", ["--load-format", "runai-streamer"], "deny"),
        ("0.11.0", "/models/ours.gguf", ["--load-format", "ggml"], None),
        ("0.11.0", "/models/ours.gguf", ["--quantization", "ggml"], None),
        ("0.22.0", "unsloth/Qwen3-8B-GGUF:Q4_K_M", ["--load-format", "ggml"], None),
        ("0.33.0", PLAIN, ["--load-format", "<format>"], None),
        ("0.33.0", PLAIN, ["--compilation-config", '{"cudagraph_mode": "<mode>"}'], None),
        ("0.33.0", PLAIN, ["--compilation-config", '{"cudagraph_mode": "MODE"}'], "deny"),
        ("0.33.0", PLAIN, ["--compilation-config.cudagraph_mode", "`x`"], None),
        ("0.33.0", PLAIN, ["--load-format=<format>", "--load-format=formal"], "deny"),  # the last one counts
    ],
)
def test_names(
    pod: dict[str, Any],
    container: dict[str, Any],
    judge: Judge,
    release: str,
    model: str,
    further: list[str],
    mode: str | None,
) -> None:
    container["image"] = f"vllm/vllm-openai:v{release}"
    container["args"] = ["--model", model, "--max-model-len", "8192", *further]

    report = judge(pod)

    assert {one.mode for one in report.findings if one.rule == "invalid-flag-value"} == ({mode} if mode else set())


@pytest.mark.parametrize(
    ("image", "resource", "mode"),
    [
        ("vllm/vllm-openai:v0.33.0", "nvidia.com/gpu", "deny"),
        ("vllm/vllm-openai-cpu:v0.33.0", None, "warn"),  # its own methods take whatever is given
        ("vllm/vllm-openai-xpu:v0.33.0", "gpu.intel.com/xe", "warn"),
        ("vllm/vllm-openai-rocm:v0.33.0", "amd.com/gpu", "warn"),
    ],
)
def test_other_platforms_have_methods_of_their_own(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge, image: str, resource: str | None, mode: str
) -> None:
    container["image"] = image
    container["args"] = ["--model", AWQ, "--max-model-len", "8192", "--quantization", "awq_marlim"]
    container["resources"] = {"limits": {resource: "1", "memory": "64Gi"} if resource else {"memory": "64Gi"}}
    del pod["spec"]["nodeSelector"]

    assert {one.mode for one in judge(pod).findings if one.rule == "invalid-flag-value"} == {mode}


def test_an_annotation_tells_a_shape_and_no_quantisation(
    pod: dict[str, Any], container: dict[str, Any], judge: Judge
) -> None:
    container["image"] = "vllm/vllm-openai:v0.33.0"
    container["args"] = ["--model", "/models/ours", "--max-model-len", "8192", "--quantization", "modelopt_nvfp4"]
    pod["metadata"]["annotations"] = {"podfit.dev/model": PLAIN}

    assert {one.mode for one in judge(pod).findings if one.rule == "invalid-flag-value"} == {"warn"}
