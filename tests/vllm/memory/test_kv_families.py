"""Bytes that one token of a long request takes in the KV cache, for every kind of architecture that vLLM serves.

Expected figures are written out as vLLM computes them: attention layers × (keys + values) × heads × width × 2 bytes, or
one latent per token. Each names the file of its model. Source: vLLM 0.33, v1/kv_cache_interface.py (FullAttentionSpec,
SlidingWindowSpec, MLAAttentionSpec, MambaSpec), config/model.py (get_num_kv_heads). Layers with a window or a state add
nothing to a long request; their bytes per request are asserted too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from podfit.vllm.args import EngineArgs
from podfit.vllm.memory import kv_cache, kv_specs, settings
from podfit.vllm.memory.settings import Settings
from podfit.vllm.model import Model, by_id, from_config
from podfit.vllm.release import Release

NEWEST = Release(0, 33)


class Family(NamedTuple):
    """A published model, the bytes of one more token on one GPU, and vLLM's own words for it."""

    id: str
    bytes_per_token: int
    source: str


FAMILIES = [
    # dense: multi-head, grouped, multi-query
    Family("meta-llama/Llama-2-7b-hf", 32 * 2 * 32 * 128 * 2, "models/llama.py: 512 KiB"),
    Family("meta-llama/Llama-3.1-8B-Instruct", 32 * 2 * 8 * 128 * 2, "models/llama.py: 128 KiB"),
    Family("meta-llama/Llama-3.3-70B-Instruct", 80 * 2 * 8 * 128 * 2, "models/llama.py: 320 KiB"),
    Family("Qwen/Qwen2.5-7B-Instruct", 28 * 2 * 4 * 128 * 2, "models/qwen2.py: 56 KiB"),
    Family("Qwen/Qwen3-8B", 36 * 2 * 8 * 128 * 2, "models/qwen3.py: 144 KiB"),
    Family("Qwen/Qwen3-0.6B", 28 * 2 * 8 * 128 * 2, "models/qwen3.py: head_dim is not hidden_size / heads"),
    Family("mistralai/Mistral-Nemo-Instruct-2407", 40 * 2 * 8 * 128 * 2, "models/llama.py: head_dim 128 of 5120 / 32"),
    Family("tiiuae/falcon-7b", 32 * 2 * 1 * 64 * 2, "config/model.py get_total_num_kv_heads: multi_query is one head"),
    Family("tiiuae/falcon-40b", 60 * 2 * 8 * 64 * 2, "models/falcon.py: num_kv_heads of the new architecture"),
    Family("mosaicml/mpt-7b", 32 * 2 * 32 * 128 * 2, "models/mpt.py"),
    Family("bigscience/bloom-7b1", 30 * 2 * 32 * 128 * 2, "models/bloom.py"),
    Family("facebook/opt-125m", 12 * 2 * 12 * 64 * 2, "models/opt.py"),
    Family("openai-community/gpt2", 12 * 2 * 12 * 64 * 2, "models/gpt2.py"),
    Family("microsoft/phi-2", 32 * 2 * 32 * 80 * 2, "models/phi.py"),
    Family("microsoft/phi-4", 40 * 2 * 10 * 128 * 2, "models/phi3.py"),
    Family("google/gemma-7b", 28 * 2 * 16 * 256 * 2, "models/gemma.py: head_dim 256"),
    Family("THUDM/chatglm3-6b", 28 * 2 * 2 * 128 * 2, "models/chatglm.py: multi_query_group_num"),
    Family("ibm-granite/granite-3.1-8b-instruct", 40 * 2 * 8 * 128 * 2, "models/granite.py"),
    # mixture of experts
    Family("mistralai/Mixtral-8x7B-Instruct-v0.1", 32 * 2 * 8 * 128 * 2, "models/mixtral.py"),
    Family("Qwen/Qwen3-30B-A3B", 48 * 2 * 4 * 128 * 2, "models/qwen3_moe.py"),
    Family("databricks/dbrx-instruct", 40 * 2 * 8 * 128 * 2, "models/dbrx.py: attn_config.kv_n_heads"),
    # multi-head latent attention: one latent of 512 and 64 rotated elements, for all heads
    Family("deepseek-ai/DeepSeek-V3", 61 * 576 * 2, "MLAAttentionSpec"),
    Family("deepseek-ai/DeepSeek-V2-Lite", 27 * 576 * 2, "MLAAttentionSpec"),
    Family("moonshotai/Kimi-K2-Instruct", 61 * 576 * 2, "MLAAttentionSpec"),
    # layers with a window keep only that
    Family("google/gemma-2-9b-it", 21 * 2 * 8 * 256 * 2, "models/gemma2.py: every other layer"),
    Family("google/gemma-3-27b-it", 10 * 2 * 16 * 128 * 2, "models/gemma3.py: every sixth layer"),
    Family("openai/gpt-oss-20b", 12 * 2 * 8 * 64 * 2, "models/gpt_oss.py: every other layer"),
    Family("openai/gpt-oss-120b", 18 * 2 * 8 * 64 * 2, "models/gpt_oss.py: every other layer"),
    # vision-language: the language model's
    Family("Qwen/Qwen2.5-VL-7B-Instruct", 28 * 2 * 4 * 128 * 2, "models/qwen2_5_vl.py"),
    Family("Qwen/Qwen3-VL-8B-Instruct", 36 * 2 * 8 * 128 * 2, "models/qwen3_vl.py: text_config"),
    Family("llava-hf/llava-1.5-7b-hf", 32 * 2 * 32 * 128 * 2, "models/llava.py: text_config, silent: Llama's defaults"),
    Family("OpenGVLab/InternVL3-8B", 28 * 2 * 4 * 128 * 2, "models/internvl.py: llm_config"),
    Family("mistralai/Mistral-Small-3.1-24B-Instruct-2503", 40 * 2 * 8 * 128 * 2, "models/mistral3.py"),
]


def known(name: str) -> Model:
    found = by_id(name)
    assert found is not None, name
    return found.value


def laid_out(model: Model, **given: Any) -> tuple[kv_cache.Layout, Settings]:
    args = EngineArgs(release=NEWEST, given=given)
    resolved = settings.resolve(args, model, None, 80 << 30, NEWEST, {}).settings
    found = kv_cache.layout(model, resolved)
    assert found is not None
    return found, resolved


@pytest.mark.parametrize("family", FAMILIES, ids=[family.id for family in FAMILIES])
def test_a_token_takes_what_vllm_allots(family: Family) -> None:
    layout, _ = laid_out(known(family.id))

    assert layout.bytes_per_token == family.bytes_per_token, family.source


HYBRIDS: list[tuple[str, dict[str, int], dict[str, int], str]] = [
    # id, attention bytes of a token in one layer by kind, state bytes of a request in one layer by kind, source
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", {"full_attention": 2 * 2 * 256 * 2},
     {"linear_attention": (2 * 2048 + 4096) * 3 * 2 + 4096 * 128 * 2},
     "models/qwen3_next.py, mamba_utils.py gated_delta_net_state_shape"),
    ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", {"full_attention": 2 * 8 * 128 * 2},
     {"mamba": (10240 + 2 * 8 * 128) * 3 * 2 + 10240 * 128 * 4},
     "models/nemotron_h.py, mamba_utils.py mamba2_state_shape; mamba_ssm_cache_dtype float32"),
    ("ibm-granite/granite-4.0-h-small", {"full_attention": 2 * 8 * 128 * 2},
     {"mamba": (8192 + 2 * 128) * 3 * 2 + 8192 * 128 * 2}, "models/granitemoehybrid.py, mamba2_state_shape"),
    ("tiiuae/Falcon-H1-7B-Instruct", {"full_attention": 2 * 2 * 128 * 2},
     {"mamba": (3072 + 2 * 256) * 3 * 2 + 3072 * 256 * 2}, "models/falcon_h1.py: both in each layer"),
    ("ai21labs/AI21-Jamba-Mini-1.5", {"full_attention": 2 * 8 * 128 * 2},
     {"mamba": 8192 * 3 * 2 + 8192 * 16 * 2}, "models/jamba.py, mamba_utils.py mamba1_state_shape"),
    ("state-spaces/mamba-2.8b-hf", {}, {"mamba": 5120 * 3 * 2 + 5120 * 16 * 2}, "models/mamba.py, mamba1_state_shape"),
    ("mistralai/Mamba-Codestral-7B-v0.1", {}, {"mamba": (8192 + 2 * 8 * 128) * 3 * 2 + 8192 * 128 * 2},
     "models/mamba2.py, mamba2_state_shape"),
    ("LiquidAI/LFM2-1.2B", {"full_attention": 2 * 8 * 64 * 2}, {"conv": 2048 * 2 * 2},
     "models/lfm2.py, mamba_utils.py short_conv_state_shape: kernel − 1"),
    ("moonshotai/Kimi-Linear-48B-A3B-Instruct", {"full_attention": 576 * 2},
     {"linear_attention": 3 * 4096 * 3 * 2 + 4096 * 128 * 4}, "layers/kda.py, mamba_utils.py kda_state_shape"),
    ("MiniMaxAI/MiniMax-Text-01", {"full_attention": 2 * 8 * 128 * 2}, {"linear_attention": 64 * 128 * 128 * 4},
     "models/minimax_text_01.py, linear_attention_state_shape"),
    ("google/gemma-3-27b-it", {"full_attention": 2 * 16 * 128 * 2, "sliding_attention": 2 * 16 * 128 * 2}, {},
     "models/gemma3.py"),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", {"full_attention": 2 * 8 * 128 * 2}, {}, "models/llama4.py"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attention", "states", "source"), HYBRIDS, ids=[one[0] for one in HYBRIDS])
def test_each_kind_of_layer_takes_what_vllm_allots(
    name: str, attention: dict[str, int], states: dict[str, int], source: str
) -> None:
    model = known(name)
    resolved = settings.resolve(EngineArgs(release=NEWEST, given={}), model, None, 80 << 30, NEWEST, {}).settings

    for kind, size in attention.items():
        assert kv_specs.attention_bytes(model, kv_specs.stored(resolved), kind) == size, source
    for kind, size in states.items():
        assert kind in model.layer_types or model.model_type == "falcon_h1"
        assert kv_specs.state_bytes(model, kv_specs.stored(resolved), kind) == size, source


def test_layers_that_share_keys_and_values_store_none() -> None:
    """Gemma 3n: the last 15 of 35 layers read another layer's (models/gemma3n.py, num_kv_shared_layers)."""
    layout, _ = laid_out(known("google/gemma-3n-E4B-it"))

    assert layout.bytes_per_token == 4 * 2 * 2 * 256 * 2


@pytest.mark.parametrize("name", ["BAAI/bge-m3", "BAAI/bge-large-en-v1.5"])
def test_encoders_store_nothing(name: str) -> None:
    resolved = settings.resolve(EngineArgs(release=NEWEST, given={}), known(name), None, 80 << 30, NEWEST, {}).settings

    assert kv_cache.layout(known(name), resolved) is None


def test_an_encoder_decoders_own_layers_are_the_decoders() -> None:
    """whisper-large-v3-turbo: 4 decoder layers of 20 heads × 64; num_hidden_layers in its config.json says 32."""
    model = from_config(
        "openai/whisper-large-v3-turbo",
        {"model_type": "whisper", "is_encoder_decoder": True, "d_model": 1280, "num_hidden_layers": 32,
         "encoder_layers": 32, "decoder_layers": 4, "decoder_attention_heads": 20, "encoder_attention_heads": 20,
         "decoder_ffn_dim": 5120, "encoder_ffn_dim": 5120, "vocab_size": 51866, "max_target_positions": 448},
    )  # fmt: skip
    resolved = settings.resolve(EngineArgs(release=NEWEST, given={}), model, None, 80 << 30, NEWEST, {}).settings

    assert model.num_hidden_layers == 4
    assert kv_specs.attention_bytes(model, kv_specs.stored(resolved), "full_attention") == 2 * 20 * 64 * 2


def test_heads_are_cut_by_tensor_parallel_down_to_one() -> None:
    model = known("Qwen/Qwen2.5-7B-Instruct")

    assert [laid_out(model, tensor_parallel_size=tp)[0].bytes_per_token for tp in (1, 2, 4, 8)] == [
        57_344, 28_672, 14_336, 14_336,
    ]  # fmt: skip
