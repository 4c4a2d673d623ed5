"""Alternatives: each one, applied, fits; the planner says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu, by_name
from podfit.vllm.memory import arguments
from podfit.vllm.memory.division import divisible
from podfit.vllm.memory.loaded import load
from podfit.vllm.memory.plan import plan
from podfit.vllm.memory.search import Search
from podfit.vllm.memory.solve import Alternative, alternatives, fewer_ranks
from podfit.vllm.model import Model, by_id
from podfit.vllm.release import Release
from tests.vllm.memory.engines import (
    DEEPSEEK_V3,
    GEMMA3_27B,
    GPT_OSS_120B,
    LLAMA_8B,
    LLAMA_70B,
    QWEN35_35B,
    engine,
    gpu,
    model,
    on,
)

L4 = gpu(22.03, name="NVIDIA L4", capability=(8, 9), high=22.49)
H100 = gpu(79.18, name="NVIDIA H100 80GB", high=79.65)
T4 = gpu(14.56, name="Tesla T4", capability=(7, 5), high=15.0)
(TURING,) = by_name("Tesla-T4")


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


def test_weights_that_are_too_large_ask_for_another_product_or_more_gpus() -> None:
    """One edit before two."""
    found = texts(engine("0.20.0", max_model_len=4096), LLAMA_8B, T4)
    assert found[:2] == ["nodeSelector nvidia.com/gpu.product: NVIDIA-L4", "2 GPUs with --tensor-parallel-size 2"]
    assert not any("--max-model-len" in text for text in found)


def test_eight_gpus_may_still_need_a_shorter_context() -> None:
    found = texts(engine("0.22.0", tensor_parallel_size=4, gpu_memory_utilization=0.95), LLAMA_70B, L4, 4)
    assert found[0] == "nodeSelector nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB"
    assert found[1].startswith("8 GPUs with --tensor-parallel-size 8 and --max-model-len ")


def test_a_share_that_leaves_nothing_to_the_context_is_lowered() -> None:
    assert texts(engine("0.20.0", gpu_memory_utilization=1.0), LLAMA_8B, H100) == ["--gpu-memory-utilization 0.95"]


@pytest.mark.parametrize("share", [0.95, 0.97])
def test_a_lower_share_with_a_shorter_context_keeps_the_gpu(share: float) -> None:
    """Before 0.20 CUDA graphs come on top of the share, so at 0.95 no context fits with them."""
    args = engine("0.19.1", gpu_memory_utilization=share)
    found = [one for one in alternatives(args, model(**LLAMA_8B), on(L4)) if "max_model_len" in one.changes]

    assert [one.changes["gpu_memory_utilization"] for one in found] == [0.92]
    assert plan(engine("0.19.1", **found[0].changes), model(**LLAMA_8B), on(L4)).verdict == "fits"


def test_a_little_more_of_the_gpu_is_enough_at_the_edge() -> None:
    (first, *_) = texts(engine("0.19.0", max_model_len=21_000, gpu_memory_utilization=0.8), LLAMA_8B, L4)
    assert first == "--gpu-memory-utilization 0.9"


def test_heads_that_nothing_divides_are_cut_by_layers() -> None:
    odd = {**LLAMA_8B, "num_attention_heads": 25, "num_key_value_heads": 5, "head_dim": 128}
    found = texts(engine("0.20.0", max_model_len=4096), odd, T4)
    assert "2 GPUs with --pipeline-parallel-size 2" in found


def test_a_larger_product_and_more_of_them_where_neither_is_enough() -> None:
    found = texts(engine("0.20.0", max_model_len=4096), {**LLAMA_70B, "num_hidden_layers": 126}, T4)
    assert (
        found[0]
        == "8 GPUs with --tensor-parallel-size 8 and nodeSelector nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB"
    )


def test_a_published_copy_is_named() -> None:
    row = by_id("meta-llama/Llama-3.3-70B-Instruct")
    assert row is not None
    card = on(gpu(79.18, name="NVIDIA H100 80GB", high=79.65), count=2)
    args = engine("0.19.0", tensor_parallel_size=2, max_model_len=32768)
    (copy,) = (one for one in alternatives(args, row.value, card, most=9) if "model" in one.changes)
    assert copy.text == f"(changes the model's output) {copy.changes['model']}"
    assert "FP8" in copy.text


def test_a_search_ends_when_its_steps_are_spent() -> None:
    """And what was found until then is still an answer that fits."""
    args, shape, where = engine("0.20.0"), model(), on(L4)
    whole = alternatives(args, shape, where, most=9, steps=10**4)
    assert alternatives(args, shape, where, steps=0) == []
    for steps in (2, 5, 10, 20):
        for one in alternatives(args, shape, where, steps=steps):
            assert applied(one, args, shape, where) == "fits"
    assert len(whole) > len(alternatives(args, shape, where, most=9, steps=10))


def test_fewer_gpus_where_one_holds_it_with_room() -> None:
    args = engine("0.20.0", tensor_parallel_size=4, max_model_len=8192)
    assert fewer_ranks(args, model(), on(H100, count=4), requests=16) == 1
    assert fewer_ranks(args, model(), on(L4, count=4), requests=16) == 2
    assert fewer_ranks(args, model(**LLAMA_70B), on(H100, count=4), requests=16) is None


def test_what_changes_the_output_says_so_and_comes_last() -> None:
    found = texts(engine("0.20.0"), {**LLAMA_8B, "num_hidden_layers": 40}, L4)
    marked = [text.startswith("(changes the model's output)") for text in found]
    assert marked == sorted(marked)
    assert len(found) <= 3


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
    assert [size for size in (2, 4, 8) if divisible(shape, size, engine())] == fits


def applied(one: Alternative, args: EngineArgs, shape: Model, where: Accelerator) -> str:
    """The plan's answer with the change made."""
    changes = {dest: value for dest, value in one.changes.items() if dest not in ("gpus", "product", "model")}
    if "product" in one.changes:
        where = replace(where, gpus=by_name(one.changes["product"]))
    if "model" in one.changes:
        row = by_id(one.changes["model"])
        assert row is not None
        shape = row.value
    return plan(replace(args, given={**args.given, **changes, **one.stands_for}), shape, where).verdict


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
        assert applied(one, args, shape, where) == "fits", one.text


@settings(max_examples=60)
@given(
    st.sampled_from([LLAMA_8B, LLAMA_70B, DEEPSEEK_V3, GEMMA3_27B, GPT_OSS_120B]),
    st.sampled_from(["0.8.5", "0.11.0", "0.33.0", None]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([
        {}, {"enable_lora": True, "max_lora_rank": 512, "max_loras": 64, "fully_sharded_loras": True},
        {"cpu_offload_gb": 10.0}, {"quantization": "fp8"}, {"pipeline_parallel_size": 2},
        {"enable_expert_parallel": True},
    ]),
    st.integers(8, 90),
    st.sampled_from([TURING, L4, H100]),
)  # fmt: skip
def test_a_ratio_of_the_weights_says_what_a_plan_says(
    config: Mapping[str, Any], release: str | None, tp: int, also: Mapping[str, Any], gib: int, card: Gpu
) -> None:
    """The search finds the same changes with as many steps if no ratio is known."""
    args, shape = engine(release, tensor_parallel_size=tp, **also), model(**config)
    where = on(card.with_memory(gib << 30), count=tp)
    for steps in (5, 75):
        found = alternatives(args, shape, where, steps=steps)
        with patch.object(Search, "_rank_ratio", return_value=0.0):
            assert alternatives(args, shape, where, steps=steps) == found


@pytest.mark.parametrize(
    ("config", "given_", "alike"),
    [
        (LLAMA_70B, {}, True),
        (LLAMA_70B, {"tensor_parallel_size": 2, "quantization": "fp8"}, True),
        (GEMMA3_27B, {}, False),  # float32 on a GPU without bfloat16
        (GPT_OSS_120B, {}, False),  # padded where Marlin's kernel runs
        (LLAMA_70B, {"enable_lora": True}, False),  # sharded twice
        (LLAMA_70B, {"cpu_offload_gb": 4.0}, False),  # as much on each rank
        (LLAMA_70B, {"kv_cache_memory_bytes": 1 << 30}, False),  # no budget
    ],
)
def test_weights_that_are_other_elsewhere_are_planned(
    config: Mapping[str, Any], given_: Mapping[str, Any], alike: bool
) -> None:
    asked = arguments.read(engine("0.33.0", **given_), model(**config), {})
    begun = load(asked, TURING, None, Release(0, 33))
    assert begun is not None
    assert begun.has_same_weights_elsewhere(asked.width) is alike


def test_where_a_larger_share_is_enough_nothing_that_gives_up_more_is_listed() -> None:
    found = texts(engine("0.27.1", gpu_memory_utilization=0.1, max_model_len=16_384), LLAMA_8B, L4)
    assert found == ["--gpu-memory-utilization 0.9"]


def test_one_of_the_products_that_it_may_be_is_a_choice() -> None:
    both = replace(on(T4), gpus=(*by_name("NVIDIA-L4"), *by_name("Tesla-T4")))
    (first, *_) = alternatives(engine("0.20.0", max_model_len=4096), model(), both)
    assert first.changes == {"product": "NVIDIA-L4"}


@pytest.mark.parametrize(("release", "size"), [("0.27.1", 4), ("0.30.0", 5)])  # from 0.28 a block more
def test_bytes_of_the_kv_cache_that_are_too_few_are_raised_where_the_gpu_has_more(release: str, size: int) -> None:
    args = engine(release, kv_cache_memory_bytes=1 << 30, max_model_len=32768)
    (first, *_) = alternatives(args, model(), on(H100))
    assert first.text == f"--kv-cache-memory-bytes {size}G"
    assert plan(engine(release, max_model_len=32768, **first.changes), model(), on(H100)).verdict == "fits"


def test_bytes_of_the_kv_cache_are_not_raised_above_what_the_gpu_has() -> None:
    args = engine("0.27.1", kv_cache_memory_bytes=1 << 30, max_model_len=65536)
    assert not any("--kv-cache-memory-bytes" in one for one in texts(args, LLAMA_8B, L4))
