"""Published models that the collected table lacks: sizes as their model cards, papers and libraries' tests state them.

Nobody read their config.json here, so they inform and do not deny, but for those in COPIED. The numbers of parameters
are those of the hub's safetensors files; a test holds the sizes against them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def _opt(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    return {"model_type": "opt", "architectures": ["OPTForCausalLM"], "num_hidden_layers": layers,
            "hidden_size": hidden, "num_attention_heads": heads, "ffn_dim": 4 * hidden, "vocab_size": 50272,
            "max_position_embeddings": 2048, "torch_dtype": "float16"}  # fmt: skip


def _bloom(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    return {"model_type": "bloom", "architectures": ["BloomForCausalLM"], "n_layer": layers, "hidden_size": hidden,
            "n_head": heads, "vocab_size": 250880, "seq_length": 2048}  # fmt: skip


def _llama(layers: int, hidden: int, heads: int, groups: int, inner: int, vocabulary: int, length: int,
           **more: Any) -> dict[str, Any]:  # fmt: skip
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": layers,
            "hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": groups,
            "intermediate_size": inner, "vocab_size": vocabulary, "max_position_embeddings": length,
            "tie_word_embeddings": False, "torch_dtype": "bfloat16", **more}  # fmt: skip


def _code(layers: int) -> dict[str, Any]:
    return {"model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "n_layer": layers, "n_embd": 6144,
            "n_head": 48, "n_inner": 24576, "n_positions": 8192, "multi_query": True, "vocab_size": 49152}  # fmt: skip


def _bert(
    layers: int, hidden: int, heads: int, vocabulary: int, family: str = "bert", length: int = 512
) -> dict[str, Any]:
    name = {"bert": "BertModel", "xlm-roberta": "XLMRobertaModel", "mpnet": "MPNetForMaskedLM"}[family]
    return {"model_type": family, "architectures": [name], "num_hidden_layers": layers, "hidden_size": hidden,
            "num_attention_heads": heads, "intermediate_size": 4 * hidden, "vocab_size": vocabulary,
            "max_position_embeddings": length, "torch_dtype": "float32"}  # fmt: skip


WHISPER = {"model_type": "whisper_encoder", "d_model": 1280, "encoder_layers": 32, "encoder_ffn_dim": 5120,
           "num_mel_bins": 128, "max_source_positions": 1500}  # fmt: skip
BIELIK = _llama(50, 4096, 32, 8, 14336, 32128, 32768)

ADDITIONS: dict[str, tuple[dict[str, Any], int | None]] = {
    "facebook/opt-1.3b": (_opt(24, 2048, 32), 1_315_758_080),
    "facebook/opt-2.7b": (_opt(32, 2560, 32), 2_651_596_800),
    "facebook/opt-6.7b": (_opt(32, 4096, 32), 6_658_473_984),
    "facebook/opt-13b": (_opt(40, 5120, 40), 12_853_473_280),
    "facebook/opt-30b": (_opt(48, 7168, 56), 29_974_540_288),
    "facebook/opt-66b": (_opt(64, 9216, 72), None),
    "bigscience/bloom-560m": (_bloom(24, 1024, 16), 559_214_592),
    "bigscience/bloom-1b1": (_bloom(24, 1536, 16), None),
    "bigscience/bloom-1b7": (_bloom(24, 2048, 16), None),
    "bigscience/bloom-3b": (_bloom(30, 2560, 32), None),
    "bigscience/bloom-7b1": (_bloom(30, 4096, 32), 7_069_016_064),
    "bigscience/bloomz-560m": (_bloom(24, 1024, 16), 559_214_592),
    "bigscience/bloomz-3b": (_bloom(30, 2560, 32), None),
    "bigscience/bloomz-7b1": (_bloom(30, 4096, 32), 7_069_016_064),
    "bigscience/bloom": (_bloom(70, 14336, 112), 176_247_271_424),
    "EleutherAI/gpt-j-6b": (
        {"model_type": "gptj", "architectures": ["GPTJForCausalLM"], "n_layer": 28, "n_embd": 4096, "n_head": 16,
         "n_positions": 2048, "vocab_size": 50400, "tie_word_embeddings": False}, 6_053_381_344),
    "EleutherAI/gpt-neox-20b": (
        {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "num_hidden_layers": 44,
         "hidden_size": 6144, "num_attention_heads": 64, "intermediate_size": 24576, "vocab_size": 50432,
         "max_position_embeddings": 2048,
         "tie_word_embeddings": False, "torch_dtype": "float16"}, 20_554_567_680),
    "bigcode/starcoderbase-1b": (
        {"model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "n_layer": 24, "n_embd": 2048,
         "n_head": 16, "n_inner": 8192, "n_positions": 8192, "multi_query": True, "vocab_size": 49152}, None),
    "ibm-granite/granite-20b-code-instruct": (_code(52), 20_073_842_688),
    "ibm-granite/granite-20b-code-instruct-8k": (_code(52), 20_073_842_688),
    "ibm-granite/granite-20b-code-base": (_code(52), 20_073_842_688),
    "ibm-granite/granite-34b-code-instruct": (_code(88), None),
    "ibm-granite/granite-34b-code-instruct-8k": (_code(88), None),
    "mosaicml/mpt-30b": (
        {"model_type": "mpt", "architectures": ["MPTForCausalLM"], "n_layers": 48, "d_model": 7168, "n_heads": 64,
         "expansion_ratio": 4, "max_seq_len": 8192, "vocab_size": 50432, "torch_dtype": "bfloat16"}, 29_954_695_168),
    "mosaicml/mpt-30b-chat": (
        {"model_type": "mpt", "architectures": ["MPTForCausalLM"], "n_layers": 48, "d_model": 7168, "n_heads": 64,
         "expansion_ratio": 4, "max_seq_len": 8192, "vocab_size": 50432, "torch_dtype": "bfloat16"}, 29_954_695_168),
    "databricks/dbrx-instruct": (
        {"model_type": "dbrx", "architectures": ["DbrxForCausalLM"], "n_layers": 40, "d_model": 6144, "n_heads": 48,
         "max_seq_len": 32768, "vocab_size": 100352, "attn_config": {"kv_n_heads": 8},
         "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}, 131_596_523_520),
    "mistralai/Mamba-Codestral-7B-v0.1": (
        {"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"], "num_hidden_layers": 64, "hidden_size": 4096,
         "num_heads": 128, "head_dim": 64, "n_groups": 8, "state_size": 128, "conv_kernel": 4, "expand": 2,
         "vocab_size": 32768, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}, 7_285_403_648),
    "mistralai/Voxtral-Mini-3B-2507": (
        {"model_type": "voxtral", "architectures": ["VoxtralForConditionalGeneration"], "audio_config": WHISPER,
         "text_config": _llama(30, 3072, 32, 8, 8192, 131072, 131072, head_dim=128, tie_word_embeddings=True)}, None),
    "mistralai/Voxtral-Small-24B-2507": (
        {"model_type": "voxtral", "architectures": ["VoxtralForConditionalGeneration"], "audio_config": WHISPER,
         "text_config": _llama(40, 5120, 32, 8, 32768, 131072, 131072, head_dim=128)}, None),
    "deepseek-ai/deepseek-llm-67b-chat": (_llama(95, 8192, 64, 8, 22016, 102400, 4096), 67_424_993_280),
    "deepseek-ai/deepseek-llm-67b-base": (_llama(95, 8192, 64, 8, 22016, 102400, 4096), 67_424_993_280),
    "speakleash/Bielik-11B-v2": (BIELIK, 11_168_796_672),
    "speakleash/Bielik-11B-v2.0-Instruct": (BIELIK, 11_168_796_672),
    "speakleash/Bielik-11B-v2.1-Instruct": (BIELIK, 11_168_796_672),
    "speakleash/Bielik-11B-v2.2-Instruct": (BIELIK, 11_168_796_672),
    "speakleash/Bielik-11B-v2.3-Instruct": (BIELIK, 11_168_796_672),
    "speakleash/Bielik-11B-v2.5-Instruct": (BIELIK, 11_168_796_672),
    "speakleash/Bielik-11B-v2.6-Instruct": (BIELIK, 11_168_796_672),
    "speakleash/Bielik-4.5B-v3.0-Instruct": (_llama(60, 2048, 16, 2, 11008, 32000, 32768, head_dim=128), None),
    "speakleash/Bielik-1.5B-v3.0-Instruct": (_llama(32, 1536, 12, 2, 8960, 32000, 8192, head_dim=128), None),
    "utter-project/EuroLLM-9B-Instruct": (_llama(42, 4096, 32, 8, 12288, 128000, 4096), 9_152_008_192),
    "utter-project/EuroLLM-9B": (_llama(42, 4096, 32, 8, 12288, 128000, 4096), 9_152_008_192),
    "utter-project/EuroLLM-1.7B-Instruct": (_llama(24, 2048, 16, 8, 5632, 128000, 4096), 1_657_079_808),
    "BSC-LT/salamandra-7b-instruct": (_llama(32, 4096, 32, 8, 11008, 256000, 8192), 7_768_117_248),
    "sarvamai/sarvam-1": (_llama(28, 2048, 16, 8, 11008, 68096, 8192), None),
    "stabilityai/stablelm-2-12b-chat": (
        {"model_type": "stablelm", "architectures": ["StableLmForCausalLM"], "num_hidden_layers": 40,
         "hidden_size": 5120, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 13824,
         "vocab_size": 100352, "max_position_embeddings": 4096, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16"}, 12_143_605_760),
    "ibm-ai-platform/Bamba-9B": (
        {"model_type": "bamba", "architectures": ["BambaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
         "attn_layer_indices": [9, 18, 27], "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1,
         "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_expand": 2, "vocab_size": 128256,
         "max_position_embeddings": 262144, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}, None),
    "xai-org/grok-1": (
        {"model_type": "grok-1", "architectures": ["Grok1ModelForCausalLM"], "num_hidden_layers": 64,
         "hidden_size": 6144, "num_attention_heads": 48, "num_key_value_heads": 8, "intermediate_size": 32768,
         "num_experts": 8, "num_experts_per_tok": 2, "vocab_size": 131072, "max_position_embeddings": 8192,
         "tie_word_embeddings": True}, None),
    "rednote-hilab/dots.llm1.inst": (
        {"model_type": "dots1", "architectures": ["Dots1ForCausalLM"], "num_hidden_layers": 62, "hidden_size": 4096,
         "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128, "intermediate_size": 10944,
         "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6,
         "first_k_dense_replace": 1, "vocab_size": 152064, "max_position_embeddings": 32768,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}, 142_774_381_696),
    "HuggingFaceM4/Idefics3-8B-Llama3": (
        {"model_type": "idefics3", "architectures": ["Idefics3ForConditionalGeneration"], "scale_factor": 2,
         "text_config": _llama(32, 4096, 32, 8, 14336, 128259, 131072),
         "vision_config": {"model_type": "idefics3", "hidden_size": 1152, "intermediate_size": 4304,
                           "num_hidden_layers": 27, "patch_size": 14, "image_size": 364}}, None),
    "BAAI/bge-reranker-base": (_bert(12, 768, 12, 250002, "xlm-roberta", 514), 278_044_417),
    "sentence-transformers/all-MiniLM-L12-v2": (_bert(12, 384, 12, 30522), 33_360_512),
    "sentence-transformers/all-mpnet-base-v2": (_bert(12, 768, 12, 30527, "mpnet", 514), 109_486_978),
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": (_bert(12, 384, 12, 250037), 117_654_272),
    "inclusionAI/Ling-lite-1.5": (
        {"model_type": "bailing_moe", "architectures": ["BailingMoeForCausalLM"], "num_hidden_layers": 28,
         "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 1408,
         "moe_intermediate_size": 1408, "num_experts": 64, "num_shared_experts": 2, "num_experts_per_tok": 6,
         "first_k_dense_replace": 0, "vocab_size": 126464, "max_position_embeddings": 32768,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}, None),
    "Qwen/Qwen3-ASR-1.7B": (
        {"model_type": "qwen3_asr", "architectures": ["Qwen3ASRForConditionalGeneration"], "thinker_config": {
            "text_config": {
                "model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 2048, "num_attention_heads": 16,
                "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 151936,
                "max_position_embeddings": 65536, "tie_word_embeddings": True, "torch_dtype": "bfloat16"},
            "audio_config": {"model_type": "qwen3_asr_encoder", "d_model": 1024, "encoder_layers": 24,
                             "encoder_attention_heads": 16, "encoder_ffn_dim": 4096, "num_mel_bins": 128}}}, None),
    "PaddlePaddle/PaddleOCR-VL": (
        {"model_type": "paddleocr_vl", "architectures": ["PaddleOCRVLForConditionalGeneration"],
         "num_hidden_layers": 18, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 2,
         "head_dim": 128, "intermediate_size": 3072, "vocab_size": 103424, "max_position_embeddings": 131072,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16",
         "vision_config": {"model_type": "paddleocr_vl_vision", "hidden_size": 1152, "intermediate_size": 4304,
                           "num_hidden_layers": 27, "patch_size": 14, "image_size": 384}}, None),
    "nomic-ai/nomic-embed-text-v1.5": (
        {"model_type": "nomic_bert", "architectures": ["NomicBertModel"], "num_hidden_layers": 12, "hidden_size": 768,
         "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30528, "max_position_embeddings": 2048,
         "tie_word_embeddings": True, "torch_dtype": "float32"}, None),
}  # fmt: skip
"""Id → (its config.json as far as it tells sizes, its parameters)."""


COPIED = {
    "inclusionAI/Ling-lite-1.5":
        "lablup/mlxcel@2481211598:src/models/bailing_moe_tests.rs (its config.json, field for field)",
}  # fmt: skip
"""Rows whose config.json was read, and where its copy stands."""
_AT = "transformers 5.23 models/{0}/configuration_{0}.py"
DEFAULTS = {
    "Qwen/Qwen3-ASR-1.7B": _AT.format("qwen3_asr"),
    "PaddlePaddle/PaddleOCR-VL": f"{_AT.format('paddleocr_vl')}; arXiv 2510.14528 (0.9B: untied embeddings)",
    "nomic-ai/nomic-embed-text-v1.5": _AT.format("nomic_bert"),
}
"""Rows whose sizes are the defaults of a class that Transformers documents by this very checkpoint."""


def rows() -> Iterator[dict[str, Any]]:
    """The additions as rows of the collected table."""
    for name, (config, parameters) in ADDITIONS.items():
        source = COPIED.get(name) or DEFAULTS.get(name) or "its model card and paper"
        doubts = ["its sizes are Transformers' defaults"] if name in DEFAULTS else ["its config.json was not read"]
        copied = name in COPIED
        yield {
            "id": name, "aliases": [], "base": None, "config": config, "parameters": parameters, "weights_bytes": None,
            "gated": None, "source": [source], "confidence": "file" if copied else "documented", "trusted": copied,
            "doubts": [] if copied else doubts, "notes": [],
        }  # fmt: skip
