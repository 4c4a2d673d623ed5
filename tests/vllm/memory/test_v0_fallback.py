"""Which engine vLLM 0.8 … 0.10 starts, as `_is_v1_supported_oracle` of those releases decides."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vllm.memory import settings, v0_fallback
from podfit.vllm.model import Model
from podfit.vllm.release import parse
from tests.vllm.memory.engines import engine, gpu, model

MODEL = model(
    hidden_size=2048, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=4, intermediate_size=8192,
    vocab_size=32000, max_position_embeddings=32768, torch_dtype="bfloat16", architectures=["LlamaForCausalLM"],
)  # fmt: skip
HOPPER, AMPERE, TURING = (9, 0), (8, 0), (7, 5)


def resolved(
    release: str,
    given: dict[str, Any],
    capability: tuple[int, int] = AMPERE,
    served: Model = MODEL,
    env: dict[str, str] | None = None,
    name: str = "Example",
    gib: float = 40,
) -> settings.Settings:
    card = gpu(gib, name=name, capability=capability)
    version = parse(release)
    assert version is not None
    return settings.resolve(engine(release, **given), served, card, card.memory, version, env or {}).settings


@pytest.mark.parametrize(
    ("release", "given", "capability", "v1"),
    [
        ("0.7.3", {}, AMPERE, False),
        ("0.8.0", {}, AMPERE, True),
        ("0.10.1.1", {}, TURING, False),
        ("0.10.2", {}, TURING, True),
        ("0.11.0", {"preemption_mode": "swap"}, TURING, True),
        ("0.8.5", {"num_scheduler_steps": 8}, AMPERE, False),
        ("0.8.5", {"num_scheduler_steps": 1}, AMPERE, True),
        ("0.8.2", {"enable_lora": True}, AMPERE, False),
        ("0.8.3", {"enable_lora": True}, AMPERE, True),
        ("0.8.2", {"cpu_offload_gb": 4}, AMPERE, False),
        ("0.8.5", {"pipeline_parallel_size": 2}, AMPERE, False),
        ("0.8.5", {"pipeline_parallel_size": 2, "distributed_executor_backend": "ray"}, AMPERE, True),
        ("0.8.2", {"pipeline_parallel_size": 2, "distributed_executor_backend": "ray"}, AMPERE, False),
        ("0.9.0", {"pipeline_parallel_size": 2}, AMPERE, True),
        ("0.8.4", {"kv_transfer_config": {"kv_role": "kv_both"}}, AMPERE, False),
        ("0.8.5", {"kv_transfer_config": {"kv_role": "kv_both"}}, AMPERE, True),
        ("0.8.1", {"kv_cache_dtype": "fp8"}, HOPPER, False),
        ("0.8.2", {"kv_cache_dtype": "fp8"}, HOPPER, True),
        ("0.9.2", {"kv_cache_dtype": "fp8"}, AMPERE, False),
        ("0.10.2", {"kv_cache_dtype": "bfloat16"}, AMPERE, True),
        ("0.10.2", {"kv_cache_dtype": "fp8"}, AMPERE, False),
        ("0.8.5", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, AMPERE, False),
        ("0.9.0", {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, AMPERE, True),
        ("0.9.0", {"speculative_config": {"model": "org/draft", "num_speculative_tokens": 3}}, AMPERE, False),
        ("0.9.1", {"dtype": "float32"}, AMPERE, False),
        ("0.9.2", {"dtype": "float32"}, AMPERE, True),
        ("0.9.1", {"scheduling_policy": "priority"}, AMPERE, False),
        ("0.8.5", {"load_format": "tensorizer"}, AMPERE, False),
        ("0.9.0", {"load_format": "tensorizer"}, AMPERE, True),
        ("0.8.5", {"quantization": "gguf"}, AMPERE, False),
        ("0.9.2", {"guided_decoding_backend": "outlines"}, AMPERE, False),
        ("0.9.2", {"guided_decoding_backend": "xgrammar:disable-any-whitespace"}, AMPERE, True),
        ("0.10.0", {"guided_decoding_backend": "outlines"}, AMPERE, True),
        ("0.10.1.1", {"otlp_traces_endpoint": "http://otel:4317"}, AMPERE, False),
        ("0.10.2", {"otlp_traces_endpoint": "http://otel:4317"}, AMPERE, True),
    ],
)
def test_the_engine_by_release(release: str, given: dict[str, Any], capability: tuple[int, int], v1: bool) -> None:
    assert resolved(release, given, capability).v1 is v1


@pytest.mark.parametrize(
    ("release", "backend", "v1"),
    [
        ("0.9.2", "XFORMERS", False),
        ("0.9.2", "DUAL_CHUNK_FLASH_ATTN", False),
        ("0.9.2", "FLASH_ATTN", True),
        ("0.8.4", "FLASHINFER", False),
        ("0.8.5", "FLASHINFER", True),
        ("0.11.0", "XFORMERS", True),
    ],
)
def test_an_attention_backend_that_v1_lacks(release: str, backend: str, v1: bool) -> None:
    assert resolved(release, {}, env={"VLLM_ATTENTION_BACKEND": backend}).v1 is v1


@pytest.mark.parametrize(("variable", "v1"), [("1", True), ("0", False), ("maybe", False)])
def test_the_variable_decides_where_it_is_a_number(variable: str, v1: bool) -> None:
    assert resolved("0.8.5", {"preemption_mode": "swap"}, env={"VLLM_USE_V1": variable}).v1 is v1


def test_poolers_run_in_v0_up_to_0_9_1_with_batches_of_32768_tokens() -> None:
    old, new = (resolved(release, {"task": "embed"}) for release in ("0.8.5", "0.9.2"))
    assert (old.v1, old.batch.max_num_seqs, old.batch.max_num_batched_tokens) == (False, 256, 32768)
    assert new.v1


def test_a_pooler_in_v0_takes_a_batch_of_its_length_since_0_9_2() -> None:
    for length, tokens in ((512, 2048), (8194, 8194), (131072, 131072)):
        encoder = model(
            **{**MODEL.config, "architectures": ["BertModel"], "model_type": "bert", "max_position_embeddings": length}
        )
        found = resolved("0.10.0", {"task": "embed"}, served=encoder)
        assert (found.v1, found.batch.max_num_batched_tokens, found.batch.chunked) == (False, tokens, False)


@pytest.mark.parametrize(
    ("architecture", "last", "first"),
    [
        ("Gemma3ForConditionalGeneration", "0.8.0", "0.8.1"),
        ("GlmForCausalLM", "0.8.4", "0.8.5"),
        ("XLMRobertaForSequenceClassification", "0.10.0", "0.10.1"),
        ("WhisperForConditionalGeneration", "0.10.1.1", "0.10.2"),
        ("MllamaForConditionalGeneration", "0.10.2", "0.11.0"),
    ],
)
def test_models_that_v1_does_not_run_before_a_release(architecture: str, last: str, first: str) -> None:
    served: Model = model(**{**MODEL.config, "architectures": [architecture]})
    assert [resolved(release, {}, served=served).v1 for release in (last, first)] == [False, True]


def test_v0_takes_batches_of_5120_tokens_with_images() -> None:
    seeing = model(**{**MODEL.config, "vision_config": {"hidden_size": 64}, "max_position_embeddings": 4096})
    assert resolved("0.7.3", {}, served=seeing).batch.max_num_batched_tokens == 5120


def test_models_with_state_layers_run_in_v1_from_0_10_2() -> None:
    hybrid = model(**{**MODEL.config, "layer_types": ["mamba", "mamba", "mamba", "attention"]})
    assert [resolved(one, {}, served=hybrid).v1 for one in ("0.9.2", "0.10.1.1", "0.10.2")] == [False, False, True]


@pytest.mark.parametrize(
    ("release", "name", "gib", "seqs"),
    [
        ("0.8.3", "NVIDIA GeForce RTX 4090", 24, 1024),
        ("0.8.4", "NVIDIA GeForce RTX 4090", 24, 256),
        ("0.8.4", "NVIDIA A100-SXM4-80GB", 80, 256),
        ("0.8.4", "NVIDIA H100 80GB HBM3", 80, 1024),
        ("0.8.5", "NVIDIA A100-SXM4-80GB", 80, 1024),
        ("0.9.0", "NVIDIA A100-SXM4-80GB", 80, 256),
    ],
)
def test_default_max_num_seqs(release: str, name: str, gib: float, seqs: int) -> None:
    assert resolved(release, {}, name=name, gib=gib).batch.max_num_seqs == seqs


@pytest.mark.parametrize(
    ("release", "given", "capability", "env", "begins"),
    [
        (
            "0.10.0",
            {"kv_cache_dtype": "fp8"},
            (8, 9),
            {},
            "--kv-cache-dtype fp8 on NVIDIA L4 makes vLLM 0.10.0 ",
        ),
        ("0.10.0", {}, TURING, {}, "NVIDIA L4 makes vLLM 0.10.0 fall back"),
        ("0.8.5", {"num_scheduler_steps": 8}, AMPERE, {}, "--num-scheduler-steps makes vLLM 0.8.5 fall back"),
        ("0.10.0", {"kv_cache_dtype": "fp8"}, HOPPER, {}, None),
        ("0.10.0", {"kv_cache_dtype": "fp8"}, (8, 9), {"VLLM_USE_V1": "0"}, None),
        ("0.11.0", {"kv_cache_dtype": "fp8"}, (8, 9), {}, None),
        ("0.7.3", {}, AMPERE, {}, None),
    ],
)
def test_the_reason_for_v0_is_named(
    release: str, given: dict[str, Any], capability: tuple[int, int], env: dict[str, str], begins: str | None
) -> None:
    card = gpu(24, name="NVIDIA L4", capability=capability)
    found = v0_fallback.reason(engine(release, **given), MODEL, env, parse(release), card)
    assert (found is None) is (begins is None)
    assert begins is None or (found is not None and found.startswith(begins))
