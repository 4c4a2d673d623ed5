"""Why vLLM 0.8.0 … 0.10.2 starts its V0 engine, although V1 is the default (engine/arg_utils.py _is_v1_supported_oracle
of each release). With VLLM_USE_V1=1 the same is an error, or V1 starts anyway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Gpu
from podfit.vllm.memory import arguments, kv_releases
from podfit.vllm.memory.arguments import MemoryArguments
from podfit.vllm.model import Model
from podfit.vllm.release import Release

FIRST, LAST = Release(0, 8), Release(0, 11)
"""V1 is the default since the first of these, and the only engine since the last."""
BEFORE_AMPERE = Release(0, 10, 2)
"""Since then V1 runs below compute capability 8.0."""
IN_V1 = Release(0, 8, 3)
"""Since then V1 has --cpu-offload-gb, LoRA, bitsandbytes, and pipeline stages with Ray."""
CONNECTORS = Release(0, 8, 5)
"""Since then V1 has --kv-transfer-config and --additional-config."""
DRAFTS = Release(0, 9)
"""Since then V1 has speculative decoding by default, GGUF, Tensorizer, and pipeline stages without Ray."""
POOLERS = Release(0, 9, 2)
"""Since then V1 has poolers, float32 and --scheduling-policy priority."""
TRACES = Release(0, 10, 2)
"""Since then V1 has traces."""
FP8_CACHE = Release(0, 8, 2)
"""Since then V1 has an FP8 KV cache with FlashAttention 3, which runs only on Hopper."""
V1_MODELS: Mapping[Release, tuple[str, ...]] = {
    Release(0, 8, 1): ("Gemma3ForConditionalGeneration",),
    Release(0, 8, 3): ("MiniCPMO", "MiniCPMV"),
    Release(0, 8, 5): ("GlmForCausalLM", "Phi4MMForCausalLM"),
    Release(0, 9, 2): ("Qwen2ForProcessRewardModel", "Qwen2ForRewardModel"),
    Release(0, 10): ("PrithviGeoSpatialMAE",),
    Release(0, 10, 1): (
        "BertForSequenceClassification", "BertModel", "GteModel", "GteNewModel", "ModernBertForSequenceClassification",
        "NomicBertModel", "RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaModel",
        "XLMRobertaForSequenceClassification", "XLMRobertaModel",
    ),
    Release(0, 10, 2): ("BloomForCausalLM", "GritLM", "Plamo2ForCausalLM", "WhisperForConditionalGeneration"),
    LAST: (
        "BartForConditionalGeneration", "BartModel", "DonutForConditionalGeneration",
        "Florence2ForConditionalGeneration", "MBartForConditionalGeneration", "MllamaForConditionalGeneration",
        "MotifForCausalLM", "Phi4FlashForCausalLM",
    ),
}  # fmt: skip
"""The first release in which V1 runs the architectures: before, their class has SupportsV0Only (model_executor/models
of each release from 0.8.0 to 0.10.2). Models with states are left out: `kv_releases.STATES` covers them."""
V1_BACKENDS: Mapping[Release, tuple[str, ...]] = {
    FIRST: ("FLASHMLA", "FLASH_ATTN", "FLASH_ATTN_VLLM_V1", "PALLAS", "PALLAS_VLLM_V1", "TRITON_MLA"),
    Release(0, 8, 2): ("TRITON_ATTN_VLLM_V1",),
    Release(0, 8, 5): ("FLASHINFER", "FLASHINFER_VLLM_V1"),
    Release(0, 9): ("ROCM_AITER_MLA",),
    Release(0, 9, 1): ("CUTLASS_MLA_VLLM_V1", "FLEX_ATTENTION", "TORCH_SDPA_VLLM_V1"),
    Release(0, 10, 1): ("CUTLASS_MLA", "TREE_ATTN", "XFORMERS_VLLM_V1"),
    Release(0, 10, 2): ("FLASHINFER_MLA", "FLASHMLA_VLLM_V1", "FLASH_ATTN_MLA"),
}
"""The first release in which V1 takes these values of VLLM_ATTENTION_BACKEND. With any other value V0 starts."""
GRAMMARS: Mapping[str, Release] = {"outlines": Release(0, 10), "lm-format-enforcer": Release(0, 10, 1)}
"""--guided-decoding-backend → the first release in which it does not start V0 (config.py GuidedDecodingBackendV1)."""
_V1_SINCE = {name: release for release, names in V1_MODELS.items() for name in names}
IN_V1_SPECULATION = frozenset({"ngram", "[ngram]", "medusa", "eagle", "eagle3", "deepseek_mtp"})
"""Methods of speculative decoding that V1 has from DRAFTS on."""
EVERY_DRAFT = Release(0, 10)
"""Since then no method of speculative decoding starts V0."""


def falls_back(memory_arguments: MemoryArguments, release: Release, capability: tuple[int, int] | None) -> bool:
    """True if an argument, the model or the GPU is not supported by V1 in this release, for releases before 0.11.

    `capability`: the GPU's compute capability; an unknown one (None) supports everything."""
    given = memory_arguments.args.given
    return (
        _is_before_ampere(capability, release)
        or _lacks_model(memory_arguments.model, release)
        or any(given.get(name) for name in ALWAYS)
        or _above_one(given, "num_scheduler_steps", "max_num_partial_prefills", "max_long_partial_prefills")
        or given.get("load_format") == "sharded_state"
        or _lacks_until_later(memory_arguments, release)
        or _no_backend(memory_arguments, release)
        or _no_stages(memory_arguments, release)
        or _no_speculation(given, release)
        or _no_cache_dtype(memory_arguments, release, capability)
    )


def _is_before_ampere(capability: tuple[int, int] | None, release: Release) -> bool:
    """True if the GPU is one on which V1 of this release does not run."""
    return capability is not None and capability < (8, 0) and release < BEFORE_AMPERE


def _lacks_architecture(model: Model, release: Release) -> bool:
    """True if V1 of this release does not run the model's first architecture; False for architectures that V1 always
    ran."""
    architecture = model.architectures[0] if model.architectures else ""
    return release < _V1_SINCE.get(architecture, FIRST)


def _lacks_model(model: Model, release: Release) -> bool:
    """True if V1 of this release does not run the model: its architecture, or its layers with states."""
    return _lacks_architecture(model, release) or (release < kv_releases.STATES and kv_releases.keeps_states(model))


def _lacks_until_later(memory_arguments: MemoryArguments, release: Release) -> bool:
    """True if an argument or the quantization needs something that V1 has only in a later release."""
    given = memory_arguments.args.given
    stored = memory_arguments.model.config.get("quantization_config")
    method = given.get("quantization") or (stored.get("quant_method") if isinstance(stored, Mapping) else None)
    needed_since: tuple[tuple[object, Release], ...] = (
        (given.get("cpu_offload_gb") or given.get("enable_lora") or method == "bitsandbytes", IN_V1),
        (given.get("kv_transfer_config") or given.get("additional_config"), CONNECTORS),
        (method == "gguf" or given.get("load_format") == "tensorizer", DRAFTS),
        (given.get("scheduling_policy") == "priority", POOLERS),
        (given.get("dtype") in ("float", "float32") or memory_arguments.pooling, POOLERS),
        (given.get("otlp_traces_endpoint") or given.get("collect_detailed_traces"), TRACES),
    )
    return any(is_needed and release < since for is_needed, since in needed_since)


def reason(
    args: EngineArgs, model: Model, env: Mapping[str, str], release: Release | None, gpu: Gpu | None
) -> str | None:
    """Why vLLM starts its V0 engine although V1 is the default, for people; None if it does not."""
    memory_arguments = arguments.read(args, model, env)
    if release is None or not FIRST <= release < LAST or memory_arguments.v1 in ("0", "1"):
        return None
    capability = gpu.compute_capability if gpu else None
    if not falls_back(memory_arguments, release, capability):
        return None
    device = f" on {gpu.name}" if gpu else ""
    if _is_before_ampere(capability, release):
        cause = gpu.name if gpu else "a GPU before Ampere"
    elif _no_cache_dtype(memory_arguments, release, capability):
        cause = f"--kv-cache-dtype {args.given.get('kv_cache_dtype')}{device}"
    elif _lacks_architecture(model, release):
        cause = "this model's architecture"
    else:
        dests = [dest for dest in _CAUSES if args.given.get(dest)]
        cause = f"--{dests[0].replace('_', '-')}" if len(dests) == 1 else "a setting that V1 does not support there"
    return f"{cause} makes vLLM {release} fall back to its V0 engine, which needs other memory"


_CAUSES = (
    "logits_processor_pattern", "preemption_mode", "disable_async_output_proc", "scheduler_delay_factor",
    "enable_prompt_adapter", "enable_prompt_embeds", "num_scheduler_steps", "max_num_partial_prefills",
    "max_long_partial_prefills", "load_format", "scheduling_policy", "dtype", "otlp_traces_endpoint",
    "collect_detailed_traces", "quantization", "kv_transfer_config", "additional_config", "cpu_offload_gb",
    "enable_lora", "guided_decoding_backend", "pipeline_parallel_size", "speculative_config", "speculative_model",
)  # fmt: skip
"""Arguments that can be the reason."""


ALWAYS = ("logits_processor_pattern", "preemption_mode", "disable_async_output_proc", "scheduler_delay_factor",
          "enable_prompt_adapter", "enable_prompt_embeds")  # fmt: skip
"""Arguments that V1 supports in none of these releases."""


def _above_one(given: Mapping[str, Any], *names: str) -> bool:
    """True if one of these arguments is a number above 1."""
    return any(isinstance(value := given.get(name), int) and value > 1 for name in names)


def _no_backend(memory_arguments: MemoryArguments, release: Release) -> bool:
    """True if V1 lacks the attention backend, or the one for structured output. The name of the latter may be followed
    by its options, after a colon."""
    grammar = memory_arguments.args.given.get("guided_decoding_backend")
    if isinstance(grammar, str) and release < GRAMMARS.get(grammar.partition(":")[0], FIRST):
        return True
    attention = dict(memory_arguments.variables).get("VLLM_ATTENTION_BACKEND")
    supported = [name for first, names in V1_BACKENDS.items() if first <= release for name in names]
    return attention is not None and attention not in supported


def _no_stages(memory_arguments: MemoryArguments, release: Release) -> bool:
    """True if V1 of this release has no pipeline parallelism, or has it only on Ray."""
    if memory_arguments.parallel.pp <= 1 or release >= DRAFTS:
        return False
    return release < IN_V1 or memory_arguments.args.given.get("distributed_executor_backend") != "ray"


def _no_speculation(given: Mapping[str, Any], release: Release) -> bool:
    """True if V1 of this release lacks the method of speculative decoding, so that vLLM uses V0."""
    value = given.get("speculative_config")
    if value is None and given.get("speculative_model") is None:
        return False
    if release < DRAFTS:
        return True
    if release >= EVERY_DRAFT:
        return False
    value = value if isinstance(value, Mapping) else {}
    return (value.get("method") or value.get("model")) not in IN_V1_SPECULATION  # n-gram may be given as the model


def _no_cache_dtype(memory_arguments: MemoryArguments, release: Release, capability: tuple[int, int] | None) -> bool:
    """True if V1 lacks the KV cache dtype: vllm/platforms/cuda.py is_kv_cache_dtype_supported of 0.10; before, the
    argument parser's own check. False if the GPU is unknown, or if a variable names an attention backend."""
    dtype = memory_arguments.args.given.get("kv_cache_dtype")
    if not isinstance(dtype, str) or dtype == "auto":
        return False
    if release < FP8_CACHE:
        return True
    if capability is None or memory_arguments.flashinfer_by_variable is not None:
        return False
    if capability == (10, 0) and release >= (0, 10):  # Blackwell's own backends have every type
        return False
    is_fp8, is_hopper = dtype.startswith("fp8"), capability[0] == 9
    if release >= (0, 10, 2) and (memory_arguments.model.kv_lora_rank or not is_fp8):
        return False
    return not (is_fp8 and is_hopper)
