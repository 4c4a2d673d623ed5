"""The choice between vLLM's two model runners. The second one samples in less memory, and up to 0.28 it reserves
nothing for CUDA graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.vllm.memory.arguments import MemoryArguments
from podfit.vllm.release import Release

SOURCE = "vLLM 0.22 … 0.33 config/vllm.py, use_v2_model_runner"
BY_VARIABLE = Release(0, 12)
"""First release whose envs.py has VLLM_USE_V2_MODEL_RUNNER; it may have been added a little later."""
BY_CLASS = (
    (Release(0, 28), ("DeepseekV4ForCausalLM",)),
    (Release(0, 27), ("KimiK3ForConditionalGeneration",)),
    (Release(0, 26), ("InklingForCausalLM", "InklingForConditionalGeneration", "LongcatFlashNgramForCausalLM")),
    (Release(0, 24), ("DeepseekV2ForCausalLM", "GraniteMoeForCausalLM", "Qwen2MoeForCausalLM")),
)
"""First release → classes that have it by default (DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES)."""
FIRST_CLASSES = (
    (Release(0, 23), ("LlamaForCausalLM", "MistralForCausalLM")),
    (Release(0, 22), ("Qwen3ForCausalLM",)),
)
"""First release → classes that have it by default, up to 0.24. In 0.22 and 0.23 only checkpoints that are not
quantized."""
QUANTIZED = Release(0, 24)
DENSE = Release(0, 25)
"""Since then dense models that generate text and have no state layers."""
EVERY = Release(0, 29)
"""Since then every model. From here on it also estimates the memory of CUDA graphs (0.29 v1/worker/gpu/
model_runner.py profile_cudagraph_memory; 0.23 … 0.28 return 0)."""
METHODS = ("eagle", "eagle3", "mtp", "dflash", "dspark", "extract_hidden_states")
"""Methods of speculative decoding that it has, up to 0.32."""
FIRST_RUNNER_METHODS = ("suffix", "custom_class")
"""Methods that it lacks in 0.33."""
EVERY_METHOD = Release(0, 33)
ONLY_ATTENTION = frozenset({"full_attention", "sliding_attention", "chunked_attention", "mlp", "moe"})


def is_second(memory_arguments: MemoryArguments, release: Release, *, pooling: bool, vendor: str) -> bool:
    """True if the engine has the second model runner. VLLM_USE_V2_MODEL_RUNNER decides if it is set."""
    variable = dict(memory_arguments.variables).get("VLLM_USE_V2_MODEL_RUNNER")
    if variable in ("0", "1"):
        return variable == "1" and release >= BY_VARIABLE
    if not _is_default(memory_arguments, release, pooling=pooling, vendor=vendor):
        return False
    return not _lacks(memory_arguments, release)


def _is_default(memory_arguments: MemoryArguments, release: Release, *, pooling: bool, vendor: str) -> bool:
    """True if the model has it by default."""
    model = memory_arguments.model
    if release >= EVERY:
        return True
    if pooling or release < FIRST_CLASSES[-1][0]:
        return False
    classes = {name for since, names in BY_CLASS if release >= since for name in names}
    if vendor == "amd":
        classes.discard("KimiK3ForConditionalGeneration")  # ROCM_EXCLUDED_V2_MODEL_RUNNER_ARCHITECTURES
    if not classes.isdisjoint(model.architectures):
        return True
    if release < DENSE:
        first = {name for since, names in FIRST_CLASSES if release >= since for name in names}
        return not first.isdisjoint(model.architectures) and (release >= QUANTIZED or memory_arguments.scheme is None)
    return not model.num_experts and ONLY_ATTENTION.issuperset(model.layer_types)


def _lacks(memory_arguments: MemoryArguments, release: Release) -> bool:
    """True if an argument needs something that the second runner lacks in this release, so that vLLM takes the first
    (_get_v2_model_runner_unsupported_features)."""
    given, drafted = memory_arguments.args.given, memory_arguments.rare.speculative
    if drafted is not None:
        if release >= EVERY_METHOD:
            return drafted.method in FIRST_RUNNER_METHODS
        if drafted.method not in METHODS or (drafted.method == "eagle3" and memory_arguments.parallel.pp > 1):
            return True
    if release >= EVERY_METHOD:
        return False
    if given.get("enable_dbo") or given.get("enable_elastic_ep") or given.get("logits_processors"):
        return True
    return release < EVERY and _lacks_before_29(given)


def _lacks_before_29(given: Mapping[str, Any]) -> bool:
    """True if an argument needs a feature that only 0.29 added to the second model runner."""
    names = ("enable_prompt_embeds", "enable_return_routed_experts", "ec_transfer_config")
    return any(given.get(name) for name in names) or given.get("logprobs_mode") in ("raw_logits", "processed_logits")
