"""docs/memory.md: the worked example equals what vLLM 0.19.0 printed, to the last decimal but one."""

from __future__ import annotations

import pytest

from podfit.kube.quantity import GI
from podfit.vllm.memory.plan import plan
from podfit.vllm.model import by_id
from tests.vllm.memory.engines import engine, gpu, on


def test_llama_8b_on_an_h100() -> None:
    row = by_id("meta-llama/Llama-3.1-8B-Instruct")
    assert row is not None
    args = engine("0.19.0", max_model_len=8192, max_num_batched_tokens=8192, gpu_memory_utilization=0.95)
    ledger = plan(args, row.value, on(gpu(79.19, name="NVIDIA H100 80GB"))).gpu
    assert ledger is not None
    printed = {"weights": 14.99, "activations": 1.89, "non_torch": 0.25, "kv_cache": 58.11}
    for name, value in printed.items():
        assert ledger.amount(name).likely / GI == pytest.approx(value, abs=0.011), name
    assert ledger.kv_cache_bytes_per_token == 131_072
    assert ledger.kv_cache_tokens is not None
    assert ledger.kv_cache_tokens[1] == pytest.approx(476_000, rel=0.0002)
    assert ledger.max_concurrency == pytest.approx(58.11, abs=0.02)
