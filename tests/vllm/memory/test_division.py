"""Which tensor-parallel sizes divide an FP8 checkpoint with a scale for each block of 128 × 128 weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podfit.vllm.memory.division import divisible
from tests.vllm.memory.engines import engine, model

BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
MOE: dict[str, Any] = {
    "num_experts": 128,
    "moe_intermediate_size": 1536,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
}
DENSE = {"intermediate_size": 9728, "num_attention_heads": 32, "num_key_value_heads": 8}


def sizes(config: dict[str, Any], release: str | None, **given: Any) -> list[int]:
    args = engine(release, **given)
    return [size for size in (1, 2, 4, 8) if divisible(model(**config), size, args)]


@pytest.mark.parametrize(
    ("config", "release", "given", "fit"),
    [
        ({**MOE, "quantization_config": BLOCKS}, "0.27.1", {}, [1, 2, 4]),  # 1,536 ÷ 8 = 192
        ({**MOE, "quantization_config": BLOCKS}, "0.6.6", {}, [1, 2, 4]),
        ({**MOE, "quantization_config": BLOCKS}, "0.29.0", {}, [1, 2, 4, 8]),  # scales are refined
        ({**MOE, "quantization_config": BLOCKS}, None, {}, [1, 2, 4, 8]),
        ({**MOE, "quantization_config": BLOCKS}, "0.27.1", {"enable_expert_parallel": True}, [1, 2, 4, 8]),
        ({**MOE, "quantization_config": BLOCKS}, "0.27.1", {"hf_overrides": {"x": 1}}, [1, 2, 4, 8]),
        ({**MOE, "quantization_config": {"quant_method": "fp8"}}, "0.27.1", {}, [1, 2, 4, 8]),  # a scale a tensor
        ({**MOE, "quantization_config": {**BLOCKS, "weight_block_size": [32, 32]}}, "0.27.1", {}, [1, 2, 4, 8]),
        (MOE, "0.27.1", {}, [1, 2, 4, 8]),
        ({**DENSE, "quantization_config": BLOCKS}, "0.33.0", {}, [1, 2, 4]),  # 9,728 ÷ 8 = 1,216
        (
            {**DENSE, "quantization_config": {**BLOCKS, "modules_to_not_convert": ["mlp.*"]}},
            "0.33.0", {}, [1, 2, 4, 8],
        ),
        ({**DENSE, "quantization_config": {**BLOCKS, "weight_block_size": "128"}}, "0.33.0", {}, [1, 2, 4, 8]),
    ],
    ids=str,
)  # fmt: skip
def test_slices_end_between_blocks(
    config: dict[str, Any], release: str | None, given: dict[str, Any], fit: list[int]
) -> None:
    assert sizes(config, release, **given) == fit


def test_blocks_that_only_an_id_tells_cut_nothing() -> None:
    guessed = replace(model(**MOE, quantization_config=BLOCKS), scheme_guessed=True)

    assert divisible(guessed, 8, engine("0.27.1"))
