"""Alternatives: each one, applied, fits; the planner says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.engines import DEEPSEEK_V3, LLAMA_8B, LLAMA_70B, QWEN35_35B, engine, gpu, model, on
from webhook.args import EngineArgs
from webhook.gpu import Accelerator, Gpu, by_name
from webhook.memory.plan import plan
from webhook.memory.solve import Alternative, alternatives, divisible
from webhook.model import Model

L4 = gpu(22.03, name="NVIDIA L4", capability=(8, 9), high=22.49)
T4 = gpu(14.56, name="Tesla T4", capability=(7, 5), high=15.0)


def texts(args: EngineArgs, config: Mapping[str, Any], card: Gpu, count: int = 1) -> list[str]:
    """What would be suggested."""
    return [one.text for one in alternatives(args, model(**config), on(card, count=count))]


def test_a_too_long_context_is_shortened_to_what_fits() -> None:
    (first, *_) = alternatives(engine("0.20.0"), model(), on(L4))
    length = first.changes["max_model_len"]
    assert first.text == f"--max-model-len {length}"
    assert length % 1024 == 0
    assert plan(engine("0.20.0", max_model_len=length), model(), on(L4)).verdict == "fits"
    assert plan(engine("0.20.0", max_model_len=length + 1024), model(), on(L4)).verdict != "fits"


def test_weights_that_are_too_large_ask_for_gpus_or_another_product() -> None:
    found = texts(engine("0.20.0", max_model_len=4096), LLAMA_8B, T4)
    assert found[0] == "2 GPUs with --tensor-parallel-size 2"
    assert found[1].startswith("nodeSelector nvidia.com/gpu.product: NVIDIA-")
    assert not any("--max-model-len" in text for text in found)


def test_eight_gpus_may_still_need_a_shorter_context() -> None:
    found = texts(engine("0.27.1", tensor_parallel_size=4, gpu_memory_utilization=0.95), LLAMA_70B, L4, 4)
    assert found[0].startswith("8 GPUs with --tensor-parallel-size 8 and --max-model-len ")
    assert found[1] == "nodeSelector nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB"


def test_what_changes_the_output_says_so_and_comes_last() -> None:
    found = texts(engine("0.20.0"), {**LLAMA_8B, "num_hidden_layers": 40}, L4)
    marked = [text.startswith("(changes the model's output)") for text in found]
    assert marked == sorted(marked)
    assert len(found) <= 4


def test_nothing_is_suggested_where_nothing_helps() -> None:
    huge = {**DEEPSEEK_V3, "num_hidden_layers": 400}
    assert texts(engine("0.20.0", tensor_parallel_size=8), huge, gpu(178, high=179), 8) == []


def test_a_slice_of_a_gpu_is_never_multiplied() -> None:
    part = gpu(9.5, mig="1g.10gb")
    assert not any("GPUs with" in text for text in texts(engine("0.20.0"), LLAMA_8B, part))


@pytest.mark.parametrize(
    ("heads", "groups", "fits"), [(32, 8, [2, 4, 8]), (24, 4, [2, 4, 8]), (28, 4, [2, 4]), (25, 5, [])]
)
def test_tensor_parallelism_must_divide_the_heads(heads: int, groups: int, fits: list[int]) -> None:
    shape = model(num_attention_heads=heads, num_key_value_heads=groups, head_dim=128)
    assert [size for size in (2, 4, 8) if divisible(shape, size)] == fits


def applied(one: Alternative, args: EngineArgs, shape: Model, where: Accelerator) -> str:
    """The verdict with the change made."""
    changes = {dest: value for dest, value in one.changes.items() if dest not in ("gpus", "product")}
    if "product" in one.changes:
        where = replace(where, gpus=by_name(one.changes["product"]))
    return plan(replace(args, given={**args.given, **changes}), shape, where).verdict


@settings(max_examples=30)
@given(
    st.sampled_from([LLAMA_8B, LLAMA_70B, QWEN35_35B, DEEPSEEK_V3]),
    st.sampled_from(["0.8.5", "0.11.0", "0.19.0", "0.33.0", None]),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(8, 90),
)
def test_every_alternative_fits_when_it_is_applied(
    config: Mapping[str, Any], release: str | None, tp: int, gib: int
) -> None:
    args, shape, where = engine(release, tensor_parallel_size=tp), model(**config), on(gpu(gib), count=tp)
    for one in alternatives(args, shape, where):
        if one.changes:
            assert applied(one, args, shape, where) == "fits", one.text
