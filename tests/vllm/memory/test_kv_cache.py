"""The KV cache: bytes a token, blocks a request, and the lines that vLLM logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podfit.kube.quantity import GI
from podfit.vllm.memory import kv_cache, kv_specs, settings
from podfit.vllm.memory.kv_cache import Layout
from podfit.vllm.memory.settings import Settings
from podfit.vllm.release import parse
from tests.vllm.memory.engines import (
    DEEPSEEK_V3,
    DEEPSEEK_V4_PRO,
    GEMMA3_27B,
    GPT_OSS_120B,
    LLAMA_8B,
    LLAMA_70B,
    QWEN35_35B,
    engine,
    gpu,
    model,
)


def laid_out(release: str, config: Mapping[str, Any], **given: Any) -> tuple[Layout, Settings]:
    """The layout of one rank, all its layers."""
    shape, args, number = model(**config), engine(release, **given), parse(release)
    assert number is not None
    resolved = settings.resolve(args, shape, gpu(79.19), 79 * GI, number, {}).settings
    found = kv_cache.layout(shape, resolved)
    assert found is not None
    return found, resolved


@pytest.mark.parametrize(
    ("config", "given", "size"),
    [
        pytest.param(LLAMA_8B, {}, 131_072, id="Llama 3.1 8B"),
        pytest.param(LLAMA_8B, {"kv_cache_dtype": "fp8"}, 65_536, id="fp8 halves it"),
        pytest.param(LLAMA_8B, {"kv_cache_dtype": "int8_per_token_head"}, 32 * 8 * 264, id="int8 with two scales"),
        pytest.param(LLAMA_8B, {"kv_cache_dtype": "nvfp4"}, 32 * 8 * 144, id="nvfp4"),
        pytest.param(LLAMA_8B, {"kv_cache_dtype": "turboquant_k8v4"}, 32 * 8 * 196, id="turboquant k8v4"),
        pytest.param(LLAMA_8B, {"kv_cache_dtype": "turboquant_4bit_nc"}, 32 * 8 * 134, id="turboquant 4 bit"),
        pytest.param(LLAMA_70B, {}, 327_680, id="Llama 3.1 70B"),
        pytest.param(LLAMA_70B, {"tensor_parallel_size": 8}, 40_960, id="one KV head a rank"),
        pytest.param(LLAMA_70B, {"tensor_parallel_size": 16}, 40_960, id="KV heads are replicated, not cut further"),
        pytest.param(DEEPSEEK_V3, {}, 70_272, id="MLA: one latent a token"),
        pytest.param(DEEPSEEK_V3, {"tensor_parallel_size": 8}, 70_272, id="the latent is on every rank"),
        pytest.param(DEEPSEEK_V3, {"kv_cache_dtype": "fp8"}, 35_136, id="MLA in fp8"),
        pytest.param(DEEPSEEK_V3, {"kv_cache_dtype": "fp8_ds_mla"}, 40_016, id="MLA, fp8 with scales and bf16 rope"),
        pytest.param(
            {**DEEPSEEK_V3, "index_head_dim": 128}, {}, 61 * (1_152 + 132), id="with the sparse attention's indexer"
        ),
    ],
)
def test_bytes_per_token_on_one_rank(config: Mapping[str, Any], given: Mapping[str, Any], size: int) -> None:
    layout, _ = laid_out("0.33.0", config, **given)
    assert layout.bytes_per_token == size


def test_before_0_7_1_latent_attention_is_stored_as_whole_heads() -> None:
    layout, _ = laid_out("0.6.3", DEEPSEEK_V3, tensor_parallel_size=8)
    assert layout.bytes_per_token == 61 * 16 * 2 * 256 * 2


@pytest.mark.parametrize(
    ("release", "config", "given", "gib", "printed"),
    [
        pytest.param("0.19.0", LLAMA_8B, {"max_model_len": 131_072}, 58.11, 476_016, id="blocks × 16"),
        pytest.param("0.19.0", GEMMA3_27B, {"max_model_len": 8192}, 19.53, 36_560, id="0.19: blocks over 7 groups"),
        pytest.param("0.10.1", GPT_OSS_120B, {"tensor_parallel_size": 4, "max_model_len": 16384}, 45.32, 2_640_144,
                     id="every other layer has a window"),
        pytest.param("0.27.0", QWEN35_35B, {"tensor_parallel_size": 4, "max_model_len": 65536}, 15.08, 1_533_440,
                     id="linear attention: blocks of 528 tokens, a state for each of three groups"),
        pytest.param("0.27.0", QWEN35_35B, {"tensor_parallel_size": 4, "max_model_len": 262144}, 10.44, 1_086_849,
                     id="a longer request carries its states more easily"),
        pytest.param("0.27.0", QWEN35_35B, {"tensor_parallel_size": 4, "max_model_len": 65536,
                     "kv_cache_dtype": "fp8"}, 15.08, 2_973_944, id="fp8: blocks of 1,056 tokens"),
    ],
)  # fmt: skip
def test_the_size_in_tokens_is_what_vllm_printed(
    release: str, config: Mapping[str, Any], given: Mapping[str, Any], gib: float, printed: int
) -> None:
    layout, resolved = laid_out(release, config, **given)
    found = kv_cache.tokens(int(gib * GI), layout, given["max_model_len"], resolved)
    assert found == pytest.approx(printed, rel=0.002)


def test_windows_save_nothing_before_the_hybrid_manager() -> None:
    """Up to 0.9.0 a layer with a window is stored for the whole length; from 0.9.1 for window and batch alone."""
    early, at_first = laid_out("0.9.0", GEMMA3_27B)
    late, later = laid_out("0.9.1", GEMMA3_27B)
    off, switched = laid_out("0.19.0", GEMMA3_27B, disable_hybrid_kv_cache_manager=True)
    assert early.bytes(131_072, at_first) == off.bytes(131_072, switched) == 131_072 * 62 * 8192
    assert late.bytes(131_072, later) < early.bytes(131_072, at_first) / 3


def test_speculative_tokens_keep_a_state_each() -> None:
    layout, _ = laid_out(
        "0.27.1",
        {**QWEN35_35B, "mtp_num_hidden_layers": 1},
        speculative_config={"method": "mtp", "num_speculative_tokens": 3},
    )
    assert {group.spec.states for group in layout.groups if group.spec.is_state} == {4}


def test_the_longest_request_is_the_largest_that_fits() -> None:
    layout, resolved = laid_out("0.33.0", LLAMA_8B)
    found = kv_cache.longest(3 * GI, layout, 131_072, resolved)
    assert found == (3 * GI // 131_072 // 16 - 1) * 16  # one block stands for "no block"
    assert layout.bytes(found, resolved) <= 3 * GI - layout.null < layout.bytes(found + 16, resolved)


def test_a_checkpoint_may_choose_its_own_cache_dtype() -> None:
    config = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    new, _ = laid_out("0.19.0", {**LLAMA_8B, **config})
    old, _ = laid_out("0.10.2", {**LLAMA_8B, **config})
    assert (new.bytes_per_token, old.bytes_per_token) == (65_536, 131_072)


@pytest.mark.parametrize("config", [GEMMA3_27B, GPT_OSS_120B, QWEN35_35B])
@pytest.mark.parametrize("gib", [1, 3, 7])
def test_one_token_more_than_the_longest_does_not_fit(config: Mapping[str, Any], gib: int) -> None:
    layout, resolved = laid_out("0.27.1", config, max_num_batched_tokens=2048)
    found = kv_cache.longest(gib * GI, layout, 10**6, resolved)
    assert layout.bytes(found, resolved) <= gib * GI or found == 0
    assert layout.bytes(found + 1, resolved) > gib * GI


@pytest.mark.parametrize(
    ("release", "mib"),
    [
        pytest.param("0.9.0", 13_990, id="layers with windows, though stored in full"),
        pytest.param("0.13.0", 13_990, id="layers, not padded groups"),
        pytest.param("0.18.0", 721, id="the first group alone: a window"),
        pytest.param("0.19.0", 14_567, id="all groups, padded"),
        pytest.param("0.26.0", 18_407, id="windows keep two batches"),
    ],
)
def test_what_the_check_of_a_release_counts_for_one_request(release: str, mib: int) -> None:
    """Gemma 3 27B, 131,072 tokens: 10 layers see all, 52 a window."""
    layout, resolved = laid_out(release, GEMMA3_27B)
    assert layout.needed(131_072, resolved) // 2**20 == mib


@pytest.mark.parametrize(
    "fields",
    [
        {"is_causal": False},
        {"use_bidirectional_attention": True},
        {"model_type": "llama_bidirec"},
        {"architectures": ["LlamaBidirectionalModel"]},
    ],
    ids=str,
)
def test_attention_both_ways_stores_nothing(fields: Mapping[str, Any]) -> None:
    shape, number = model(**{**LLAMA_8B, **fields}), parse("0.33.0")
    assert number is not None
    assert kv_cache.layout(shape, settings.resolve(engine(), shape, gpu(79.19), 79 * GI, number, {}).settings) is None


@pytest.mark.parametrize(("release", "width"), [("0.6.6", 256), ("0.8.5", 192), ("0.33.0", 192)])
def test_without_latents_whole_heads_are_stored(release: str, width: int) -> None:
    """DeepSeek V3: 128 heads, keys of 128 + 64."""
    shape, number = model(**DEEPSEEK_V3), parse(release)
    assert number is not None
    resolved = settings.resolve(engine(release), shape, gpu(79.19), 79 * GI, number, {"VLLM_MLA_DISABLE": "1"}).settings
    assert kv_specs.attention_bytes(shape, kv_specs.stored(resolved), "full_attention") == 128 * 2 * width * 2


MINIMAX_M3: Mapping[str, Any] = {
    "architectures": ["MiniMaxM3SparseForCausalLM"], "model_type": "minimax_m3", "torch_dtype": "bfloat16",
    "num_hidden_layers": 60, "hidden_size": 6144, "intermediate_size": 3072, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 200064, "max_position_embeddings": 1048576,
    "num_local_experts": 128, "num_experts_per_tok": 4, "tie_word_embeddings": False,
    "sparse_attention_config": {
        "use_sparse_attention": True, "sparse_index_dim": 128, "sparse_block_size": 128,
        "sparse_attention_freq": [0] * 3 + [1] * 57,
    },
}  # fmt: skip
SHARED_INDEXERS: Mapping[str, Any] = {
    **DEEPSEEK_V3, "model_type": "glm_moe_dsa", "num_hidden_layers": 78, "index_head_dim": 128,
    "index_topk_freq": 4, "index_skip_topk_offset": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "given", "size"),
    [
        pytest.param(MINIMAX_M3, {}, 60 * 4 * 512 + 57 * 256, id="keys of 57 indexers in 16 bit"),
        pytest.param(MINIMAX_M3, {"tensor_parallel_size": 8}, 60 * 512 + 57 * 256, id="whole on each rank"),
        pytest.param(MINIMAX_M3, {"kv_cache_dtype": "fp8"}, 60 * 4 * 256 + 57 * 256, id="fp8 is not for index keys"),
        pytest.param(
            MINIMAX_M3, {"attention_config": {"indexer_kv_dtype": "fp8"}}, 60 * 4 * 512 + 57 * 128, id="but this is"
        ),
        pytest.param(SHARED_INDEXERS, {}, 78 * 1_152 + 21 * 132, id="21 of 78 layers have an indexer"),
        pytest.param(
            SHARED_INDEXERS, {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}},
            79 * 1_152 + 22 * 132, id="and the drafted layer",
        ),
    ],
)  # fmt: skip
def test_an_indexer_stores_its_keys_next_to_the_others(
    config: Mapping[str, Any], given: Mapping[str, Any], size: int
) -> None:
    layout, _ = laid_out("0.33.0", config, **given)
    assert (layout.known, layout.bytes_per_token) == (True, size)


@pytest.mark.parametrize(
    ("release", "dtype", "capability", "row"),
    [
        ("0.33.0", "auto", (9, 0), 1_152),
        ("0.33.0", "fp8", (9, 0), 656),
        ("0.33.0", "fp8", (10, 0), 576),
        ("0.33.0", "fp8_ds_mla", (10, 0), 656),
        ("0.33.0", "auto", (12, 0), 656),
        ("0.23.0", "auto", (12, 0), 1_152),
        ("0.16.0", "fp8", (10, 0), 656),
        ("0.16.0", "auto", (9, 0), 1_152),
        ("0.11.0", "auto", (9, 0), 656),
    ],
)
def test_the_backend_decides_in_which_type_a_sparse_attention_stores_latents(
    release: str, dtype: str, capability: tuple[int, int], row: int
) -> None:
    shape = model(**{**DEEPSEEK_V3, "index_head_dim": 128})
    number = parse(release)
    assert number is not None
    card = gpu(141, capability=capability)
    resolved = settings.resolve(engine(release, kv_cache_dtype=dtype), shape, card, 141 * GI, number, {}).settings
    assert kv_specs.attention_bytes(shape, kv_specs.stored(resolved), "full_attention") == row


V4: Mapping[str, Any] = {**DEEPSEEK_V4_PRO, "sliding_window": 128, "compress_ratios": [128, 128, *[4, 128] * 29, 4, 0]}


@pytest.mark.parametrize(
    ("release", "per_block"),
    [
        pytest.param("0.33.0", 30 * (37_440 + 8_640) + 31 * 1_728, id="pages of one group after the other"),
        pytest.param("0.27.1", 30 * (37_440 + 8_640) + 31 * 1_728, id="since 0.27"),
        pytest.param("0.25.1", 31 * 37_440 + 30 * 8_640 + 31 * 1_728, id="slots for the most layers of each size"),
        pytest.param("0.22.0", 31 * (37_440 + 8_640 + 1_728), id="as many slots of each size"),
    ],
)
def test_compressed_latents_share_blocks_of_256_tokens(release: str, per_block: int) -> None:
    layout, _ = laid_out(release, V4)
    assert (layout.known, layout.bytes_per_block) == (True, per_block)
    assert layout.groups[0].spec.block_size == 256


def test_other_backends_store_other_compressed_latents() -> None:
    layout, _ = laid_out("0.33.0", V4, attention_backend="FLASHINFER_MLA_SPARSE_DSV4")
    assert not layout.known


EAGLE3: Mapping[str, Any] = {"method": "eagle3", "model": "example/unknown-head", "num_speculative_tokens": 3}


def test_an_unknown_eagle_head_has_at_most_a_key_value_head_per_query_head() -> None:
    layout, _ = laid_out("0.33.0", LLAMA_8B, tensor_parallel_size=2, speculative_config=EAGLE3)
    assert not layout.known
    assert layout.is_described
    assert layout.unknown_per_token == 2 * 16 * 128 * 2
    unbounded, _ = laid_out("0.33.0", LLAMA_8B, speculative_config={**EAGLE3, "method": "draft_model"})
    assert not unbounded.is_described
    windows, _ = laid_out("0.33.0", GPT_OSS_120B, speculative_config=EAGLE3)
    assert not windows.is_described  # its head may change the groups


@pytest.mark.parametrize(
    ("release", "capability", "states"),
    [
        pytest.param("0.33.0", (9, 0), 3, id="FlashKDA exports a state"),
        pytest.param("0.33.0", (8, 0), 2, id="another kernel"),
        pytest.param("0.28.0", (9, 0), 2, id="not yet"),
    ],
)
def test_kimi_k3_keeps_a_state_that_flash_kda_exports(release: str, capability: tuple[int, int], states: int) -> None:
    linear = {"full_attn_layers": [4, 8], "kda_layers": [1, 2, 3, 5, 6, 7], "num_heads": 96, "head_dim": 128,
              "short_conv_kernel_size": 4, "use_full_rank_gate": True, "gate_lower_bound": -5.0}  # fmt: skip
    shape = model(**{**DEEPSEEK_V3, "model_type": "kimi_linear", "num_hidden_layers": 8, "linear_attn_config": linear})
    number = parse(release)
    assert number is not None
    resolved = settings.resolve(engine(release), shape, gpu(141, capability=capability), 141 * GI, number, {}).settings
    specs = kv_specs.of(shape, kv_specs.stored(resolved))
    assert specs is not None
    assert {spec.states for _, spec in specs.layers if spec.is_state} == {states}
