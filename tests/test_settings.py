"""What config classes and registries take, by release: read off vLLM's sources, asked in words."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.args import settings
from webhook.release import Release, parse

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
        ("compilation_config", {"anything": 1}, "99.0", []),
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
        ("data_parallel_size", 0, "0.21.0", False),  # its neighbours do not agree
        ("data_parallel_size", 0, "0.23.0", True),
        ("tensor_parallel_size", 1, "0.33.0", False),
        ("watermark", 1.0, "0.33.0", True),
        ("node_rank", 0, "0.33.0", False),
    ],
)
def test_bounds(dest: str, value: float, release: str, refused: bool) -> None:
    assert (settings.out_of_bounds(dest, value, parse(release)) is not None) is refused


def test_a_class_that_is_only_made_with_a_switch() -> None:
    assert settings.needs("max_loras") == "enable_lora"
    assert settings.needs("tensor_parallel_size") is None


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


def test_nothing_is_known_of_a_newer_release() -> None:
    assert settings.unknown_name("tool_call_parser", "anything", NEWER) is None
    assert settings.out_of_bounds("max_loras", 0, NEWER) is None


def test_every_flag_with_bounds_is_an_argument_of_some_release() -> None:
    from webhook.args.flags import builtin

    known = {dest for release in builtin().releases for dest in builtin().rows(release)}
    assert {*settings.bounded(), *settings.configs()} <= known
