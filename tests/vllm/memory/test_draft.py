"""Speculative decoding: what the drafter adds."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.kube.quantity import GI
from podfit.vllm.memory.ledger import GpuLedger
from podfit.vllm.memory.plan import plan
from tests.vllm.memory.engines import LLAMA_70B, engine, gpu, model, on

H100 = gpu(79.18, name="NVIDIA H100 80GB")


def ledger(**given: Any) -> GpuLedger:
    """Of Llama 70B over 4 H100s."""
    found = plan(
        engine("0.27.1", tensor_parallel_size=4, max_model_len=8192, **given), model(**LLAMA_70B), on(H100)
    ).gpu
    assert found is not None
    return found


def test_n_grams_add_nothing() -> None:
    drafted = ledger(speculative_config={"method": "ngram", "num_speculative_tokens": 4})
    assert (drafted.weights, drafted.kv_cache_bytes_per_token) == (ledger().weights, ledger().kv_cache_bytes_per_token)


def test_a_published_draft_model_is_loaded_and_cached_beside_the_target() -> None:
    """Llama 3.2 1B: 2.3 GiB over 4 ranks, 16 layers of 2 KV heads of 64 a rank."""
    one = {"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 4}
    drafted, plain = ledger(speculative_config=one), ledger()
    assert (drafted.weights.likely - plain.weights.likely) / GI == pytest.approx(2.3 / 4, abs=0.02)
    assert drafted.weights.floor > plain.weights.floor
    assert drafted.kv_cache_bytes_per_token is not None
    assert plain.kv_cache_bytes_per_token is not None
    assert drafted.kv_cache_bytes_per_token - plain.kv_cache_bytes_per_token == 16 * 2 * 2 * 64 * 2


def test_a_draft_model_on_one_rank_is_whole_there() -> None:
    one = {"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 4, "draft_tensor_parallel_size": 1}
    assert (ledger(speculative_config=one).weights.likely - ledger().weights.likely) / GI == pytest.approx(
        2.3, abs=0.03
    )


def test_an_eagle_head_is_about_a_layer_and_no_ground_for_a_refusal() -> None:
    one = {"method": "eagle3", "model": "acme/head-of-its-own", "num_speculative_tokens": 3}
    drafted, plain = ledger(speculative_config=one), ledger()
    assert (drafted.weights.likely - plain.weights.likely) / GI == pytest.approx(0.63, abs=0.1)
    assert drafted.weights.floor == plain.weights.floor


def test_a_draft_model_of_unknown_size_only_widens_the_interval() -> None:
    drafted, plain = ledger(speculative_config={"model": "acme/unheard-of", "num_speculative_tokens": 3}), ledger()
    assert drafted.weights.likely == plain.weights.likely
    assert drafted.weights.high - plain.weights.high == 2 * GI


@pytest.mark.parametrize("quantised", [{"quantization": "fp8"}, {"revision": "int4"}], ids=str)
def test_a_drafter_that_may_be_smaller_has_no_floor(quantised: dict[str, str]) -> None:
    one = {"model": "meta-llama/Llama-3.2-1B-Instruct", "num_speculative_tokens": 4}
    assert ledger(speculative_config=one).weights.floor > ledger().weights.floor
    assert ledger(speculative_config={**one, **quantised}).weights.floor == ledger().weights.floor
