"""Numbers of authors are bounded where they come in: nothing later raises, and what is too large stays too large."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podfit.base import numbers
from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import builtin
from podfit.vllm.facts import Facts

VALUES = [10**6, 10**9, 10**18, int("9" * 400), int("9" * 4000), -int("9" * 400)]
FIELDS = (
    "num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size", "num_attention_heads", "head_dim",
    "num_key_value_heads", "max_position_embeddings", "num_nextn_predict_layers", "num_experts", "sliding_window",
    "num_kv_shared_layers", "num_experts_per_tok", "kv_lora_rank",
)  # fmt: skip


def linted(*args: str, command: list[str] | None = None, env: dict[str, str] | None = None) -> Report:
    """A Pod on an A100 that serves a model of 8B."""
    container: dict[str, Any] = {
        "name": "vllm", "image": "vllm/vllm-openai:v0.27.1", "args": ["--model", "Qwen/Qwen3-8B", *args],
        "env": [{"name": name, "value": value} for name, value in (env or {}).items()],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "200Gi"}},
    }  # fmt: skip
    if command is not None:
        container |= {"command": command, "args": []}
    spec = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    return lint(pod, builtin(), Facts())


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("nested", [False, True])
def test_numbers_in_overrides_lose_no_finding(value: int, field: str, nested: bool) -> None:
    overrides: dict[str, Any] = {field: value}
    report = linted("--hf-overrides", json.dumps({"text_config": overrides} if nested else overrides))

    assert not report.errors
    assert len(report.results) == 1


@pytest.mark.parametrize("value", [str(value) for value in VALUES] + ["9" * 5000, "9" * 400 + "T", "nan", "inf"])
@pytest.mark.parametrize(
    "flag",
    ["--max-model-len", "--max-num-seqs", "--tensor-parallel-size", "--pipeline-parallel-size", "--block-size",
     "--num-gpu-blocks-override", "--gpu-memory-utilization", "--cpu-offload-gb", "--shutdown-timeout", "-O"],
)  # fmt: skip
def test_numbers_in_arguments_lose_no_finding(flag: str, value: str) -> None:
    report = linted(flag, value)

    assert not report.errors
    assert len(report.results) == 1


@pytest.mark.parametrize("digits", [400, 4000])
def test_what_is_too_large_stays_too_large(digits: int) -> None:
    report = linted("--hf-overrides", json.dumps({"hidden_size": int("9" * digits)}))

    assert report.denied


@pytest.mark.parametrize("times", [2, 18, 300])
def test_arithmetic_beyond_64_bits_is_unknown(times: int) -> None:
    product = "*".join(["999999999999999999"] * times)
    report = linted(command=["bash", "-c", f"exec vllm serve Qwen/Qwen3-8B --max-model-len $(({product}))"])

    assert not report.errors
    assert [list(result.engine.args.unresolved) for result in report.results] == [["max_model_len"]]


@pytest.mark.parametrize("digits", [19, 400, 5000])
def test_numbers_in_variables_lose_no_finding(digits: int) -> None:
    for name in ("VLLM_USE_V1", "VLLM_PP_LAYER_PARTITION", "VLLM_ENGINE_READY_TIMEOUT_S", "VLLM_PORT"):
        assert not linted(env={name: "9" * digits}).errors


def test_json_has_numbers_of_64_bits() -> None:
    assert numbers.from_json(f"[1, {'9' * 4000}, -{'9' * 4000}]") == [1, numbers.LARGEST, -numbers.LARGEST - 1]
    with pytest.raises(ValueError, match="digits"):
        numbers.from_json("9" * 4301)
