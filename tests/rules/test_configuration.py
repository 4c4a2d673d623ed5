"""What vLLM's configuration rejects, and what it may accept. One example of each check: `oracle/claim_table.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podfit.evaluation.lint import GradedFinding, lint
from podfit.evaluation.policy import builtin
from podfit.rules.command_line import conflicting_flags
from podfit.vllm.facts import Facts, GivenModel
from tests.vllm.memory.engines import DEEPSEEK_V3, LLAMA_8B

ENCODER: Mapping[str, Any] = {
    "architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "hidden_size": 1024, "num_hidden_layers": 24,
    "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 250002, "max_position_embeddings": 8194,
    "torch_dtype": "float32",
}  # fmt: skip
HYBRID: Mapping[str, Any] = {
    **LLAMA_8B, "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid",
    "num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"],
}  # fmt: skip
EXPERTS: Mapping[str, Any] = {
    **LLAMA_8B, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 128,
    "num_experts_per_tok": 8, "moe_intermediate_size": 768, "num_key_value_heads": 4, "num_attention_heads": 32,
}  # fmt: skip
PHI: Mapping[str, Any] = {**LLAMA_8B, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3"}
YARN: Mapping[str, Any] = {
    **LLAMA_8B, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
}  # fmt: skip
VISION: Mapping[str, Any] = {
    **LLAMA_8B, "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
    "vision_config": {"depth": 32, "hidden_size": 1280},
}  # fmt: skip
DELTA_NET: Mapping[str, Any] = {
    **HYBRID, "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "linear_conv_kernel_dim": 4,
    "num_hidden_layers": 32, "layer_types": [*["linear_attention"] * 3, "full_attention"] * 8,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
}  # fmt: skip
NGRAM = '{"method": "ngram", "num_speculative_tokens": 4}'


def said(pod: dict[str, Any], release: str, config: Mapping[str, Any], *args: str) -> list[GradedFinding]:
    """The findings about one command line on an L4."""
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-L4"}
    container = pod["spec"]["containers"][0]
    container.update(image=f"vllm/vllm-openai:v{release}", args=["--model", "acme/ours", *args])
    container["resources"] = {"limits": {"nvidia.com/gpu": "8", "memory": "640Gi"}}
    report = lint(pod, builtin(), Facts(models={"acme/ours": GivenModel({**config}, "models.yaml")}), where="check")
    assert not report.errors
    return [one for one in report.findings if one.rule == "conflicting-flags"]


EXPANDABLE = {"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "max_split_size_mb:64,expandable_segments:True"}
OFFLOADING = '--kv-transfer-config {"kv_connector":"OffloadingConnector","kv_role":"kv_both"}'


@pytest.mark.parametrize("line", [OFFLOADING, "--kv-offloading-size 8"])
def test_a_connector_needs_pages_that_stay(pod: dict[str, Any], line: str) -> None:
    assert said(pod, "0.27.1", LLAMA_8B, *words(line)) == []
    pod["spec"]["containers"][0]["env"] = [EXPANDABLE]
    (found,) = said(pod, "0.27.1", LLAMA_8B, *words(line))
    assert (found.mode, found.finding.suggestions[1]) == ("deny", "--enable-cumem-allocator")
    for switch in ("--enable-cumem-allocator", "--enable-sleep-mode"):
        assert said(pod, "0.27.1", LLAMA_8B, *words(line), switch) == []
    assert said(pod, "0.19.1", LLAMA_8B, *words(line)) == []


def test_a_kv_cache_of_another_dtype_than_the_one_that_is_left(pod: dict[str, Any]) -> None:
    """A V100 has no bfloat16: whatever config.json has, and if it has none, vLLM takes float16."""
    unstated = {key: value for key, value in LLAMA_8B.items() if key != "torch_dtype"}
    for config in (LLAMA_8B, unstated):
        said(pod, "0.33.0", config)
        pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB"}
        pod["spec"]["containers"][0]["args"] += ["--kv-cache-dtype", "bfloat16"]
        facts = Facts(models={"acme/ours": GivenModel({**config}, "models.yaml")})
        found = [one for one in lint(pod, builtin(), facts, where="check").findings if one.rule == "conflicting-flags"]
        assert [one.finding.message for one in found] == [
            "--kv-cache-dtype bfloat16 is not the model's dtype here, float16"
        ]


def words(line: str) -> list[str]:
    """A command line's words; blanks within JSON belong to it."""
    return line.replace(": ", ":").replace(", ", ",").split()


def test_a_family_with_layers_for_it_predicts_several_tokens(pod: dict[str, Any]) -> None:
    line = '--speculative-config {"method":"mtp","num_speculative_tokens":1}'
    assert said(pod, "0.33.0", {**DEEPSEEK_V3, "num_nextn_predict_layers": 1}, *words(line)) == []


def test_another_config_is_no_ground_for_a_denial(pod: dict[str, Any]) -> None:
    (found,) = said(pod, "0.33.0", ENCODER, "--max-num-batched-tokens", "4096", "--revision", "other")
    assert found.mode == "warn"


def test_of_a_config_that_its_class_refuses_only_the_cause_is_told(pod: dict[str, Any]) -> None:
    line = '--speculative-config {"method":"ngram","num_speculative_token":4}'
    assert said(pod, "0.33.0", LLAMA_8B, *words(line)) == []


def test_a_drafter_has_the_words_of_its_target(pod: dict[str, Any]) -> None:
    line = '--speculative-config {"method":"draft_model","num_speculative_tokens":5,"model":"Qwen/Qwen3-0.6B"}'
    (found,) = said(pod, "0.33.0", LLAMA_8B, *words(line))
    assert "vocabulary of 151,936" in found.finding.message


@pytest.mark.parametrize(
    ("release", "line"),
    [
        # graphs that another key switches off
        ("0.19.1", "--cudagraph-capture-sizes 1 2 4 --compilation-config "
         '{"use_cudagraph":false,"max_cudagraph_capture_size":8}'),
        # ranks of prefill context parallelism count, too
        ("0.33.0", "--tensor-parallel-size 2 --prefill-context-parallel-size 2 --decode-context-parallel-size 4"),
        # vLLM takes the rank of a node from elsewhere
        ("0.33.0", "--data-parallel-size 2 --data-parallel-rank 5 --distributed-executor-backend external_launcher"),
        # a drafter's name may decide on another method
        ("0.11.0", "--speculative-config "
         '{"method":"draft_model","model":"acme/llama-eagle3","num_speculative_tokens":2}'),
        # ngram builds no drafter
        ("0.19.1", "--tensor-parallel-size 4 --speculative-config "
         '{"method":"ngram","model":"acme/x","num_speculative_tokens":2,"draft_tensor_parallel_size":2}'),
    ],
)  # fmt: skip
def test_what_the_configuration_may_take_is_not_denied(pod: dict[str, Any], release: str, line: str) -> None:
    assert not [one for one in said(pod, release, LLAMA_8B, *words(line)) if one.mode == "deny"]


@pytest.mark.parametrize("drafter", ["acme/medusa-8b", "acme/Qwen3-0.6B-tuned"])
@pytest.mark.parametrize("release", ["0.11.0", "0.33.0"])
def test_a_drafter_that_is_not_known_is_no_ground_for_a_denial(pod: dict[str, Any], release: str, drafter: str) -> None:
    """Its config.json may say that it is of another method, or has another vocabulary."""
    line = f'--speculative-config {{"method":"draft_model","num_speculative_tokens":4,"model":"{drafter}"}}'
    assert {one.mode for one in said(pod, release, LLAMA_8B, *words(line))} <= {"warn"}


def test_a_variable_that_cannot_be_seen_may_change_the_answer(pod: dict[str, Any]) -> None:
    """VLLM_ALL2ALL_BACKEND decides whether --enable-dbo is taken."""
    assert [one.mode for one in said(pod, "0.33.0", LLAMA_8B, "--enable-dbo")] == ["deny"]
    pod["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "team"}}]

    assert [one.mode for one in said(pod, "0.33.0", LLAMA_8B, "--enable-dbo")] == ["warn"]


def test_sizes_above_a_batch_that_depends_on_the_gpu_are_no_finding(pod: dict[str, Any]) -> None:
    """An L4's batch has 2,048 tokens, an H100's 8,192: of an unknown GPU it can't be known which sizes are left out."""
    line = '--compilation-config {"cudagraph_capture_sizes":[1,4096],"max_cudagraph_capture_size":4096}'
    assert said(pod, "0.33.0", LLAMA_8B, *words(line)) == []


@pytest.mark.parametrize(
    ("release", "config", "line"),
    [
        ("0.10.2", LLAMA_8B, "--max-num-seqs 3000"),  # VLLM_USE_V1
        ("0.33.0", LLAMA_8B, "--max-cudagraph-capture-size 0"),  # TORCH_COMPILE_DISABLE
    ],
)
def test_a_variable_that_is_not_seen_is_no_ground_for_a_denial(
    pod: dict[str, Any], release: str, config: Mapping[str, Any], line: str
) -> None:
    (denied,) = said(pod, release, config, *words(line))
    assert denied.mode == "deny"
    pod["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "tuning"}}]
    (found,) = said(pod, release, config, *words(line))
    assert found.mode == "warn"


def test_without_compilation_there_are_no_graphs(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["env"] = [{"name": "TORCH_COMPILE_DISABLE", "value": "1"}]
    assert said(pod, "0.33.0", LLAMA_8B, "--max-cudagraph-capture-size", "0") == []


def test_a_release_that_is_not_in_the_table_is_not_denied(pod: dict[str, Any]) -> None:
    (found,) = said(pod, "0.33.0", LLAMA_8B, "--max-num-seqs", "3000")
    (newer,) = said(pod, "0.34.0", LLAMA_8B, "--max-num-seqs", "3000")

    assert (found.mode, newer.mode) == ("deny", "warn")


def test_each_check_says_what_it_rejects() -> None:
    """The table in docs/configuration-checks.md has it."""
    unsaid = [check.dest for check in conflicting_flags.CHECKS if not check.refusal.__doc__]

    assert conflicting_flags.CHECKS
    assert unsaid == []
    assert all(find.__doc__ for _, _, find in conflicting_flags.OTHER_CHECKS)
