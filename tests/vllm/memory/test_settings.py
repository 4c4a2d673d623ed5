"""The settings of an engine: parts with names. The part without the budget is the key of the ranks' cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from podfit.vllm.memory import ranks, settings
from podfit.vllm.memory.settings import ResolvedArguments
from podfit.vllm.release import Release
from tests.vllm.memory.engines import engine, gpu, model

LLAMA, H100 = model(), gpu(79.19)


def resolve(**given: Any) -> ResolvedArguments:
    return settings.resolve(engine("0.27.1", **given), LLAMA, H100, H100.memory, Release(0, 27, 1), {})


@pytest.mark.parametrize(
    "given",
    [
        {"gpu_memory_utilization": 0.5},
        {"max_model_len": 4096},
        {"max_model_len": "auto"},
        {"kv_cache_memory_bytes": 8 << 30},
    ],
)
def test_engines_that_differ_in_the_budget_alone_share_their_ranks(given: Mapping[str, Any]) -> None:
    batch = {"max_num_seqs": 64, "max_num_batched_tokens": 4096}
    usual, other = resolve(**batch), resolve(**batch, **given)

    assert usual.budget != other.budget
    assert usual.settings == other.settings
    assert ranks.of(LLAMA, usual.settings) is ranks.of(LLAMA, other.settings)


@pytest.mark.parametrize(
    "given",
    [
        {"tensor_parallel_size": 2},
        {"max_num_seqs": 8},
        {"quantization": "fp8"},
        {"block_size": 32},
        {"limit_mm_per_prompt": {"video": 0}},
        {"all2all_backend": "naive"},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2}},
        {"enable_lora": True},
        {"cpu_offload_gb": 1},
        {"enforce_eager": True},
    ],
)
def test_every_other_setting_is_part_of_the_key(given: Mapping[str, Any]) -> None:
    assert resolve().settings != resolve(**given).settings


def test_settings_have_keywords_only_and_never_change() -> None:
    found = resolve().settings
    assert all(part.kw_only for part in fields(found))
    with pytest.raises(FrozenInstanceError):
        found.batch.max_num_seqs = 1  # type: ignore[misc]
