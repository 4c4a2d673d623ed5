"""Command lines for the oracle, the same ones for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from benchmarks.options import samples
from podfit.vllm.args.flags import builtin
from podfit.vllm.release import Release
from scripts.facts.table import FACTS

GIB = 1 << 30
GPUS: Sequence[Mapping[str, Any]] = (
    {"name": "NVIDIA H100 80GB HBM3", "memory": 85_018_542_080, "capability": [9, 0]},
    {"name": "Tesla T4", "memory": 15_655_829_504, "capability": [7, 5]},
    {"name": "NVIDIA A100-SXM4-40GB", "memory": 42_405_855_232, "capability": [8, 0]},
    {"name": "NVIDIA L4", "memory": 23_576_576_000, "capability": [8, 9]},
    {"name": "NVIDIA B200", "memory": 191_514_017_792, "capability": [10, 0]},
    {"name": "NVIDIA H200", "memory": 150_754_820_096, "capability": [9, 0]},
    {"name": "NVIDIA A10G", "memory": 23_836_033_024, "capability": [8, 6]},
    {"name": "Tesla V100-SXM2-16GB", "memory": 16_935_682_048, "capability": [7, 0]},
)
"""What NVML answers for each GPU; one of them per release, in turn."""
MODELS = (
    "Qwen/Qwen2.5-7B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "mistralai/Mistral-7B-v0.1",
    "google/gemma-2-9b-it", "google/gemma-3-27b-it", "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct", "meta-llama/Llama-4-Scout-17B-16E-Instruct", "deepseek-ai/DeepSeek-V3",
    "ibm-granite/granite-4.0-h-small", "BAAI/bge-m3", "microsoft/Phi-3.5-mini-instruct",
    "Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-235B-A22B-FP8",
    "mistralai/Mixtral-8x7B-Instruct-v0.1", "BAAI/bge-reranker-v2-m3", "google/gemma-3-12b-it",
    "Qwen/Qwen2-VL-2B-Instruct", "ibm-granite/granite-3.3-8b-instruct-FP8",
    "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen3-VL-8B-Instruct", "google/gemma-2b", "MiniMaxAI/MiniMax-M2.5", "Qwen/Qwen3-8B",
    "Qwen/Qwen3-Embedding-0.6B", "microsoft/Phi-4-mini-instruct", "Qwen/Qwen3.5-122B-A10B", "allenai/OLMo-2-1124-7B",
    "sentence-transformers/all-MiniLM-L6-v2", "tiiuae/Falcon-H1-7B-Instruct", "allenai/Olmo-3-32B-Think",
)  # fmt: skip
"""Entries of the catalog whose config.json was read: one per way to keep a KV cache, and per kind of configuration."""
BUILT = (
    "MiniMaxAI/MiniMax-M3", "deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V4-Pro", "moonshotai/Kimi-K3",
    "zai-org/GLM-5.2", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "deepseek-ai/DeepSeek-V3",
    "zai-org/GLM-5.3-Flash", "deepseek-ai/DeepSeek-V4-Flash",
)  # fmt: skip
"""Entries whose own layers are built (`layers`), because several of their layers or caches differ."""
REQUIRING: Mapping[str, Mapping[str, Any]] = {
    "dual-chunk": {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
        "max_position_embeddings": 1010000, "torch_dtype": "bfloat16",
        "dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192,
                                        "original_max_position_embeddings": 262144},
    },
    "glm-4v": {
        "architectures": ["ChatGLMModel"], "model_type": "chatglm", "hidden_size": 4096, "num_layers": 40,
        "num_attention_heads": 32, "kv_channels": 128, "multi_query_attention": True, "multi_query_group_num": 2,
        "ffn_hidden_size": 13696, "padded_vocab_size": 151552, "seq_length": 8192, "torch_dtype": "bfloat16",
        "vision_config": {"hidden_size": 1792, "image_size": 1120, "num_hidden_layers": 63, "patch_size": 14},
    },
    "qwen-vl": {
        "architectures": ["QWenLMHeadModel"], "model_type": "qwen2", "hidden_size": 4096, "intermediate_size": 22016,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 151936,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "visual": {"image_size": 448, "patch_size": 14},
    },
    "voxtral-realtime": {
        "architectures": ["VoxtralRealtimeGeneration"], "model_type": "voxtral", "torch_dtype": "bfloat16",
        "audio_config": {"d_model": 1280, "encoder_layers": 32},
        "text_config": {"model_type": "llama", "num_hidden_layers": 26, "hidden_size": 3072, "num_attention_heads": 32,
                        "num_key_value_heads": 8, "vocab_size": 131072, "max_position_embeddings": 131072},
    },
    "voxtral": {
        "architectures": ["VoxtralForConditionalGeneration"], "model_type": "voxtral", "torch_dtype": "bfloat16",
        "audio_config": {"d_model": 1280, "encoder_layers": 32},
        "text_config": {"model_type": "llama", "num_hidden_layers": 30, "hidden_size": 3072, "num_attention_heads": 32,
                        "num_key_value_heads": 8, "vocab_size": 131072, "max_position_embeddings": 131072},
    },
    "pixtral": {
        "architectures": ["PixtralForConditionalGeneration"], "model_type": "llava", "torch_dtype": "bfloat16",
        "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "num_hidden_layers": 24},
        "text_config": {"model_type": "mistral", "num_hidden_layers": 40, "hidden_size": 5120, "head_dim": 128,
                        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 131072,
                        "max_position_embeddings": 131072},
    },
    "deepseek-vl2": {
        "model_type": "deepseek_vl_v2", "torch_dtype": "bfloat16", "tile_tag": "2D", "global_view_pos": "head",
        "candidate_resolutions": [[384, 384]], "projector_config": {"model_type": "mlp_projector"},
        "vision_config": {"model_type": "vision", "width": 1152, "layers": 27, "patch_size": 14, "image_size": 384},
        "language_config": {"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
                            "hidden_size": 1280, "num_hidden_layers": 12, "num_attention_heads": 10,
                            "num_key_value_heads": 10, "vocab_size": 129280, "max_position_embeddings": 4096,
                            "torch_dtype": "bfloat16"},
    },
}  # fmt: skip
"""config.jsons of the kinds that need an argument (`flag-required-by-model`), with invented names."""
BUILT_GPUS = tuple(gpu for gpu in GPUS if gpu["name"] in ("NVIDIA H200", "NVIDIA B200"))
"""On these, vLLM chooses different backends for them."""
VALUES: Mapping[str, Sequence[str | None]] = {
    "--max-model-len": ("1024", "4096", "8192", "32768", "131072", "1000000", "-1", "0"),
    "--max-num-seqs": ("1", "64", "256", "2048", "4096", "0"),
    "--max-num-batched-tokens": ("512", "2048", "4096", "16384", "65536"),
    "--gpu-memory-utilization": ("0.5", "0.95", "1.0", "1.1", "0"),
    "--dtype": ("auto", "half", "bfloat16", "float32"),
    "--kv-cache-dtype": (
        "auto",
        "fp8",
        "fp8_e5m2",
        "fp8_e4m3",
        "bfloat16",
        "float16",
        "fp8_ds_mla",
        "fp8_inc",
        "nvfp4",
        "int8_per_token_head",
        "fp8_per_token_head",
        "turboquant_k8v4",
    ),
    "--quantization": (
        "awq",
        "gptq",
        "fp8",
        "compressed-tensors",
        "mxfp4",
        "gptq_marlin",
        "experts_int8",
        "awq_marlin",
        "bitsandbytes",
        "modelopt",
        "modelopt_fp4",
        "fbgemm_fp8",
        "ptpc_fp8",
        "moe_wna16",
        "fp8_per_block",
        "torchao",
        "mxfp8",
        "online",
        "quark",
        "gguf",
        "deepspeedfp",
    ),
    "--block-size": ("8", "16", "32", "64", "128", "1", "24", "256"),
    "--tensor-parallel-size": ("1", "2", "3", "4", "8"),
    "--pipeline-parallel-size": ("1", "2", "3", "100"),
    "--data-parallel-size": ("1", "2", "8", "0"),
    "--decode-context-parallel-size": ("1", "2", "4"),
    "--enforce-eager": (None,),
    "--enable-prefix-caching": (None,),
    "--no-enable-prefix-caching": (None,),
    "--enable-chunked-prefill": (None,),
    "--no-enable-chunked-prefill": (None,),
    "--enable-expert-parallel": (None,),
    "--enable-eplb": (None,),
    "--disable-sliding-window": (None,),
    "--disable-hybrid-kv-cache-manager": (None,),
    "--trust-remote-code": (None,),
    "--async-scheduling": (None,),
    "--enable-lora": (None,),
    "--calculate-kv-scales": (None,),
    "--max-lora-rank": ("1", "8", "16", "48", "512"),
    "--max-loras": ("0", "1", "4"),
    "--runner": ("auto", "generate", "pooling"),
    "--convert": ("auto", "none", "embed", "classify"),
    "--task": ("auto", "generate", "embed", "classify", "score", "reward"),
    "--swap-space": ("0", "4", "-1"),
    "--cpu-offload-gb": ("0", "8", "-1"),
    "--scheduling-policy": ("fcfs", "priority", "lifo"),
    "--load-format": ("auto", "dummy", "safetensors"),
    "--max-num-partial-prefills": ("1", "2"),
    "--long-prefill-token-threshold": ("0", "100000"),
    "--speculative-config": (
        '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}',
        '{"method": "ngram"}',
        '{"method": "mtp", "num_speculative_tokens": 1}',
        '{"num_speculative_tokens": 3}',
        '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 5, "prompt_lookup_max": 2}',
        '{"method": "mtp"}',
        '{"method": "mtp", "num_speculative_tokens": 3}',
        '{"method": "suffix", "num_speculative_tokens": 4}',
        '{"method": "ngram_gpu", "num_speculative_tokens": 4, "prompt_lookup_max": 4}',
        '{"method": "deepseek_mtp", "num_speculative_tokens": 2}',
        '{"method": "eagle", "num_speculative_tokens": 2}',
        '{"method": "ngram", "num_speculative_tokens": 0, "prompt_lookup_max": 4}',
        '{"model": "Qwen/Qwen3-8B", "num_speculative_tokens": 2}',
        '{"model": "meta-llama/Llama-3.1-8B-Instruct", "num_speculative_tokens": 2, "draft_tensor_parallel_size": 2}',
    ),
    "--hf-overrides": (
        '{"max_position_embeddings": 8192}',
        '{"architectures": ["NoSuchModel"]}',
        '{"max_position_embeddings": 200000}',
        '{"text_config": {"max_position_embeddings": 8192}}',
        '{"num_hidden_layers": 4}',
        '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}',
        '{"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, '
        '"rope_theta": 1000000}}',
        '{"sliding_window": 4096}',
        '{"num_attention_heads": 12}',
        '{"torch_dtype": "float32"}',
        '{"quantization_config": null}',
    ),
    "--kv-transfer-config": ('{"kv_connector": "NixlConnector", "kv_role": "kv_both"}', '{"kv_role": "kv_both"}'),
    "--limit-mm-per-prompt": (
        '{"image": 1}',
        '{"image": -1}',
        '{"image": 0, "video": 0}',
        '{"smell": 1}',
        "image=2",
        '{"video": {"count": 1, "num_frames": 16}}',
    ),
    "--compilation-config": (
        '{"cudagraph_capture_sizes": [1, 2, 4]}',
        '{"level": 0}',
        '{"mode": 3}',
        '{"cudagraph_mode": "FULL"}',
        '{"cudagraph_mode": "FULL_AND_PIECEWISE"}',
        '{"cudagraph_mode": "NONE"}',
        '{"cudagraph_mode": "BOGUS"}',
        '{"mode": 0, "cudagraph_mode": "PIECEWISE"}',
        '{"max_cudagraph_capture_size": 64, "cudagraph_capture_sizes": [1, 128]}',
        '{"custom_ops": ["all", "none"]}',
        '{"full_cuda_graph": true}',
        '{"pass_config": {"enable_sp": true}}',
        '{"pass_config": {"fuse_allreduce_rms": true}}',
        "3",
    ),
    "--attention-backend": (
        "FLASH_ATTN",
        "FLASHINFER",
        "TRITON_ATTN",
        "FLASHMLA",
        "CUTLASS_MLA",
        "XFORMERS",
        "FLEX_ATTENTION",
        "TORCH_SDPA",
        "TRITON_MLA",
    ),
    "--model-impl": ("auto", "vllm", "transformers", "terratorch"),
    "--fully-sharded-loras": (None,),
    "--lora-dtype": ("auto", "bfloat16", "float32"),
    "--max-cpu-loras": ("1", "2", "8"),
    "--enable-lora-bias": (None,),
    "--language-model-only": (None,),
    "--disable-chunked-mm-input": (None,),
    "--enable-prompt-embeds": (None,),
    "--enable-mm-embeds": (None,),
    "--mm-encoder-tp-mode": ("weights", "data"),
    "--mm-processor-cache-gb": ("0", "4", "-1"),
    "--mm-encoder-attn-backend": ("FLASH_ATTN", "TORCH_SDPA", "TRITON_ATTN", "FLASHMLA"),
    "--skip-mm-profiling": (None,),
    "--distributed-executor-backend": ("mp", "ray", "uni", "external_launcher"),
    "--pooler-config": (
        '{"pooling_type": "MEAN"}',
        '{"pooling_type": "CLS"}',
        '{"pooling_type": "LAST"}',
        '{"pooling_type": "BOGUS"}',
        '{"task": "embed"}',
        '{"dimensions": 256}',
    ),
    "--kv-events-config": ('{"enable_kv_cache_events": true}', '{"enable_kv_cache_events": true, "publisher": "zmq"}'),
    "--kv-offloading-size": ("8", "0"),
    "--kv-cache-memory-bytes": ("8G", "1000000"),
    "--mamba-cache-mode": ("none", "all", "align"),
    "--mamba-block-size": ("8", "16", "256"),
    "--mamba-cache-dtype": ("auto", "float32"),
    "--mamba-ssm-cache-dtype": ("auto", "float32", "float16", "bfloat16"),
    "--enable-dbo": (None,),
    "--enable-sleep-mode": (None,),
    "--nnodes": ("1", "2"),
    "--node-rank": ("0", "1"),
    "--prefill-context-parallel-size": ("1", "2"),
    "--data-parallel-size-local": ("0", "1", "2"),
    "--data-parallel-backend": ("mp", "ray"),
    "--data-parallel-rank": ("0", "1", "5"),
    "--data-parallel-external-lb": (None,),
    "--data-parallel-hybrid-lb": (None,),
    "--all2all-backend": ("naive", "pplx", "deepep_high_throughput", "allgather_reducescatter"),
    "--expert-placement-strategy": ("linear", "round_robin"),
    "--num-redundant-experts": ("0", "8"),
    "--eplb-config": ('{"num_redundant_experts": 8}', '{"window_size": 0}'),
    "--dcp-kv-cache-interleave-size": ("1", "7", "16"),
    "--rope-scaling": ('{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}',),
    "--rope-theta": ("1000000",),
    "--max-long-partial-prefills": ("1", "4"),
    "--num-scheduler-steps": ("1", "8"),
    "--num-lookahead-slots": ("0", "4"),
    "--max-seq-len-to-capture": ("1024", "8192"),
    "--max-logprobs": ("5", "0", "-1", "-2"),
    "--logprobs-mode": ("raw_logprobs", "processed_logits", "bogus"),
    "--disable-cascade-attn": (None,),
    "--disable-custom-all-reduce": (None,),
    "--no-async-scheduling": (None,),
    "--stream-interval": ("1", "0"),
    "--tokenizer-mode": ("auto", "slow", "mistral"),
    "--skip-tokenizer-init": (None,),
    "--seed": ("0", "-1"),
    "--optimization-level": ("0", "2", "4"),
    "--cuda-graph-sizes": ("64", "512"),
    "--max-cudagraph-capture-size": ("0", "64", "4096"),
    "--cudagraph-capture-sizes": ("4", "256"),
    "--performance-mode": ("balanced", "throughput", "interactivity"),
    "--prefix-caching-hash-algo": ("builtin", "sha256", "md5"),
    "--kv-sharing-fast-prefill": (None,),
    "--override-generation-config": ('{"temperature": 0.5}',),
    "--generation-config": ("auto", "vllm"),
    "--config-format": ("auto", "hf", "mistral"),
    "--structured-outputs-config": ('{"backend": "xgrammar"}', '{"backend": "bogus"}'),
    "--guided-decoding-backend": ("xgrammar", "outlines", "bogus"),
    "--device": ("auto", "cuda"),
    "--use-v2-block-manager": (None,),
    "--preemption-mode": ("recompute", "swap"),
    "--multi-step-stream-outputs": (None,),
    "--qlora-adapter-name-or-path": ("x",),
    "--moe-backend": ("auto", "triton", "deep_gemm", "marlin"),
    "--video-pruning-rate": ("0", "0.5", "1.5"),
    "--gdn-prefill-backend": ("flashinfer", "triton"),
    "--offload-backend": ("auto", "uva", "prefetch"),
}
"""Options that the configuration stage reads, with values on both sides of its checks."""
PLAIN = ("--max-model-len", "--max-num-batched-tokens", "--enable-prefix-caching", "--disable-hybrid-kv-cache-manager",
         "--kv-cache-dtype", "--tensor-parallel-size")  # fmt: skip
"""Options of the cases whose KV cache is compared."""

NOT_DRAWN = {"--config", "--help", "-h", "--model"}
"""Options that end the reading, read a file, or name the model, which is the first argument here."""


@dataclass(frozen=True)
class Case:
    """One command line."""

    id: str
    stage: str
    """How far vLLM runs: "parse", "config" or "kv"."""
    release: str
    gpu: Mapping[str, Any]
    model: str
    arguments: tuple[str, ...]
    """What follows `vllm serve MODEL`."""
    kv_cache_memory_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the process."""
    probe: str | None = None
    """What runs after the configuration stage (`oracle.probes`)."""

    def argv(self, model: str) -> list[str]:
        """The arguments after `vllm serve`, with the model under this name."""
        return [model, *self.arguments]


@cache
def configs() -> dict[str, dict[str, Any]]:
    """Model → its config.json, as far as the catalog keeps it."""
    found = {}
    for line in (FACTS / "models.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["id"] in MODELS or row["id"] in BUILT:
            found[row["id"]] = completed(row["config"])
    return {name: found[name] for name in (*MODELS, *BUILT)} | {name: {**config} for name, config in REQUIRING.items()}


def completed(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with what the catalog shortens: one `layer_types` entry per layer instead of the pattern that repeats.
    Also LongRoPE's factors, which Transformers needs; nothing here depends on their values."""
    out: dict[str, Any] = {key: completed(value) if key == "text_config" else value for key, value in config.items()}
    if out.get("model_type") == "minimax_m3":  # a conversion's name of the language model
        vision = {
            "hidden_size": 1280, "num_attention_heads": 16, "img_token_compression_config": {}, "patch_size": 14,
            "num_channels": 3, "num_hidden_layers": 2, "intermediate_size": 5120, "layer_norm_eps": 1e-5,
        }  # fmt: skip
        own = {"model_type": "minimax_m3_vl", "architectures": ["MiniMaxM3SparseForConditionalGeneration"]}
        return {**own, "text_config": {**out, "model_type": "minimax_m3_text"}, "vision_config": vision}
    pattern, rope = out.pop("layer_pattern", None), out.get("rope_scaling")
    if quantized := out.pop("hf_quant_config", None):  # vLLM reads the file hf_quant_config.json
        out["quantization_config"] = {"quant_method": "modelopt", **quantized}
    if pattern:
        layers = out["num_hidden_layers"]
        out["layer_types"] = (list(pattern) * layers)[:layers]
    if isinstance(rope, Mapping) and rope.get("type") == "longrope":
        share = out.get("partial_rotary_factor") or 1
        pairs = int(out["hidden_size"] // out["num_attention_heads"] * share) // 2
        out["rope_scaling"] = {**rope, "short_factor": [1.0] * pairs, "long_factor": [1.0] * pairs}
    return out


def kinds(config: Mapping[str, Any]) -> list[str] | None:
    """The kind of each layer, by Transformers' names; None for a model whose KV cache is not compared."""
    text = config.get("text_config", config)
    count = text.get("num_hidden_layers", 0)
    if "layer_types" in text:
        return list(text["layer_types"])
    every: Mapping[str, Sequence[str]] = {
        "qwen2": ["full_attention"],
        "llama": ["full_attention"],
        "qwen3": ["full_attention"],
        "qwen3_moe": ["full_attention"],
        "mixtral": ["full_attention"],
        "gemma": ["full_attention"],
        "olmo2": ["full_attention"],
        "minimax_m2": ["full_attention"],
        "mistral": ["sliding_attention"],  # full where its config.json has no window
        "gemma2": ["sliding_attention", "full_attention"],
        "llama4_text": ["chunked_attention"] * 3 + ["full_attention"],
        "qwen3_next": ["linear_attention"] * 3 + ["full_attention"],
    }
    pattern = every.get(text["model_type"])
    return (list(pattern) * count)[:count] if pattern else None


def flags(release: Release) -> dict[str, Mapping[str, Any]]:
    """Spelling → the option of the release that has it."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in builtin().rows(release).values():
        for one in (*row.get("flags", ()), *row.get("negative", ())):
            found[one] = row
    return found


def generate(release: Release, gpu: Mapping[str, Any], seed: int, count: int) -> Iterator[Case]:
    """`count` cases for each stage."""
    chance = random.Random(f"{seed} {release}")  # noqa: S311 - cases, not secrets
    known = flags(release)
    cached = [name for name in MODELS if kinds(configs()[name])]
    for number in range(count):
        yield Case(f"{release}|parse|{number}", "parse", str(release), gpu, MODELS[0], _any(chance, known))
    for number in range(count):
        model = chance.choice(MODELS)
        chosen = chance.sample([one for one in VALUES if one in known], k=chance.choice((0, 1, 1, 2, 2, 3, 4, 5)))
        yield Case(f"{release}|config|{number}", "config", str(release), gpu, model, _with_values(chance, chosen))
    for number in range(count):
        model = chance.choice(cached)
        chosen = [
            "--max-model-len",
            *chance.sample([one for one in PLAIN[1:] if one in known], k=chance.choice((0, 1, 2))),
        ]
        memory = int(chance.choice((0.5, 2, 8, 20, 40, 60)) * GIB) + chance.randrange(GIB)
        yield Case(
            f"{release}|kv|{number}", "kv", str(release), gpu, model, _with_values(chance, chosen, small=True), memory
        )


def generate_built(release: Release, gpu: Mapping[str, Any], seed: int) -> Iterator[Case]:
    """Cases of the models whose layers are built: eager, since kernels are not compiled, and of the text alone."""
    chance = random.Random(f"built {seed} {release}")  # noqa: S311 - cases, not secrets
    for model in BUILT:
        for number, dtype in enumerate(("auto", "fp8")):
            length = chance.choice(("4096", "32768", "131072"))
            ranks = "8" if model == "moonshotai/Kimi-K3" else chance.choice("148")  # its experts need 8 or 16
            argv = ("--max-model-len", length, "--kv-cache-dtype", dtype, "--tensor-parallel-size", ranks,
                    "--enforce-eager", "--language-model-only")  # fmt: skip
            memory = int(chance.choice((2, 8, 20, 60)) * GIB) + chance.randrange(GIB)
            yield Case(f"{release}|built|{model}|{number}", "kv", str(release), gpu, model, argv, memory)


def _with_values(chance: random.Random, chosen: Sequence[str], small: bool = False) -> tuple[str, ...]:
    words = []
    for flag in chosen:
        values = VALUES[flag][:5] if small else VALUES[flag]
        value = chance.choice(values)
        words += [flag] if value is None else [flag, value]
    return tuple(words)


def _any(chance: random.Random, known: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """One to three options of the release, one time in three with a mistake in one of them."""
    words: list[str] = []
    for flag in chance.sample(sorted(set(known) - NOT_DRAWN), k=chance.choice((1, 2, 3))):
        row = known[flag]
        option = {"nargs": None, "type": None, "choices": None, "default": None, "action": "_StoreAction", **row}
        if option["nargs"] == 0 or flag in row.get("negative", ()):
            words.append(flag)
            continue
        text = chance.choice([text for text, _ in samples({**option, "dest": row.get("dest", "")})] or ["1"])
        words += [f"{flag}={text}"] if chance.random() < 0.5 and flag.startswith("--") else [flag, text]
    if chance.random() < 1 / 3:
        place = chance.randrange(len(words))
        mistakes = (f"{words[place]}x", words[place][:-1], words[place].replace("-", "_"), words[place].upper(), "")
        words[place] = chance.choice(mistakes)
    return tuple(words)
