"""vLLM's second model runner: which engines have it, and what it leaves outside the budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podfit.kube.quantity import GI
from podfit.vllm.memory import settings
from podfit.vllm.memory.plan import plan
from podfit.vllm.release import Release, parse
from tests.vllm.memory.engines import DEEPSEEK_V3, LLAMA_8B, QWEN35_35B, engine, gpu, model, on

QWEN2 = {**LLAMA_8B, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
QWEN3 = {**LLAMA_8B, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
FP8 = {"quantization_config": {"quant_method": "fp8"}}


@pytest.mark.parametrize(
    ("config", "given", "env", "last", "first"),
    [
        pytest.param(QWEN3, {}, {}, "0.21.0", "0.22.0", id="Qwen 3, the first class"),
        pytest.param(LLAMA_8B, {}, {}, "0.22.1", "0.23.0", id="Llama"),
        pytest.param({**LLAMA_8B, **FP8}, {}, {}, "0.23.0", "0.24.0", id="a quantized Llama"),
        pytest.param(LLAMA_8B, {"quantization": "fp8"}, {}, "0.23.0", "0.24.0", id="quantized while loading"),
        pytest.param(QWEN2, {}, {}, "0.24.0", "0.25.0", id="another dense class"),
        pytest.param(DEEPSEEK_V3, {}, {}, "0.28.0", "0.29.0", id="experts"),
        pytest.param(QWEN35_35B, {}, {}, "0.28.0", "0.29.0", id="state layers"),
        pytest.param(QWEN2, {"runner": "pooling"}, {}, "0.28.0", "0.29.0", id="a pooling model"),
        pytest.param(QWEN2, {"enable_prompt_embeds": True}, {}, "0.28.0", "0.29.0", id="prompt embeddings"),
        pytest.param(QWEN2, {"logits_processors": ["a:B"]}, {}, "0.32.0", "0.33.0", id="logits processors"),
        pytest.param(
            QWEN2, {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, {}, "0.32.0", "0.33.0",
            id="ngram",
        ),
        pytest.param(QWEN2, {}, {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "0.11.2", "0.12.0", id="by the variable"),
    ],
)  # fmt: skip
def test_the_first_release_with_the_second_runner(
    config: Mapping[str, Any], given: Mapping[str, Any], env: Mapping[str, str], last: str, first: str
) -> None:
    def is_second(release: str) -> bool:
        number = parse(release)
        assert number is not None
        args = engine(release, **given)
        return settings.resolve(args, model(**config), gpu(80), 80 * GI, number, env).settings.second_runner

    assert (is_second(last), is_second(first)) == (False, True)


def test_the_variable_takes_the_first_runner() -> None:
    found = settings.resolve(
        engine("0.27.1"), model(), gpu(80), 80 * GI, Release(0, 27, 1), {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    )
    assert not found.settings.second_runner


@pytest.mark.parametrize(
    ("release", "env", "charged"),
    [
        ("0.22.0", {}, True),
        ("0.25.1", {}, False),
        ("0.28.0", {}, False),
        ("0.29.0", {}, True),
        ("0.25.1", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, True),
        ("0.29.0", {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0"}, False),
    ],
)
def test_the_second_runner_charges_no_cuda_graphs_until_0_29(release: str, env: dict[str, str], charged: bool) -> None:
    ledger = plan(engine(release, max_model_len=8192), model(), on(gpu(80)), env=env).gpu
    assert ledger is not None
    assert ledger.graphs_charged is charged
    assert ledger.cuda_graphs.likely > 0


def test_qwen3_8b_on_a_4090_of_23_5_gib() -> None:
    """Printed by 0.27.1: 1.18 GiB peak, 0.56 of graphs next to the budget, 4.92 of KV cache."""
    config = {
        **QWEN3, "num_hidden_layers": 36, "intermediate_size": 12288, "vocab_size": 151936, "head_dim": 128,
        "max_position_embeddings": 40960,
    }  # fmt: skip
    card = gpu(23.52, capability=(8, 9))
    ledger = plan(engine("0.27.1", max_model_len=8192), model(**config), on(card)).gpu
    assert ledger is not None
    assert ledger.activations.likely / GI == pytest.approx(1.18, abs=0.08)
    assert ledger.cuda_graphs.likely / GI == pytest.approx(0.56, abs=0.08)
    assert ledger.kv_cache.likely / GI == pytest.approx(4.92, abs=0.15)


def test_an_eager_engine_holds_no_second_table() -> None:
    lazy, eager = (
        plan(engine("0.27.1", max_model_len=8192, enforce_eager=value), model(), on(gpu(24))).gpu
        for value in (False, True)
    )
    assert lazy is not None
    assert eager is not None
    table = 128256 * 4096 * 2
    assert lazy.activations.likely > table > eager.activations.likely
    assert lazy.activations.floor == eager.activations.floor
    assert lazy.activations.low == eager.activations.low
