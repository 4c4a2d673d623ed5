"""Whole images and videos: which models, since when, and what becomes of the default batch."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vllm.memory import media, settings
from podfit.vllm.release import Release
from tests.vllm.memory.engines import LLAMA_8B, engine, gpu, model

WHOLE = {**LLAMA_8B, "model_type": "gemma4", "use_bidirectional_attention": "vision"}
L40S = gpu(44.4, name="NVIDIA L40S", capability=(8, 9), high=45.0)


@pytest.mark.parametrize(
    ("release", "config", "tokens"),
    [
        ("0.19.1", WHOLE, 2048),
        ("0.21.0", WHOLE, 2048),
        ("0.22.0", WHOLE, 2496),
        ("0.33.0", WHOLE, 2496),
        ("0.33.0", LLAMA_8B, 2048),
        ("0.33.0", {**WHOLE, "use_bidirectional_attention": None}, 2048),
    ],
)
def test_the_default_batch_is_raised_to_the_longest_item(release: str, config: dict[str, Any], tokens: int) -> None:
    found = Release(*map(int, release.split(".")))
    args = engine(release, max_model_len=8192)

    assert (
        settings.resolve(args, model(**config), L40S, 44 << 30, found, {}).settings.batch.max_num_batched_tokens
        == tokens
    )


def test_a_batch_that_is_given_is_kept() -> None:
    args = engine("0.33.0", max_model_len=8192, max_num_batched_tokens=2048)

    resolved = settings.resolve(args, model(**WHOLE), L40S, 44 << 30, Release(0, 33), {})

    assert resolved.settings.batch.max_num_batched_tokens == 2048


@pytest.mark.parametrize(
    ("given", "none"),
    [
        ({}, False),
        ({"limit_mm_per_prompt": {"image": 0}}, False),
        ({"limit_mm_per_prompt": {"video": 0}}, True),
        ({"limit_mm_per_prompt": {"video": {"count": 1, "num_frames": 8}}}, True),
        ({"language_model_only": True}, True),
        ({"model_impl": "transformers"}, True),
        ({"model_impl": "vllm"}, False),
    ],
)
def test_who_takes_no_long_videos(given: dict[str, Any], none: bool) -> None:
    assert media.no_videos(given) is none
