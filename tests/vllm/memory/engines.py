"""Models, GPUs and command lines to plan, made by hand: the planner needs no table for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.kube.quantity import GI
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu
from podfit.vllm.model import Model, from_config
from podfit.vllm.release import parse


def model(name: str = "example/model", weights_bytes: int | None = None, **config: Any) -> Model:
    """A model from the keys of its config.json; those of Llama 3.1 8B where none is given."""
    return from_config(name, {**LLAMA_8B, **config}, weights_bytes=weights_bytes)


def engine(release: str | None = "0.33.0", **given: Any) -> EngineArgs:
    """A command line: dest=value."""
    return EngineArgs(release=parse(release) if release else None, given=given)


def gpu(
    gib: float,
    *,
    name: str = "Example",
    capability: tuple[int, int] | None = (9, 0),
    high: float | None = None,
    **fields: Any,
) -> Gpu:
    """A GPU whose processes see that many GiB."""
    whole: Mapping[str, Any] = {
        "vendor": "nvidia", "architecture": None, "supports_bf16": True,
        "labels": (), **fields,
    }  # fmt: skip
    return Gpu(
        name=name, compute_capability=capability, memory=int(gib * GI), memory_high=int((high or gib) * GI), **whole
    )


def on(*gpus: Gpu, count: int = 1) -> Accelerator:
    """What a container gets."""
    return Accelerator(gpus, count)


LLAMA_8B: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "num_hidden_layers": 32,
    "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA_70B: Mapping[str, Any] = {
    **LLAMA_8B, "num_hidden_layers": 80, "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
}  # fmt: skip
DEEPSEEK_V3: Mapping[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16",
    "num_hidden_layers": 61, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "max_position_embeddings": 163840, "tie_word_embeddings": False, "num_nextn_predict_layers": 1,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
DEEPSEEK_V4_PRO: Mapping[str, Any] = {
    "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "torch_dtype": "bfloat16",
    "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 1,
    "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1536, "o_lora_rank": 1024, "o_groups": 16,
    "index_head_dim": 128, "index_n_heads": 64, "compress_ratios": [128, 128, *[4, 128] * 29, 4],
    "n_routed_experts": 384, "num_experts_per_tok": 6, "n_shared_experts": 1, "moe_intermediate_size": 3072,
    "vocab_size": 129280, "max_position_embeddings": 1048576, "tie_word_embeddings": False, "expert_dtype": "fp4",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"},
}  # fmt: skip
GEMMA3_27B: Mapping[str, Any] = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "torch_dtype": "bfloat16",
    "num_hidden_layers": 62, "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32,
    "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 262208, "sliding_window": 1024,
    "layer_types": [("sliding_attention" if (i + 1) % 6 else "full_attention") for i in range(62)],
    "max_position_embeddings": 131072, "tie_word_embeddings": True,
}  # fmt: skip
QWEN35_35B: Mapping[str, Any] = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe", "torch_dtype": "bfloat16",
    "num_hidden_layers": 40, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
    "vocab_size": 248320, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "attn_output_gate": True, "linear_num_key_heads": 16,
    "linear_key_head_dim": 128, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32", "max_position_embeddings": 262144,
    "layer_types": [("linear_attention" if (i + 1) % 4 else "full_attention") for i in range(40)],
    "tie_word_embeddings": False,
}  # fmt: skip
GPT_OSS_120B: Mapping[str, Any] = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 36, "hidden_size": 2880,
    "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
    "vocab_size": 201088, "sliding_window": 128, "num_local_experts": 128, "num_experts_per_tok": 4,
    "layer_types": [("full_attention" if i % 2 else "sliding_attention") for i in range(36)],
    "max_position_embeddings": 131072, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
}  # fmt: skip
GPT_OSS_20B: Mapping[str, Any] = {
    **GPT_OSS_120B, "num_hidden_layers": 24, "num_local_experts": 32,
    "layer_types": [("full_attention" if i % 2 else "sliding_attention") for i in range(24)],
}  # fmt: skip
