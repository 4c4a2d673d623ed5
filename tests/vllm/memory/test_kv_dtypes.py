"""What a token takes, for every `--kv-cache-dtype` of 0.33, and what other kinds of layers store."""

from __future__ import annotations

import pytest

from podfit.vllm.memory import kv_cache, kv_specs
from podfit.vllm.memory.plan import plan
from tests.vllm.memory.engines import DEEPSEEK_V3, LLAMA_8B, QWEN35_35B, engine, gpu, model, on
from tests.vllm.memory.test_kv_cache import laid_out

WIDTHS = (64, 128, 256)


@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [
        ("auto", (256, 512, 1024)),
        ("bfloat16", (256, 512, 1024)),
        ("float16", (256, 512, 1024)),
        ("fp8", (128, 256, 512)),
        ("fp8_e4m3", (128, 256, 512)),
        ("fp8_e5m2", (128, 256, 512)),
        ("fp8_inc", (128, 256, 512)),
        ("int8_per_token_head", (136, 264, 520)),
        ("fp8_per_token_head", (136, 264, 520)),
        ("int4_per_token_head", (72, 136, 264)),
        ("nvfp4", (72, 144, 288)),
        ("nvfp4_4over6", (72, 144, 288)),
        ("turboquant_k8v4", (100, 196, 388)),
        ("turboquant_4bit_nc", (70, 134, 262)),
        ("turboquant_k3v4_nc", (62, 118, 230)),
        ("turboquant_3bit_nc", (54, 102, 198)),
        ("ultraquant_4bit", (68, 136, 272)),
    ],
)
def test_bytes_of_a_token_and_key_value_head(dtype: str, sizes: tuple[int, ...]) -> None:
    """Keys and values together, for heads of 64, 128 and 256 (vLLM 0.33 v1/kv_cache_interface.py)."""
    found = []
    for width in WIDTHS:
        one = {**LLAMA_8B, "num_hidden_layers": 1, "num_key_value_heads": 1, "head_dim": width}
        found.append(laid_out("0.33.0", one, kv_cache_dtype=dtype)[0].bytes_per_token)
    assert tuple(found) == sizes
    assert kv_specs.is_known(dtype)


@pytest.mark.parametrize(
    ("dtype", "row"),
    [("auto", 1152), ("fp8", 576), ("fp8_ds_mla", 656), ("nvfp4_ds_mla", 352), ("int8_per_token_head", 580)],
)
def test_a_row_of_latent_attention(dtype: str, row: int) -> None:
    one = {**DEEPSEEK_V3, "num_hidden_layers": 1}
    assert laid_out("0.33.0", one, kv_cache_dtype=dtype)[0].bytes_per_token == row


def test_the_name_of_a_plugins_dtype_leaves_nothing_certain() -> None:
    layout, _ = laid_out("0.33.0", LLAMA_8B, kv_cache_dtype="octave_2bit")
    assert not layout.known
    small = gpu(22.03, capability=(8, 9))
    assert plan(engine("0.33.0", kv_cache_dtype="octave_2bit"), model(), on(small)).verdict == "unsure"


def test_layers_left_out_of_a_small_dtype_leave_nothing_certain() -> None:
    assert not laid_out("0.33.0", LLAMA_8B, kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=["0", "1"])[0].known


def test_context_parallel_ranks_share_the_tokens_of_a_request() -> None:
    whole, alone = laid_out("0.33.0", DEEPSEEK_V3, tensor_parallel_size=8)
    shared, four = laid_out("0.33.0", DEEPSEEK_V3, tensor_parallel_size=8, decode_context_parallel_size=4)
    assert shared.blocks(131_072, four) * 4 == whole.blocks(131_072, alone)
    assert kv_cache.tokens(2**33, shared, 131_072, four) == 4 * kv_cache.tokens(2**33, whole, 131_072, alone)


def test_whisper_stores_the_encoder_for_every_request() -> None:
    """1,500 tokens of 30 seconds, in as many layers again (cross attention)."""
    config = {**LLAMA_8B, "model_type": "whisper", "is_encoder_decoder": True, "max_source_positions": 1500}
    layout, resolved = laid_out("0.27.1", config, max_model_len=448)
    assert layout.known
    assert layout.blocks(448, resolved) == 448 // 16 + -(-1500 // 16)


def test_layers_without_attention_store_nothing() -> None:
    """A NAS model: every second layer's attention was taken out."""
    blocks = [{"attention": {"no_op": True} if i % 2 else {"n_heads_in_group": 4}, "ffn": {}} for i in range(32)]
    layout, _ = laid_out("0.27.1", {**LLAMA_8B, "block_configs": blocks})
    assert (layout.known, layout.bytes_per_token) == (True, 16 * 4096)


def test_layers_with_unlike_heads_are_not_described() -> None:
    blocks = [{"attention": {"n_heads_in_group": 8 if i % 2 else 4}, "ffn": {}} for i in range(32)]
    assert not laid_out("0.27.1", {**LLAMA_8B, "block_configs": blocks})[0].known


def test_a_state_has_the_dtype_that_the_arguments_say() -> None:
    """Qwen 3.5 keeps its recurrent state in float32 by default."""
    _, usual = laid_out("0.27.1", QWEN35_35B)
    _, small = laid_out("0.27.1", QWEN35_35B, mamba_ssm_cache_dtype="bfloat16")
    wide, narrow = (
        kv_specs.state_bytes(model(**QWEN35_35B), kv_specs.stored(one), "linear_attention") for one in (usual, small)
    )
    assert (wide, narrow) == (8192 * 3 * 2 + 4096 * 128 * 4, 8192 * 3 * 2 + 4096 * 128 * 2)


def test_kimi_delta_attention_keeps_a_square_a_head() -> None:
    config = {**DEEPSEEK_V3, "linear_attn_config": {"num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4}}
    _, resolved = laid_out("0.27.1", config, tensor_parallel_size=2)
    width = 32 * 128 // 2
    assert (
        kv_specs.state_bytes(model(**config), kv_specs.stored(resolved), "linear_attention")
        == 3 * width * 3 * 2 + width * 128 * 4
    )
