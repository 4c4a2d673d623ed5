"""What vLLM will use of the arguments, with its defaults: as `EngineArgs.create_engine_config` of each release answers
on a CPU, with the GPU's answers given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podfit.kube.quantity import GI
from podfit.vllm.memory import resolved, settings
from podfit.vllm.model import Model
from podfit.vllm.release import Release
from tests.vllm.memory.engines import GPT_OSS_120B, LLAMA_8B, engine, gpu, model

T4 = gpu(14.56, name="Tesla T4", capability=(7, 5), supports_bf16=False)
L4 = gpu(22.03, name="NVIDIA L4", capability=(8, 9))
H100 = gpu(79.1, name="NVIDIA H100 80GB SXM5")
B200 = gpu(178.0, name="NVIDIA B200", capability=(10, 0))
ENCODER: Mapping[str, Any] = {
    "architectures": ["XLMRobertaModel"], "model_type": "xlm-roberta", "hidden_size": 1024, "num_hidden_layers": 24,
    "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 250002, "max_position_embeddings": 8194,
    "torch_dtype": "float32",
}  # fmt: skip
HYBRID: Mapping[str, Any] = {
    **LLAMA_8B, "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid",
    "num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"],
}  # fmt: skip
FALCON_H1: Mapping[str, Any] = {**LLAMA_8B, "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1"}
WINDOWED: Mapping[str, Any] = {**LLAMA_8B, "model_type": "mistral", "sliding_window": 4096}
YARN: Mapping[str, Any] = {
    **GPT_OSS_120B,
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
}  # fmt: skip
GEMMA: Mapping[str, Any] = {**LLAMA_8B, "model_type": "gemma2", "max_position_embeddings": 8192}


def values(config: Mapping[str, Any], release: str, on: Any, **given: Any) -> dict[str, Any]:
    """What `engine.resolved` says."""
    args, its_model = engine(release, **given), model(**config)
    assert isinstance(its_model, Model)
    assert isinstance(args.release, Release)
    held = settings.resolve(args, its_model, on, on.memory if on else 0, args.release, {})
    return resolved.values(held, args, its_model, on, known=on is not None)


@pytest.mark.parametrize(
    ("config", "release", "on", "given", "expected"),
    [
        # the defaults depend on the device
        (LLAMA_8B, "0.33.0", L4, {}, {"max_num_seqs": 256, "max_num_batched_tokens": 2048, "dtype": "bfloat16"}),
        (LLAMA_8B, "0.33.0", H100, {}, {"max_num_seqs": 1024, "max_num_batched_tokens": 8192}),
        (LLAMA_8B, "0.33.0", B200, {}, {"max_num_seqs": 1024, "max_num_batched_tokens": 16384}),
        (LLAMA_8B, "0.19.1", B200, {}, {"max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.9}),
        (LLAMA_8B, "0.33.0", None, {"max_num_seqs": 8}, {"max_num_seqs": 8, "max_num_batched_tokens": None}),
        # and on what else is given
        (LLAMA_8B, "0.11.0", L4, {"max_num_batched_tokens": 128}, {"max_num_seqs": 128}),
        (LLAMA_8B, "0.10.0", L4, {"max_num_batched_tokens": 128}, {"max_num_seqs": 256}),
        (LLAMA_8B, "0.33.0", L4, {"performance_mode": "throughput", "max_num_seqs": 64},
         {"max_num_seqs": 64, "max_num_batched_tokens": 4096}),
        (LLAMA_8B, "0.33.0", H100,
         {"all2all_backend": "deepep_low_latency", "enable_expert_parallel": True, "data_parallel_size": 2},
         {"max_num_batched_tokens": 256, "max_num_seqs": 256}),
        # prompts in chunks: up to 0.11.0 whatever is said, except in a pooling model
        (LLAMA_8B, "0.11.0", L4, {"enable_chunked_prefill": False},
         {"max_num_batched_tokens": 2048, "enable_chunked_prefill": True}),
        (LLAMA_8B, "0.19.1", L4, {"enable_chunked_prefill": False},
         {"max_num_batched_tokens": 131072, "enable_chunked_prefill": False}),
        (ENCODER, "0.11.0", L4, {}, {"max_num_batched_tokens": 8194, "dtype": "float16"}),
        (ENCODER, "0.33.0", L4, {}, {"max_num_batched_tokens": 8194, "enable_prefix_caching": False}),
        (LLAMA_8B, "0.19.1", L4, {"pooler_config": {"pooling_type": "MEAN"}}, {"max_num_batched_tokens": 131072}),
        (LLAMA_8B, "0.19.1", L4, {"pooler_config": {"pooling_type": "LAST"}}, {"max_num_batched_tokens": 2048}),
        (LLAMA_8B, "0.11.0", L4, {"pooler_config": {"pooling_type": "MEAN"}},
         {"max_num_batched_tokens": 2048, "enable_prefix_caching": False}),
        (ENCODER, "0.11.0", L4, {"enable_prefix_caching": True}, {"enable_prefix_caching": False}),
        # prefix caching of state layers
        (HYBRID, "0.11.0", L4, {"enable_prefix_caching": True}, {"enable_prefix_caching": False}),
        (HYBRID, "0.19.1", L4, {}, {"enable_prefix_caching": False}),
        (FALCON_H1, "0.9.2", H100, {}, {"max_num_batched_tokens": 2048, "max_num_seqs": 256}),
        (FALCON_H1, "0.11.0", L4, {}, {"enable_prefix_caching": False}),
        (FALCON_H1, "0.19.1", L4, {}, {"enable_prefix_caching": False}),
        (FALCON_H1, "0.33.0", L4, {}, {"enable_prefix_caching": True}),
        (HYBRID, "0.19.1", L4, {"enable_prefix_caching": True}, {"enable_prefix_caching": True}),
        (HYBRID, "0.33.0", L4, {}, {"enable_prefix_caching": True}),
        (LLAMA_8B, "0.11.0", L4, {"enable_prompt_embeds": True}, {"enable_prefix_caching": False}),
        # the length
        (WINDOWED, "0.33.0", L4, {"disable_sliding_window": True}, {"max_model_len": 4096}),
        (YARN, "0.19.1", H100, {"disable_sliding_window": True}, {"max_model_len": 131072}),
        (YARN, "0.33.0", H100, {"disable_sliding_window": True}, {"max_model_len": 128}),
        # the dtype
        (LLAMA_8B, "0.33.0", T4, {}, {"dtype": "float16"}),
        (LLAMA_8B, "0.33.0", T4, {"dtype": "half"}, {"dtype": "float16"}),
        (GEMMA, "0.33.0", T4, {}, {"dtype": "float32"}),
        (LLAMA_8B, "0.33.0", None, {}, {"dtype": None}),
    ],
)  # fmt: skip
def test_values_are_what_the_release_resolves(
    config: Mapping[str, Any], release: str, on: Any, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = values(config, release, on, **given)

    assert {name: found[name] for name in expected} == expected


def test_what_cannot_be_known_is_none() -> None:
    args = engine("0.33.0").with_arguments({}, {"max_num_seqs": "a variable"})
    held = settings.resolve(args, model(**LLAMA_8B), L4, int(22 * GI), Release(0, 33), {})

    found = resolved.values(held, args, model(**LLAMA_8B), L4, known=True)

    assert found["max_num_seqs"] is None
    assert found["max_model_len"] == 131072
