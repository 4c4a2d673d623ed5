"""What a collected row has from a copy cut to a compiler's, from a sibling or from its id alone, as published, with its
source: lengths, layers, quantisation.

A correction without a source leaves its row doubtful: it informs, and does not deny.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Correction(NamedTuple):
    """What to change of a row's config, and where that can be looked up (None: nowhere that we know of)."""

    changes: Mapping[str, Any]
    source: str | None


_XINFERENCE = "xorbitsai/inference@7ecec16b63:xinference/model/llm/llm_family.json"
_YI = Correction({"max_position_embeddings": 4096}, f"{_XINFERENCE}#Yi, Yi-chat, Yi-1.5, Yi-1.5-chat")
_QWEN_7B = Correction({"max_position_embeddings": 32768, "seq_length": 8192}, None)
_CHANNELS = Correction(
    {"quantization_config": {
        "quant_method": "compressed-tensors", "format": "float-quantized", "_scheme": "FP8_DYNAMIC",
        "weight_block_size": None, "activation_scheme": None}},
    "HabanaAI/vllm-hpu-extension#350 (GLM-4.5 MoE in FP8 is compressed-tensors), vllm-project/vllm#29182 (a scale for "
    "each channel)")  # fmt: skip
_QWEN_1_8B = Correction({"max_position_embeddings": 8192, "seq_length": 8192}, None)

CORRECTIONS: Mapping[str, Correction] = {
    "mistralai/Mistral-7B-Instruct-v0.2": Correction(
        {"max_position_embeddings": 32768},
        "Azure/azureml-assets:assets/models/system/Mistral-7B-Instruct-v0-2/description.md (32k, no sliding window)"),
    # 22.5 GiB for one request of 1,048,576 tokens (kaito-project/kaito#2132): the latent attention of transformers'
    # mistral4, whose class defaults have all its other sizes; what was left of two H100 NVL is that of 8-bit weights
    "mistralai/Mistral-Small-4-119B-2603": Correction(
        {"text_config": {"model_type": "mistral4"}, "quantization_config": {"quant_method": "fp8"}}, None),
    **dict.fromkeys(
        ("zai-org/GLM-4.5-Air-FP8", "zai-org/GLM-4.6-FP8", "zai-org/GLM-4.6V-FP8", "zai-org/GLM-4.7-FP8"), _CHANNELS),
    "MiniMaxAI/MiniMax-M3-MXFP8": Correction(
        {"quantization_config": {"quant_method": "mxfp8", "weight_block_size": None, "activation_scheme": None}},
        "vLLM 0.33 model_executor/layers/quantization/__init__.py (what MiniMax' checkpoints call it)"),
    # these had the length times the rope factor
    **dict.fromkeys(
        ("RedHatAI/gemma-3-12b-it-FP8-dynamic", "RedHatAI/gemma-3-12b-it-quantized.w4a16",
         "RedHatAI/gemma-3-12b-it-quantized.w8a8", "RedHatAI/gemma-3-4b-it-FP8-dynamic",
         "RedHatAI/gemma-3-4b-it-quantized.w4a16", "google/medgemma-27b-text-it",
         "unsloth/gemma-3-4b-it-unsloth-bnb-4bit"),
        Correction({"max_position_embeddings": 131072}, "transformers 4.57.1 models/gemma3/configuration_gemma3.py")),
    **dict.fromkeys(
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-block", "hugging-quants/Meta-Llama-3.1-405B-Instruct-AWQ-INT4"),
        Correction({"max_position_embeddings": 131072}, "the config.json of meta-llama/Llama-3.3-70B-Instruct")),
    "zai-org/glm-4-9b-chat": Correction({"seq_length": 131072}, f"{_XINFERENCE}#glm4-chat"),
    "THUDM/chatglm2-6b": Correction(
        {"seq_length": 32768}, "THUDM/ChatGLM2-6B@003a4b4e06:README_EN.md (context of 32K)"),
    "THUDM/chatglm3-6b-32k": Correction(
        {"seq_length": 32768},
        "xorbitsai/inference@7ecec16b63:doc/source/locale/de/LC_MESSAGES/models/builtin/llm/chatglm3-32k.po"),
    "01-ai/Yi-6B": _YI,
    "01-ai/Yi-6B-Chat": _YI,
    "01-ai/Yi-1.5-6B": _YI,
    "01-ai/Yi-1.5-6B-Chat": _YI,
    "Qwen/Qwen1.5-1.8B-Chat": Correction({"max_position_embeddings": 32768}, f"{_XINFERENCE}#qwen1.5-chat"),
    "Qwen/Qwen-7B": _QWEN_7B,
    "Qwen/Qwen-7B-Chat": _QWEN_7B,
    "Qwen/Qwen-1_8B": _QWEN_1_8B,
    "Qwen/Qwen-1_8B-Chat": _QWEN_1_8B,
    "Qwen/Qwen-VL-Chat": Correction({"seq_length": 2048}, None),
    "Qwen/Qwen-VL-Chat-Int4": Correction({"seq_length": 2048}, None),
    "Qwen/Qwen2.5-VL-3B-Instruct": Correction(
        {"max_position_embeddings": 128000}, f"{_XINFERENCE}#qwen2.5-vl-instruct"),
    "openbmb/MiniCPM-V-2_6": Correction({"max_position_embeddings": 32768}, f"{_XINFERENCE}#MiniCPM-V-2.6"),
    "openbmb/MiniCPM-Embedding": Correction({"max_position_embeddings": None}, None),
    "stepfun-ai/Step-3.5-Flash-Base": Correction({"max_position_embeddings": None}, None),
    "OpenGVLab/InternVL2-2B": Correction({"llm_config": {"max_position_embeddings": 32768}}, None),
    "OpenGVLab/InternVL2-4B": Correction({"llm_config": {"max_position_embeddings": 131072}}, None),
    "microsoft/Phi-3-mini-4k-instruct": Correction(
        {"max_position_embeddings": 4096, "rope_scaling": None, "original_max_position_embeddings": 4096,
         "sliding_window": 2047},
        "NVIDIA/TensorRT-LLM@43b18bdf76:tests/unittest/_torch/modeling/test_modeling_phi3.py#PHI3_MINI_4K_CONFIG"),
    **dict.fromkeys(
        ("LGAI-EXAONE/EXAONE-3.5-2.4B-Instruct", "LGAI-EXAONE/EXAONE-Deep-2.4B"),
        Correction({"num_layers": 30}, "the parameter count: one layer is 3 % of it")),
    **dict.fromkeys(
        ("LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct", "LGAI-EXAONE/EXAONE-Deep-7.8B"),
        Correction({"num_layers": 32}, "the parameter count: one layer is 3 % of it")),
    **dict.fromkeys(
        ("LGAI-EXAONE/EXAONE-3.5-32B-Instruct", "LGAI-EXAONE/EXAONE-Deep-32B"),
        Correction({"num_layers": 64}, "the parameter count: one layer is 1.5 % of it")),
}  # fmt: skip
"""Row → what is corrected."""
UNSOURCED = "its length was corrected without a source"
"""What is doubtful of a row whose correction has no source."""
GEMMA3_WINDOW = {640: 512, 1152: 512, 2560: 1024, 3840: 1024, 5376: 1024}
"""hidden_size → sliding_window of the Gemma 3 sizes, where a table leaves it out: as the rows that were read have it
(google/gemma-3-1b-it from mlc-ai/mlc-llm model_preset.py, -4b-it from sophgo/LLM-TPU, -12b-it from
AI-Hypercomputer/maxtext, -27b-it from aws-neuron's copy of config.json; 270M as 1B)."""
