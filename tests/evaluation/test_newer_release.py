"""A release newer than what was read: nothing that vLLM decides is denied, and the release is named once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podfit.evaluation import denial
from podfit.evaluation.lint import Report
from podfit.rules import all_rules
from podfit.vllm.release import newest_read

NEWER = f"vLLM 0.99.0 is newer than podfit's facts ({newest_read()})"
REJECTED = {
    "conflicting-flags": ["--max-num-batched-tokens", "10", "--max-num-seqs", "300"],
    "kv-cache-too-small": ["--max-model-len", "131072", "--kv-cache-memory-bytes", "1G"],
    "invalid-flag-value": ["--max-num-seqs", "many"],
}
"""Rule → arguments for which it denies with a release that was read."""


@pytest.mark.parametrize(("rule", "words"), REJECTED.items())
@pytest.mark.parametrize(("tag", "mode"), [("v0.33.0", "deny"), ("v0.99.0", "warn")])
def test_what_vllm_decides_warns_with_a_newer_release(
    pod: dict[str, Any], container: dict[str, Any], judge: Callable[..., Report],
    rule: str, words: list[str], tag: str, mode: str,
) -> None:  # fmt: skip
    container |= {"image": f"vllm/vllm-openai:{tag}", "args": ["--model", "unsloth/Llama-3.1-8B-Instruct", *words]}

    (found,) = [judged for judged in judge(pod).findings if judged.rule == rule]

    assert found.mode == mode
    if mode == "warn":
        assert found.why_softened is not None


def test_the_warnings_name_the_newer_release_once(
    pod: dict[str, Any], container: dict[str, Any], judge: Callable[..., Report]
) -> None:
    words = [*REJECTED["conflicting-flags"], *REJECTED["kv-cache-too-small"]]
    container |= {"image": "vllm/vllm-openai:v0.99.0", "args": ["--model", "unsloth/Llama-3.1-8B-Instruct", *words]}

    warnings = denial.warnings(judge(pod))

    assert [one for one in warnings if NEWER in one] == [f"podfit: {NEWER}"]


def test_what_kubernetes_decides_is_denied_with_a_newer_release(
    pod: dict[str, Any], container: dict[str, Any], judge: Callable[..., Report]
) -> None:
    container |= {"image": "vllm/vllm-openai:v0.99.0"}
    container["args"] += ["--tensor-parallel-size", "4"]

    assert "gpu-count-mismatch" in {judged.rule for judged in judge(pod).findings if judged.mode == "deny"}


def test_some_rules_are_vllms_and_some_are_not() -> None:
    of_vllm = {name for name, rule in all_rules().items() if rule.of_vllm}

    assert {"conflicting-flags", "unknown-flag", "kv-cache-too-small", "model-lacks-dtype"} <= of_vllm
    assert of_vllm.isdisjoint({"unquoted-value", "quantity-suspicious", "no-node-matches", "gpu-count-mismatch"})


def test_weights_above_the_whole_gpu_are_denied_with_a_newer_release(
    pod: dict[str, Any], container: dict[str, Any], judge: Callable[..., Report]
) -> None:
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    words = ["--model", "unsloth/Meta-Llama-3.1-70B-Instruct", "--max-model-len", "4096"]
    modes = {}
    for tag in ("v0.33.0", "v0.99.0"):
        container |= {"image": f"vllm/vllm-openai:{tag}", "args": words}
        (modes[tag],) = [judged.mode for judged in judge(pod).findings if judged.rule == "gpu-memory-exceeded"]

    assert modes == {"v0.33.0": "deny", "v0.99.0": "deny"}


@pytest.mark.parametrize(
    ("tag", "words", "rule", "level"),
    [
        ("v0.99.0", ["--swap-space", "4"], "removed-flag", "likely"),  # removed in 0.18
        ("v0.33.9", ["--swap-space", "4"], "removed-flag", "likely"),  # a patch may have other flags
        ("v0.33.0", ["--swap-space", "4"], "removed-flag", "denied"),
        ("v0.99.0", ["--enable-frobnication"], "unknown-flag", "advice"),
        ("v0.99.0", ["--max-modle-len", "8192"], "unknown-flag", "likely"),
        ("v0.99.0", ["--kv-cache-dtype", "fp9"], "invalid-flag-value", "advice"),
        ("v0.99.0", ["--enable-eplb"], "conflicting-flags", "likely"),
    ],
)
def test_flags_of_a_newer_release(
    pod: dict[str, Any], container: dict[str, Any], judge: Callable[..., Report],
    tag: str, words: list[str], rule: str, level: str,
) -> None:  # fmt: skip
    container |= {"image": f"vllm/vllm-openai:{tag}", "args": ["--model", "Qwen/Qwen3-8B", *words]}

    assert [one.level for one in judge(pod).findings if one.rule == rule] == [level]
