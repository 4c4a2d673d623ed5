"""Models with more layers than any has: the cost of a plan is bounded, and its minimum remains true."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.vllm.memory import kv_cache, kv_specs, ranks, shape
from podfit.vllm.memory.ledger import GpuLedger, MemoryPlan
from podfit.vllm.memory.plan import plan
from podfit.vllm.memory.remembered import DEEP, DEEP_ENTRIES, Remembered
from podfit.vllm.memory.solve import alternatives
from podfit.vllm.model import MAX_LAYERS, Model, from_config
from tests.vllm.memory.engines import DEEPSEEK_V3, DEEPSEEK_V4_PRO, GEMMA3_27B, LLAMA_8B, QWEN35_35B, engine, gpu, on

H100 = gpu(79.18, name="NVIDIA H100 80GB", high=79.65)
FAMILIES = {
    "alike": LLAMA_8B, "windows": GEMMA3_27B, "dense, then experts": DEEPSEEK_V3, "states": QWEN35_35B,
    "compressed": DEEPSEEK_V4_PRO,
}  # fmt: skip
TINY: Mapping[str, Any] = {
    "max_position_embeddings": 1024,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "vocab_size": 64,
}
"""So small that thousands of layers fit."""


def deep(layers: int, config: Mapping[str, Any] = LLAMA_8B, **more: Any) -> Model:
    """A model with so many layers."""
    return from_config("example/deep", {**config, "num_hidden_layers": layers, **more}, complete=False)


def planned(model: Model, **given_: Any) -> MemoryPlan:
    """The plan on one H100."""
    return plan(engine(**given_), model, on(H100))


def ledger(model: Model, **given_: Any) -> GpuLedger:
    """The GPU's ledger of that plan."""
    found = planned(model, **given_).gpu
    assert found is not None
    return found


@pytest.mark.parametrize("config", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("layers", [10**6, 10**9, 2**53])
def test_absurd_numbers_of_layers_are_denied_and_cost_no_more(config: Mapping[str, Any], layers: int) -> None:
    tracemalloc.start()
    try:
        found = planned(deep(layers, config), max_model_len=4096)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found.verdict == "does-not-fit"
    assert peak < 8 << 20


@pytest.mark.parametrize("config", FAMILIES.values(), ids=FAMILIES)
@settings(max_examples=10, deadline=None)
@given(layers=st.integers(MAX_LAYERS + 1, 40 * MAX_LAYERS), stages=st.sampled_from([1, 2, 8]))
def test_the_minimum_of_the_weights_is_at_most_what_each_layer_has(
    config: Mapping[str, Any], layers: int, stages: int
) -> None:
    known = shape.of(deep(MAX_LAYERS, config))
    found = shape.of(deep(layers, config))
    assert known is not None
    assert found is not None
    cuts = [round(layers * stage / stages) for stage in range(stages + 1)]
    counts = [found.count(first, last) for first, last in pairwise(cuts)]

    assert tuple(map(sum, zip(*counts, strict=True))) == found.count()
    assert sum(found.count()) == layers
    lightest = min(sum(part.elements for part in layer) for layer in known.variants)
    assert known.body < found.body <= known.body + (layers - MAX_LAYERS) * lightest
    if len(known.variants) == 1:
        assert found.body == layers * lightest


def test_the_weights_of_layers_that_are_all_alike_are_counted_whole() -> None:
    as_deep = ledger(deep(10 * MAX_LAYERS, **TINY))
    known = ledger(deep(MAX_LAYERS, **TINY))

    assert as_deep.weights.floor == pytest.approx(10 * known.weights.floor, rel=0.05)


def test_only_the_minimum_is_known_and_nothing_fits() -> None:
    found = planned(deep(MAX_LAYERS + 1, **TINY), max_model_len=128, max_num_seqs=1)
    assert found.gpu is not None
    assert found.host is not None

    assert planned(deep(MAX_LAYERS, **TINY), max_model_len=128, max_num_seqs=1).verdict == "fits"
    assert found.verdict == "unsure"
    assert "more than 2,048 layers" in found.why
    for line in (found.gpu.weights, found.gpu.kv_cache, found.host.need):
        assert line.json() == {"floor": line.floor, "low": None, "likely": None, "high": None}
        assert line.floor > 0
    assert found.gpu.kv_cache_tokens is None
    assert found.gpu.max_concurrency is None
    assert found.startup is None


def test_layers_for_multi_token_prediction_are_counted_and_not_expanded() -> None:
    model = deep(32, num_nextn_predict_layers=10**9)
    speculative = {"method": "mtp", "num_speculative_tokens": 1}

    assert planned(model, speculative_config=speculative).verdict == "does-not-fit"
    assert planned(replace(model, num_nextn_predict_layers=1), max_model_len=4096).verdict == "fits"
    assert planned(model, max_model_len=4096).verdict == "unsure"


def test_no_changes_are_searched_for_a_model_that_is_too_deep() -> None:
    assert not alternatives(engine(max_model_len=4096), deep(10**6), on(H100))


@pytest.mark.parametrize("layers", [5000, 20_000])
def test_ranks_are_not_bounded_since_memory_falls_with_them(layers: int) -> None:
    args = {"tensor_parallel_size": 8, "pipeline_parallel_size": 1000, "max_model_len": 128}

    assert planned(deep(layers), **args).verdict == "unsure"
    assert planned(deep(layers), max_model_len=128).verdict == "does-not-fit"


def test_few_results_of_deep_models_are_remembered() -> None:
    memories: tuple[Remembered[..., Any], ...] = (shape.of, kv_specs.of, kv_cache._layout, ranks.of)
    for memory in memories:
        memory.cache_clear()
    for number in range(2 * DEEP_ENTRIES):
        planned(deep(DEEP, **TINY, rope_theta=number))

    for memory in memories:
        assert memory.cache_info().currsize == DEEP_ENTRIES
