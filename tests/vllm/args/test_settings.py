"""What config classes and registries take, by release: read off vLLM's sources, asked in words."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vllm.args import settings
from podfit.vllm.release import Release, parse

NEWER = Release(9, 9)


def _keys(dest: str, value: dict[str, Any], release: str | None) -> list[str]:
    return [one.place for one in settings.unknown_keys(dest, value, parse(release) if release else None)]


def _values(dest: str, value: dict[str, Any], release: str) -> list[str]:
    return [one.place for one in settings.bad_values(dest, value, parse(release))]


@pytest.mark.parametrize(
    ("dest", "value", "release", "refused"),
    [
        ("compilation_config", {"use_cudagraph": True}, "0.11.0", []),
        ("compilation_config", {"use_cudagraph": True}, "0.12.0", []),  # passed over
        ("compilation_config", {"use_cudagraph": True}, "0.13.0", ["use_cudagraph"]),
        ("compilation_config", {"level": 3}, "0.17.1", []),
        ("compilation_config", {"level": 3}, "0.18.0", ["level"]),
        ("compilation_config", {"pass_config": {"enable_fusion": True}}, "0.12.0", []),
        ("compilation_config", {"pass_config": {"enable_fusion": True}}, "0.13.0", ["pass_config.enable_fusion"]),
        ("compilation_config", {"pass_config": {"enable_fusion": None}}, "0.13.0", []),
        ("compilation_config", {"inductor_compile_config": {"anything": 1}}, "0.33.0", []),
        ("speculative_config", {"num_draft": 1}, "0.15.1", []),
        ("speculative_config", {"num_draft": 1}, "0.16.0", ["num_draft"]),
        ("speculative_config", {"num-speculative-tokens": 1}, "0.33.0", []),
        ("kv_transfer_config", {"kv_rank": 0}, "0.31.0", []),
        ("kv_transfer_config", {"kv_rank": 0}, "0.32.0", ["kv_rank"]),
        ("kv_transfer_config", {"kv_connector_extra_config": {"anything": 1}}, "0.33.0", []),
        ("limit_mm_per_prompt", {"anything": 1}, "0.33.0", []),
        ("compilation_config", {"anything": 1}, "99.0", ["anything"]),
        ("compilation_config", {"anything": 1}, None, ["anything"]),
    ],
)
def test_an_unknown_key(dest: str, value: dict[str, Any], release: str | None, refused: list[str]) -> None:
    assert _keys(dest, value, release) == refused


@pytest.mark.parametrize(
    ("dest", "value", "release", "refused"),
    [
        ("speculative_config", {"method": "suffix"}, "0.11.0", ["method"]),
        ("speculative_config", {"method": "suffix"}, "0.11.1", []),
        ("speculative_config", {"method": "medusa"}, "0.32.0", []),
        ("speculative_config", {"method": "medusa"}, "0.33.0", ["method"]),
        ("speculative_config", {"method": None}, "0.33.0", []),
        ("speculative_config", {"method": "anything"}, "0.9.0.1", []),  # not pydantic's yet
        ("speculative_config", {"num_speculative_tokens": 0}, "0.33.0", ["num_speculative_tokens"]),
        ("kv_transfer_config", {"kv_role": "both"}, "0.9.1", ["kv_role"]),
        ("kv_transfer_config", {"kv_role": "kv_both"}, "0.9.1", []),
        ("eplb_config", {"window_size": "1000"}, "0.33.0", []),  # pydantic reads the number
        ("eplb_config", {"window_size": "many"}, "0.33.0", ["window_size"]),
        ("eplb_config", {"window_size": 1.5}, "0.33.0", ["window_size"]),
        ("eplb_config", {"window_size": 1e3}, "0.33.0", []),
        ("eplb_config", {"window_size": "$WINDOW"}, "0.33.0", []),  # something may fill it in
        ("eplb_config", {"use_async": "yes"}, "0.33.0", []),
        ("eplb_config", {"use_async": "always"}, "0.33.0", ["use_async"]),
        ("eplb_config", {"use_async": None}, "0.33.0", []),
        ("compilation_config", {"cudagraph_mode": "FULL_AND_PIECEWISE"}, "0.11.0", []),
        ("compilation_config", {"cudagraph_mode": "full_and_piecewise"}, "0.11.0", []),
        ("compilation_config", {"cudagraph_mode": "PIECEWISE_AND_FULL"}, "0.11.0", ["cudagraph_mode"]),
        ("compilation_config", {"cudagraph_mode": "2"}, "0.33.0", ["cudagraph_mode"]),  # no number after all
        ("compilation_config", {"cudagraph_mode": 2}, "0.33.0", []),
        ("compilation_config", {"cudagraph_mode": 3}, "0.33.0", ["cudagraph_mode"]),
        ("compilation_config", {"cudagraph_mode": "anything"}, "0.10.0", []),  # not there yet, and passed over
        ("compilation_config", {"mode": "vllm_compile"}, "0.12.0", []),
        ("compilation_config", {"mode": 3}, "0.33.0", []),
        ("compilation_config", {"mode": 4}, "0.33.0", ["mode"]),
        ("compilation_config", {"mode": "PIECEWISE"}, "0.33.0", ["mode"]),
        (
            "compilation_config",
            {"pass_config": {"fuse_norm_quant": "maybe"}},
            "0.33.0",
            ["pass_config.fuse_norm_quant"],
        ),
        ("attention_config", {"backend": "flash_attn"}, "0.33.0", []),
        ("attention_config", {"backend": "AUTO"}, "0.33.0", []),
        ("attention_config", {"backend": "auto"}, "0.16.0", ["backend"]),
        ("attention_config", {"backend": "XFORMERS"}, "0.33.0", ["backend"]),
        ("kernel_config", {"moe_backend": "Deep-GEMM"}, "0.33.0", []),
        ("kernel_config", {"moe_backend": "deepgemm"}, "0.33.0", ["moe_backend"]),
        ("kernel_config", {"moe_backend": "humming"}, "0.20.2", ["moe_backend"]),
        ("speculative_config", {"num_speculative_tokens": 0}, "0.8.5", ["num_speculative_tokens"]),
        ("speculative_config", {"num_speculative_tokens": -1}, "0.11.0", ["num_speculative_tokens"]),
        ("speculative_config", {"num_speculative_tokens": "three"}, "0.33.0", ["num_speculative_tokens"]),
        ("structured_outputs_config", {"backend": "xgramar"}, "0.11.0", ["backend"]),
    ],
)
def test_a_bad_value(dest: str, value: dict[str, Any], release: str, refused: list[str]) -> None:
    assert _values(dest, value, release) == refused


@pytest.mark.parametrize(
    ("dest", "value", "release", "refused"),
    [
        ("max_loras", 0, "0.11.0", False),
        ("max_loras", 0, "0.11.1", True),
        ("data_parallel_size", 0, "0.20.2", False),
        ("data_parallel_size", 0, "0.22.2", False),  # its neighbours do not agree
        ("data_parallel_size", 0, "0.23.0", True),
        ("tensor_parallel_size", 1, "0.33.0", False),
        ("watermark", 1.0, "0.33.0", True),
        ("node_rank", 0, "0.33.0", False),
    ],
)
def test_bounds(dest: str, value: float, release: str, refused: bool) -> None:
    assert (settings.out_of_bounds(dest, value, parse(release)) is not None) is refused


def test_a_class_that_is_only_made_with_a_switch() -> None:
    assert settings.argument_that_enables("max_loras") == "enable_lora"
    assert settings.argument_that_enables("tensor_parallel_size") is None


@pytest.mark.parametrize(
    ("kind", "name", "release", "refused"),
    [
        ("tool_call_parser", "glm45", "0.10.0", True),
        ("tool_call_parser", "glm45", "0.10.1", False),
        ("tool_call_parser", "minimax", "0.23.0", False),
        ("tool_call_parser", "minimax", "0.24.0", True),
        ("reasoning_parser", "openai_gptoss", "0.10.2", False),
        ("reasoning_parser", "GptOss", "0.10.2", True),
        ("kv_connector", "P2pNcclConnector", "0.24.0", True),
        ("attention_backend", "XFORMERS", "0.11.2", False),
        ("attention_backend", "XFORMERS", "0.12.0", True),
        ("quantization", "gptq_marlin", "0.11.0", False),
        ("quantization", "gptq_marlim", "0.11.0", True),
        ("quantization", "bitsandbytes", "0.27.1", False),
        ("quantization", "bitsandbytes", "0.30.0", True),
        ("load_format", "gguf", "0.20.2", False),
        ("load_format", "gguf", "0.24.0", True),
        ("load_format", "foo", "0.6.6", False),  # the parser's own choices
        ("quantization", "auto_awq", "0.23.0", True),
        ("quantization", "auto_awq", "0.24.0", False),
        ("kv_cache_dtype", "FP8", "0.33.0", True),  # as it is written
        ("kv_cache_dtype", "fp8", "0.33.0", False),
        ("mamba_backend", "TRITON", "0.20.0", False),
        ("mamba_backend", "CUDA", "0.20.0", True),
        ("mamba_backend", "CUDA", "0.19.1", False),  # no such argument
        ("config_format", "hf", "0.10.2", False),
        ("config_format", "gguf", "0.10.2", True),
        ("distributed_executor_backend", "multiprocessing", "0.10.2", True),
    ],
)
def test_names(kind: str, name: str, release: str, refused: bool) -> None:
    assert (settings.unknown_name(kind, name, parse(release)) is not None) is refused


def test_where_a_name_lives_elsewhere() -> None:
    gone, early = (settings.unknown_name("tool_call_parser", "minimax", parse(one)) for one in ("0.33.0", "0.8.5"))

    assert gone is not None
    assert (gone.first, gone.last) == (Release(0, 9, 2), Release(0, 23))
    assert early is not None
    assert early.first == Release(0, 9, 2)
    assert "hermes" in gone.allowed


def test_a_newer_release_counts_as_the_newest_of_the_table() -> None:
    newest = settings.releases()[-1]
    for release in (newest, NEWER):
        assert settings.unknown_name("tool_call_parser", "anything", release) is not None
        assert settings.out_of_bounds("max_loras", 0, release) is not None


def test_every_flag_with_bounds_is_an_argument_of_some_release() -> None:
    from podfit.vllm.args.flags import builtin

    known = {dest for release in builtin().releases for dest in builtin().rows(release)}
    assert {*settings.bounded(), *settings.config_arguments()} <= known


@pytest.mark.parametrize(
    ("name", "value", "release", "refused"),
    [
        ("VLLM_WORKER_MULTIPROC_METHOD", "spwan", "0.11.0", True),
        ("VLLM_WORKER_MULTIPROC_METHOD", "Spawn", "0.33.0", True),
        ("VLLM_WORKER_MULTIPROC_METHOD", "spawn", "0.33.0", False),
        ("VLLM_WORKER_MULTIPROC_METHOD", "spwan", "0.10.2", False),  # until then any text
        ("VLLM_KV_CACHE_LAYOUT", "LBHNC", "0.27.1", True),
        ("VLLM_KV_CACHE_LAYOUT", "LBHNC", "0.33.0", False),
        ("VLLM_FLOAT32_MATMUL_PRECISION", "HIGH", "0.33.0", False),
        ("VLLM_FLOAT32_MATMUL_PRECISION", "tf32", "0.33.0", True),
        ("VLLM_LOGGING_LEVEL", "anything", "0.33.0", False),
        ("VLLM_CONFIGURE_LOGGING", "false", "0.8.5", True),
        ("VLLM_DISABLE_COMPILE_CACHE", "true", "0.33.0", True),
        ("VERBOSE", "true", "0.11.0", False),  # until then it is read by who needs it
        ("VERBOSE", "true", "0.11.1", True),
        ("VERBOSE", "1", "0.33.0", False),
        ("VERBOSE", " 1_0 ", "0.33.0", False),  # int() takes it
        ("VERBOSE", "", "0.33.0", True),
        ("VLLM_ENGINE_READY_TIMEOUT_S", "10s", "0.33.0", True),
        ("VLLM_ENGINE_READY_TIMEOUT_S", "1.5", "0.33.0", True),
        ("VLLM_LOG_STATS_INTERVAL", "1.5", "0.33.0", False),
        ("VLLM_LOG_STATS_INTERVAL", "often", "0.33.0", True),
    ],
)
def test_a_variable_holds_one_of_its_choices_or_a_number(name: str, value: str, release: str, refused: bool) -> None:
    assert (settings.bad_variable(name, value, parse(release)) is not None) == refused
