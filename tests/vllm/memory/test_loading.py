"""What is on the GPU while the weights load: `--quantization fp8` of a checkpoint in 16 bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.kube.quantity import GI
from podfit.vllm.memory.plan import plan
from tests.vllm.memory.engines import DEEPSEEK_V3, LLAMA_8B, LLAMA_70B, engine, gpu, model, on

QWEN_14B: Mapping[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16", "num_hidden_layers": 48,
    "hidden_size": 5120, "intermediate_size": 13824, "num_attention_heads": 40, "num_key_value_heads": 8,
    "vocab_size": 152064, "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
"""27.5 GiB in 16 bits, 15.2 GiB in FP8."""
L4 = gpu(22.03, name="NVIDIA L4", capability=(8, 9), high=22.49)
FP8: Mapping[str, Any] = {"quantization": "fp8", "max_model_len": 4096, "max_num_seqs": 16}
RELEASES = ("0.4.2", "0.6.6", "0.7.3", "0.8.5", "0.9.2", "0.11.0", "0.12.0", "0.13.0", "0.15.1")


@pytest.mark.parametrize("release", RELEASES)
def test_until_0_15_all_weights_must_fit_in_16_bits_first(release: str) -> None:
    found = plan(engine(release, **FP8), model(**QWEN_14B), on(L4))
    assert (found.verdict, found.cause) == ("does-not-fit", "loading")
    assert found.gpu
    assert found.gpu.loading
    assert found.gpu.loading.likely / GI == pytest.approx(27.5, abs=0.1)
    assert found.gpu.weights.likely / GI == pytest.approx(15.2, abs=0.1)
    for told in (f"vLLM {release}", "in 16 bits", "27.5 GiB", "15.2 GiB", "22 GiB", "v0.16", "stored in FP8"):
        assert told in found.why


@pytest.mark.parametrize("release", ["0.16.0", "0.17.1", "0.20.2", "0.27.1", "0.33.0"])
def test_from_0_16_on_each_layer_is_quantised_as_it_is_filled(release: str) -> None:
    found = plan(engine(release, **FP8), model(**QWEN_14B), on(L4))
    assert found.verdict == "fits"
    assert found.gpu
    assert found.gpu.loading is None


def test_where_the_release_is_not_known_it_depends_on_it() -> None:
    found = plan(engine(None, **FP8), model(**QWEN_14B), on(L4))
    assert found.verdict == "unsure"
    assert "depends on vLLM's release" in found.why


@pytest.mark.parametrize(
    ("method", "release", "holds"),
    [
        ("fp8", "0.15.1", True),
        ("ptpc_fp8", "0.14.1", True),
        ("ptpc_fp8", "0.15.1", False),
        ("bitsandbytes", "0.11.0", False),
        ("experts_int8", "0.11.0", False),
        (None, "0.11.0", False),
    ],
)
def test_other_methods_allocate_what_they_quantise_to(method: str | None, release: str, holds: bool) -> None:
    found = plan(engine(release, quantization=method, max_model_len=4096), model(**QWEN_14B), on(L4))
    assert found.gpu
    assert (found.gpu.loading is not None) is holds


def test_a_checkpoint_in_fp8_is_loaded_as_it_is() -> None:
    stored = model(**QWEN_14B, quantization_config={"quant_method": "fp8", "activation_scheme": "dynamic"})
    found = plan(engine("0.9.2", **FP8), stored, on(L4))
    assert found.verdict == "fits"
    assert found.gpu
    assert found.gpu.loading is None


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        pytest.param({"tensor_parallel_size": 2}, 14.1, id="tensor parallelism divides them"),
        pytest.param({"pipeline_parallel_size": 2}, 14.3, id="so do pipeline stages"),
        pytest.param({"cpu_offload_gb": 8.0}, 19.6, id="what may be offloaded is not counted"),
        pytest.param({"cpu_offload_gb": 64.0}, 0.0, id="nor where that is more than there is"),
    ],
)
def test_what_is_not_on_the_rank_is_not_held_against_its_memory(changes: Mapping[str, Any], most: float) -> None:
    found = plan(engine("0.9.2", **FP8, **changes), model(**QWEN_14B), on(L4, count=2))
    assert found.cause != "loading"
    assert found.gpu
    assert found.gpu.loading
    assert found.gpu.loading.floor / GI <= most


def test_too_little_is_offloaded() -> None:
    assert plan(engine("0.9.2", **FP8, cpu_offload_gb=2.0), model(**QWEN_14B), on(L4)).cause == "loading"


def test_what_is_made_after_the_weights_is_not_counted_with_them() -> None:
    """LoRA's slots and a drafter."""
    plain = plan(engine("0.9.2", **FP8), model(**QWEN_14B), on(L4))
    more = {"enable_lora": True, "max_lora_rank": 256, "speculative_config": {"method": "mtp"}}
    full = plan(engine("0.9.2", **FP8, **more), model(**QWEN_14B), on(L4))
    assert plain.gpu
    assert full.gpu
    assert full.gpu.weights.likely > plain.gpu.weights.likely
    assert full.gpu.loading == plain.gpu.loading


def test_copies_for_latent_attention_are_made_once_the_weights_are_quantised() -> None:
    asked = {"max_model_len": 4096, "max_num_seqs": 16, "tensor_parallel_size": 8}
    served, cards = model(**{**DEEPSEEK_V3, "quantization_config": None}), on(gpu(141, name="NVIDIA H200"), count=8)
    stored = plan(engine("0.9.2", **asked), served, cards).gpu
    found = plan(engine("0.9.2", quantization="fp8", **asked), served, cards).gpu
    assert stored
    assert found
    assert found.loading
    assert found.loading.likely < stored.weights.likely


def test_another_loader_is_no_ground() -> None:
    found = plan(engine("0.9.2", **FP8, load_format="tensorizer"), model(**QWEN_14B), on(L4))
    assert found.verdict == "unsure"
    assert found.why.startswith("--load-format tensorizer ")


def test_memory_that_is_the_hosts_is_no_ground() -> None:
    shared = gpu(22.03, name="Example", capability=(8, 7), high=22.49, unified_memory=True)
    assert plan(engine("0.9.2", **FP8), model(**QWEN_14B), on(shared)).cause != "loading"


def test_the_whole_gpu_counts_and_not_the_share_that_vllm_may_use() -> None:
    """27.5 GiB fit into 30 GiB. 15.2 GiB do not fit into 0.4 of them, and that is another denial."""
    card = gpu(30, capability=(8, 9))
    assert plan(engine("0.9.2", **FP8), model(**QWEN_14B), on(card)).verdict == "fits"
    assert plan(engine("0.9.2", **FP8, gpu_memory_utilization=0.4), model(**QWEN_14B), on(card)).cause == "blocks"


SOFTER = ("does-not-fit", "unsure", "fits")


@given(
    st.sampled_from([QWEN_14B, LLAMA_8B, LLAMA_70B]),
    st.sampled_from([*RELEASES, "0.16.0", "0.33.0", None]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0.0, 4.0, 16.0]),
    st.tuples(st.floats(4, 160), st.floats(4, 160)),
)
def test_less_memory_is_never_a_softer_verdict(
    config: Mapping[str, Any], release: str | None, ranks: int, offload: float, sizes: tuple[float, float]
) -> None:
    asked = engine(release, **FP8, tensor_parallel_size=ranks, cpu_offload_gb=offload, max_num_batched_tokens=2048)
    less, more = (plan(asked, model(**config), on(gpu(size), count=ranks)) for size in sorted(sizes))
    assert SOFTER.index(less.verdict) <= SOFTER.index(more.verdict)


@given(st.sampled_from(RELEASES), st.sampled_from([1, 2, 4]), st.floats(4, 160))
def test_what_fits_in_16_bits_is_never_refused_for_loading(release: str, ranks: int, size: float) -> None:
    """What is denied for loading would not fit in 16 bits either."""
    card = on(gpu(size), count=ranks)
    found = plan(engine(release, **FP8, tensor_parallel_size=ranks), model(**QWEN_14B), card)
    plain = plan(
        engine(release, max_model_len=4096, max_num_seqs=16, tensor_parallel_size=ranks), model(**QWEN_14B), card
    )
    if found.cause == "loading":
        assert plain.verdict == "does-not-fit"
