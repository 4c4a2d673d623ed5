"""`--dtype auto` on a GPU without bfloat16: float16, or float32 where the model has no float16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podfit.vllm.gpu import Gpu
from podfit.vllm.memory import settings
from podfit.vllm.memory.dtype import lacks_half
from podfit.vllm.model import from_config
from podfit.vllm.release import parse
from tests.vllm.memory.engines import GEMMA3_27B, LLAMA_8B, engine, gpu, model

T4 = gpu(14.56, name="Tesla T4", capability=(7, 5), supports_bf16=False)
L4 = gpu(22.03, name="NVIDIA L4", capability=(8, 9))


@pytest.mark.parametrize(
    ("config", "where", "release", "dtype", "bytes_"),
    [
        (GEMMA3_27B, T4, "0.33.0", None, 4),
        (GEMMA3_27B, T4, "0.10.2", "auto", 4),
        (GEMMA3_27B, T4, "0.33.0", "bfloat16", 2),  # denied for that, by gpu-lacks-dtype
        ({**GEMMA3_27B, "model_type": "gemma3"}, T4, "0.9.1", None, 4),
        (GEMMA3_27B, T4, "0.8.5", None, 2),
        (GEMMA3_27B, L4, "0.33.0", None, 2),
        (GEMMA3_27B, None, "0.33.0", None, 2),
        (LLAMA_8B, T4, "0.33.0", None, 2),
        (LLAMA_8B, T4, "0.33.0", "float32", 4),
    ],
)
def test_auto_takes_what_both_can(
    config: Mapping[str, Any], where: Gpu | None, release: str, dtype: str | None, bytes_: int
) -> None:
    args = engine(release, **({"dtype": dtype} if dtype else {}))
    assert args.release is not None
    assert settings.resolve(args, model(**config), where, 0, args.release, {}).settings.types.dtype == bytes_


@pytest.mark.parametrize(
    ("model_type", "release", "lacks"),
    [
        ("gemma3", "0.11.0", True),
        ("gemma3", None, True),
        ("gemma3", "0.9.1", True),
        ("gemma3_text", "0.10.2", True),
        ("gemma3_text", "0.10.1", False),
        ("gemma3_text", None, True),
        ("plamo2", "0.24.0", True),
        ("plamo2", "0.25.1", False),  # not read
        ("plamo2", "0.27.1", False),
        ("plamo2", None, False),
        ("llama", "0.11.0", False),
    ],
)
def test_which_models_a_release_does_not_serve_in_half(model_type: str, release: str | None, lacks: bool) -> None:
    assert (
        lacks_half(from_config("acme/ours", {"model_type": model_type}), parse(release) if release else None) is lacks
    )
