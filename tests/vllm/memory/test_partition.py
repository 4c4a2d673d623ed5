"""The GPUs that a container may get, by their plans: each is where the plan of its name would put it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.vllm.gpu import Accelerator, Gpu, all_products, by_name
from podfit.vllm.memory import plan
from podfit.vllm.memory.partition import Candidate, Needs, Partition, needed_memory, partition
from tests.vllm.memory.engines import DEEPSEEK_V3, GPT_OSS_20B, LLAMA_8B, engine, gpu, model, on

WHOLE = tuple(one for one in all_products() if one.vendor in ("nvidia", "amd"))


def names(found: Partition) -> dict[str, list[str]]:
    return {verdict: [one.gpu.name for one in listed] for verdict, listed in found.by_verdict.items()}


def candidates(*gpus: Gpu) -> list[Candidate]:
    return [Candidate(one) for one in gpus]


def test_a_model_of_15_gib_fits_from_24_gb_on() -> None:
    t4, l4, h100 = (by_name(name)[0] for name in ("Tesla-T4", "NVIDIA-L4", "NVIDIA-H100-80GB-HBM3"))
    found = partition(engine("0.27.1", max_model_len=8192), model(**LLAMA_8B), candidates(t4, l4, h100))

    assert names(found) == {"fits": [l4.name, h100.name], "unsure": [], "does-not-fit": [t4.name]}


@pytest.mark.parametrize("config", [LLAMA_8B, DEEPSEEK_V3, GPT_OSS_20B], ids=["llama", "deepseek", "gpt-oss"])
@pytest.mark.parametrize("release", ["0.6.3", "0.8.4", "0.10.2", "0.33.0", "0.3.0"])
def test_each_gpu_of_the_table_stands_where_its_own_plan_stands(config: dict[str, Any], release: str) -> None:
    args, served = engine(release, max_model_len=16384), model(**config)
    found = partition(args, served, candidates(*WHOLE))

    assert {one.gpu.name: one.verdict for one in found.gpus} == {
        one.name: plan.judge(args, served, Accelerator((one,), 1)).verdict for one in WHOLE
    }


@given(
    st.sampled_from(WHOLE),
    st.sampled_from(["0.7.3", "0.9.1", "0.20.0", "0.33.0"]),
    st.fixed_dictionaries(
        {},
        optional={
            "max_model_len": st.sampled_from([2048, 32768, 131072]),
            "gpu_memory_utilization": st.sampled_from([0.3, 0.9, 0.98, 1.0, 1.5]),
            "max_num_seqs": st.sampled_from([1, 1024]),
            "tensor_parallel_size": st.sampled_from([1, 2, 8]),
            "quantization": st.sampled_from(["fp8", "unheard-of"]),
            "kv_cache_memory_bytes": st.sampled_from([1 << 30, 1 << 36]),
            "revision": st.just("v1"),
        },
    ),
)
def test_it_is_the_plan_of_the_name_whatever_the_arguments(one: Gpu, release: str, given: dict[str, object]) -> None:
    args, served = engine(release, **given), model(**LLAMA_8B)

    assert partition(args, served, candidates(one)).gpus[0].verdict == plan.judge(args, served, on(one)).verdict


def test_without_a_release_the_newest_that_serves_the_model_is_planned_or_every_one() -> None:
    args, served, l4 = engine(None, max_model_len=60000), model(**LLAMA_8B), by_name("NVIDIA-L4")[0]
    newest = plan.releases_of(args, served)[-1]

    once, every = (partition(args, served, candidates(l4), one_release=one) for one in (True, False))

    assert once.assumed_release == newest
    assert once.gpus[0].verdict == plan.judge(replace(args, release=newest), served, on(l4)).verdict
    assert every.assumed_release is None
    assert every.gpus[0].verdict == plan.judge(args, served, on(l4)).verdict
    assert partition(engine("0.27.1"), served, candidates(l4)).assumed_release is None


def test_nothing_certainly_fits_a_shared_gpu() -> None:
    l4, t4 = by_name("NVIDIA-L4")[0], by_name("Tesla-T4")[0]
    args = engine("0.27.1", max_model_len=8192)

    shared = partition(args, model(**LLAMA_8B), [Candidate(l4, shared=True), Candidate(t4, shared=True)])
    both = partition(args, model(**LLAMA_8B), [Candidate(l4), Candidate(l4, shared=True)])

    assert names(shared) == {"fits": [], "unsure": [l4.name], "does-not-fit": [t4.name]}
    assert names(both) == {"fits": [], "unsure": [l4.name], "does-not-fit": []}


def test_what_fits_nowhere_says_what_each_gpu_needs() -> None:
    found = partition(engine("0.27.1", max_model_len=8192), model(**DEEPSEEK_V3), candidates(*WHOLE))

    assert found.fits_none
    assert found.needs is not None
    assert 650e9 < found.needs.low <= found.needs.likely <= found.needs.high < 900e9


@pytest.mark.parametrize("release", ["0.10.2", "0.27.1"])
def test_a_gpu_with_the_needed_memory_holds_one_request(release: str) -> None:
    args, served = engine(release, max_model_len=32768), model(**LLAMA_8B)
    found = partition(args, served, candidates(gpu(46)))
    assert found.needs is not None

    enough, little = gpu(found.needs.high / 2**30 + 0.1), gpu(found.needs.low / 2**30 - 0.1)

    assert plan.judge(args, served, on(enough)).verdict == "fits"
    assert plan.judge(args, served, on(little)).verdict != "fits"


def test_given_cache_memory_replaces_the_share() -> None:
    size = 4 << 30
    judged = plan.judge(
        engine("0.22.0", kv_cache_memory_bytes=size, max_model_len=8192), model(**LLAMA_8B), on(gpu(46))
    )
    assert judged.ledger is not None
    ledger = judged.ledger
    taken = sum(
        line.likely for line in (ledger.weights, ledger.activations, ledger.cuda_graphs, ledger.amount("non_torch"))
    )

    needs = needed_memory(ledger)

    assert isinstance(needs, Needs)
    assert needs.likely == taken + size
