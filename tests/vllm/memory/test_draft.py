"""Speculative decoding: what the drafter adds."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.kube.quantity import GI
from podfit.vllm.memory.estimate import Estimate
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


def test_a_block_drafter_is_some_layers_of_the_target() -> None:
    """Five layers of Llama 70B, cut over four ranks, and a projection that each rank has whole: 2.6 GiB. Its files
    may be quantized, or have more layers."""
    one = {"method": "dflash", "model": "acme/block-drafter", "num_speculative_tokens": 15}
    drafted, plain = ledger(speculative_config=one).weights, ledger().weights
    assert drafted.floor == plain.floor
    assert (drafted.likely - plain.likely) / GI == pytest.approx(5 * (0.856 / 4 + 0.067) * 1e9 * 2 / GI, rel=0.05)
    assert drafted.low - plain.low < 0.5 * (drafted.likely - plain.likely)
    assert drafted.high - plain.high > 1.9 * (drafted.likely - plain.likely)


@pytest.mark.parametrize(("name", "gib"), [("acme/Laguna-DFlash", 36.9), ("acme/Laguna-DFlash-INT4", 10.3)])
def test_laguna_s_block_drafter_has_its_experts(name: str, gib: float) -> None:
    """Printed on a DGX Spark: 34 GiB in 16 bits and 8 GiB in INT4, the method read from the name."""

    def weights(**given: Any) -> Estimate:
        """Of the target on a GPU that holds it."""
        found = plan(engine("0.25.1", max_model_len=8192, **given), model(**LAGUNA), on(gpu(400))).gpu
        assert found is not None
        return found.weights

    drafted, plain = weights(speculative_config={"model": name, "num_speculative_tokens": 15}), weights()
    assert (drafted.likely - plain.likely) / GI == pytest.approx(gib, rel=0.02)
    assert drafted.low - plain.low < 8 * GI
    assert drafted.high - plain.high > 34 * GI
    assert drafted.floor == plain.floor


LAGUNA: dict[str, Any] = {
    "architectures": ["LagunaForCausalLM"], "model_type": "laguna", "num_hidden_layers": 48, "hidden_size": 3072,
    "intermediate_size": 12288, "moe_intermediate_size": 1024, "num_experts": 256, "num_experts_per_tok": 8,
    "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 100352,
}  # fmt: skip


@pytest.mark.parametrize(
    ("bits", "gib"),
    [
        pytest.param({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.79, id="NVFP4: the layer stays in 16"),
        pytest.param({"quant_method": "awq", "bits": 4}, 0.20, id="AWQ: like the others"),
        pytest.param({"quant_method": "fp8", "weight_block_size": [128, 128]}, 0.40, id="8 bits: like the others"),
    ],
)
def test_layers_of_multi_token_prediction_in_quantized_checkpoints(bits: dict[str, Any], gib: float) -> None:
    """Qwen3.8-27B in INT4 took 18.5 GiB with them on a DGX Spark; its files have 17.3."""
    config = {**LLAMA_70B, "num_hidden_layers": 8, "num_nextn_predict_layers": 1, "quantization_config": bits,
              "hidden_size": 5120, "intermediate_size": 17408, "num_attention_heads": 40}  # fmt: skip

    def weights(**given: Any) -> Estimate:
        """Of a small model with one such layer."""
        found = plan(engine("0.25.1", max_model_len=8192, **given), model(**config), on(H100)).gpu
        assert found is not None
        return found.weights

    one = {"method": "mtp", "num_speculative_tokens": 3}
    drafted, plain = weights(speculative_config=one), weights()
    assert (drafted.likely - plain.likely) / GI == pytest.approx(gib, rel=0.15)
    assert drafted.floor - plain.floor <= 0.5 * GI
