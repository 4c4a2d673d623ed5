"""Single values that vLLM rejects for this model: rows as in `_configuration`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.rules.command_line._configuration import ENCODER_ARCHITECTURES, Check, VllmConfig
from podfit.vllm import change
from podfit.vllm.memory.kv_releases import STATEFUL
from podfit.vllm.release import Release

CHANGES_GRAPHS = frozenset({"mode", "level", "use_cudagraph", "full_cuda_graph", "pass_config"})
"""Keys of the compilation config that may switch CUDA graphs off, or change their sizes (sequence parallelism)."""
NO_COMPILATION = "TORCH_COMPILE_DISABLE"
"""1 switches CUDA graphs off with the compilation (vLLM 0.20 … 0.33 config/vllm.py)."""


def _captures(vllm_config: VllmConfig) -> str | None:
    """CUDA graph capture sizes that contradict each other. None if CUDA graphs are or may be off, for values of another
    type, and for sizes above a default batch."""
    config = vllm_config.args.get("compilation_config")
    config = config if isinstance(config, Mapping) else {}
    if _may_lack_graphs(vllm_config, config):
        return None
    sizes = vllm_config.args.get("cudagraph_capture_sizes", config.get("cudagraph_capture_sizes"))
    most = vllm_config.args.get("max_cudagraph_capture_size", config.get("max_cudagraph_capture_size"))
    if isinstance(sizes, list) and not sizes:
        return "cudagraph_capture_sizes is empty: CUDA graphs need one size at least"
    if not isinstance(most, int) or isinstance(most, bool):
        return None
    if most < 1:
        return f"max_cudagraph_capture_size {most}: CUDA graphs need 1 at least"
    if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes):
        return None
    tokens = vllm_config.settings.batch.max_num_batched_tokens
    if "max_num_batched_tokens" not in vllm_config.args and max(sizes) > tokens:
        return None  # sizes above the batch are left out, and its default depends on the GPU
    largest = max((size for size in sizes if size <= tokens), default=0)
    if largest == most:
        return None
    return f"max_cudagraph_capture_size {most} is not the largest of cudagraph_capture_sizes, {largest}"


def _may_lack_graphs(vllm_config: VllmConfig, config: Mapping[str, Any]) -> bool:
    """True if CUDA graphs are off, or if `CHANGES_GRAPHS` or `NO_COMPILATION` may switch them off or change their
    sizes."""
    level, mode = vllm_config.args.get("optimization_level"), str(config.get("cudagraph_mode", "")).upper()
    if vllm_config.settings.eager or level in (0, "0") or mode in ("NONE", "0"):
        return True
    return NO_COMPILATION in vllm_config.engine.command.env or not CHANGES_GRAPHS.isdisjoint(config)


def _profiler(vllm_config: VllmConfig) -> str | None:
    """The torch profiler without a directory. None for another profiler."""
    config = vllm_config.args.get("profiler_config")
    if not isinstance(config, Mapping) or config.get("profiler") != "torch" or config.get("torch_profiler_dir"):
        return None
    return '--profiler-config: the profiler "torch" needs torch_profiler_dir'


def _traces(vllm_config: VllmConfig) -> str | None:
    """Detailed traces without an endpoint. None without such traces."""
    if not vllm_config.args.get("collect_detailed_traces") or vllm_config.args.get("otlp_traces_endpoint"):
        return None
    return "--collect-detailed-traces needs --otlp-traces-endpoint"


def _overrides(vllm_config: VllmConfig) -> str | None:
    """Overrides of config.json that are not a JSON object. None if they are."""
    value = vllm_config.args.get("hf_overrides")
    return None if isinstance(value, Mapping) else f"--hf-overrides {value!r} is not a JSON object"


def _cache_dtype(vllm_config: VllmConfig) -> str | None:
    """A 16-bit KV cache of another dtype than the model's. None for another kind of KV cache, and if the model's dtype
    is unknown."""
    text = vllm_config.settings.types.kv_cache_dtype
    if (
        text not in ("bfloat16", "float16")
        or vllm_config.dtype not in ("bfloat16", "float16", "float32")
        or vllm_config.dtype == text
    ):
        return None
    return f"--kv-cache-dtype {text} is not the model's dtype here, {vllm_config.dtype}"


def _window(vllm_config: VllmConfig) -> str | None:
    """--disable-sliding-window of a model with RoPE scaling. None without the argument, without scaling, and for the
    kinds of scaling that vLLM's check passes over."""
    scaling = vllm_config.model.config.get("rope_scaling") or vllm_config.model.config.get("rope_parameters")
    kind = scaling.get("rope_type") or scaling.get("type") if isinstance(scaling, Mapping) else None
    unscaled = kind in (None, "su", "longrope", "llama3", "default") or "gemma3" in (vllm_config.model.model_type or "")
    if not vllm_config.args.get("disable_sliding_window") or unscaled:
        return None
    return f"--disable-sliding-window is not supported for a model with RoPE scaling ({kind})"


def _generates(vllm_config: VllmConfig) -> str | None:
    """An encoder that is asked to generate text. None without `generate`, outside of vLLM's own implementation, and if
    a class may be no encoder's."""
    is_generator = vllm_config.args.get("runner") == "generate" or vllm_config.args.get("task") == "generate"
    classes = vllm_config.model.architectures
    if (
        not is_generator
        or not classes
        or not vllm_config.in_vllm
        or not all(text.startswith(ENCODER_ARCHITECTURES) for text in classes)
    ):
        return None
    return f"{vllm_config.model.id} is an encoder: it generates no text"


def _limits(vllm_config: VllmConfig) -> str | None:
    """A negative number of images or videos. None for a model without vision."""
    value = vllm_config.args.get("limit_mm_per_prompt")
    if not vllm_config.model.vision_config or not isinstance(value, Mapping):
        return None
    counts = {name: item.get("count") if isinstance(item, Mapping) else item for name, item in value.items()}
    wrong = [name for name, item in counts.items() if isinstance(item, int) and item < 0]
    return f"--limit-mm-per-prompt: {wrong[0]} is {counts[wrong[0]]}, 0 at least" if wrong else None


def _limit_options(vllm_config: VllmConfig) -> str | None:
    """Options of a limit, which are new in 0.11.1. None if no limit has options."""
    value = vllm_config.args.get("limit_mm_per_prompt")
    limits = value if isinstance(value, Mapping) else {}
    wrong = [name for name, item in limits.items() if isinstance(item, Mapping)]
    return f"--limit-mm-per-prompt: {wrong[0]} is not a number of items, which v0.11.0 takes alone" if wrong else None


TEXT_ALONE = frozenset({
    "CohereForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "FalconForCausalLM", "Gemma2ForCausalLM",
    "Gemma3ForCausalLM", "GemmaForCausalLM", "GPT2LMHeadModel", "GPTNeoXForCausalLM", "GraniteForCausalLM",
    "LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "OlmoForCausalLM", "Olmo2ForCausalLM",
    "OPTForCausalLM", "Phi3ForCausalLM", "PhiForCausalLM", "Qwen2ForCausalLM", "Qwen2MoeForCausalLM",
    "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Starcoder2ForCausalLM",
})  # fmt: skip
"""Classes that take text alone: none is in `_MULTIMODAL_MODELS` (vLLM model_executor/models/registry.py) of a release
up to 0.10.0."""


def _limits_of_text(vllm_config: VllmConfig) -> str | None:
    """A limit of images or videos for a model that takes text alone. None if the model may take more."""
    classes = vllm_config.model.architectures
    if not vllm_config.args.get("limit_mm_per_prompt") or not classes or not TEXT_ALONE.issuperset(classes):
        return None
    return f"--limit-mm-per-prompt is for multimodal models, {vllm_config.model.id} takes text alone"


def _pruning(vllm_config: VllmConfig) -> str | None:
    """A video pruning rate outside of [0, 1). None for a model without vision, and without a number."""
    rate = vllm_config.args.get("video_pruning_rate")
    if not vllm_config.model.vision_config or not isinstance(rate, int | float) or 0 <= rate < 1:
        return None
    return f"--video-pruning-rate {rate:g} is not within 0 … 1, without 1"


def _encoder_backend(vllm_config: VllmConfig) -> str | None:
    """An attention backend of the vision encoder that was removed. None for a model without vision, and for other
    backends."""
    name = str(vllm_config.args.get("mm_encoder_attn_backend"))
    removed = bool(vllm_config.model.vision_config) and name.upper() == "XFORMERS"
    return f"--mm-encoder-attn-backend {name} was removed" if removed else None


def _connector(vllm_config: VllmConfig) -> str | None:
    """A KV transfer role without a connector. None without a role."""
    value = vllm_config.args.get("kv_transfer_config")
    if not isinstance(value, Mapping) or value.get("kv_connector") or not value.get("kv_role"):
        return None
    return f"--kv-transfer-config has the kv_role {value['kv_role']!r} and no kv_connector"


def _connector_for_manager(vllm_config: VllmConfig) -> str | None:
    """A KV transfer role without a connector, which decides about the hybrid KV cache manager (config/vllm.py). None if
    --disable-hybrid-kv-cache-manager decides."""
    return None if "disable_hybrid_kv_cache_manager" in vllm_config.args else _connector(vllm_config)


ALLOCATOR, EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"
KEEPS_PAGES = ("enable_cumem_allocator", "enable_sleep_mode")
"""Arguments with which the KV cache stays on the same physical pages; sleep mode switches the allocator on."""


def _moving_pages(vllm_config: VllmConfig) -> str | None:
    """A KV connector, whose registered memory PyTorch's expandable segments may move. None without such segments, with
    an argument of `KEEPS_PAGES`, and without a connector or --kv-offloading-size."""
    config = vllm_config.args.get("kv_transfer_config")
    connector = config.get("kv_connector") if isinstance(config, Mapping) else None
    offloads = vllm_config.args.get("kv_offloading_size") is not None
    if EXPANDABLE not in vllm_config.engine.command.env.get(ALLOCATOR, "") or any(
        vllm_config.args.get(text) for text in KEEPS_PAGES
    ):
        return None
    what = f"the KV connector {connector}" if connector else "--kv-offloading-size" if offloads else None
    return f"{what} does not work with {ALLOCATOR}={EXPANDABLE}" if what else None


def _processor_cache(vllm_config: VllmConfig) -> str | None:
    """A negative size of the multimodal processor's cache. None for a model without vision."""
    size = vllm_config.args.get("mm_processor_cache_gb")
    if not vllm_config.model.vision_config or not isinstance(size, int | float) or size >= 0:
        return None
    return f"--mm-processor-cache-gb {size:g} is negative"


NO_LENGTH_OF_ZERO = Release(0, 23)
"""Since then 0 is rejected by itself (config/model.py validate_model_config_after; 0.19.1 takes it with a batch that is
given, 0.23 does not)."""


def _length(vllm_config: VllmConfig) -> str | None:
    """A --max-model-len below 1 that is not -1. None for 0 before `NO_LENGTH_OF_ZERO` if a batch is given."""
    length = vllm_config.number("max_model_len", 1)
    taken = vllm_config.release < NO_LENGTH_OF_ZERO and "max_num_batched_tokens" in vllm_config.args
    if length >= -1 and (length or taken):
        return None
    return f"--max-model-len {length} is neither a length nor -1, which means as long as fits"


def _structured_outputs_backend(vllm_config: VllmConfig) -> str | None:
    """An option of --structured-outputs-config that the chosen backend does not have. None without such an option."""
    config = vllm_config.args.get("structured_outputs_config")
    if not isinstance(config, Mapping):
        return None
    backend = config.get("backend", "auto")
    if config.get("disable_any_whitespace") is True and backend not in ("xgrammar", "guidance"):
        return (
            f"--structured-outputs-config: disable_any_whitespace needs the backend xgrammar or guidance, not {backend}"
        )
    if config.get("disable_additional_properties") is True and backend != "guidance":
        return f"--structured-outputs-config: disable_additional_properties needs the backend guidance, not {backend}"
    return None


def _state_blocks(vllm_config: VllmConfig) -> str | None:
    """A block size of states without prefix caching. None if prefix caching is on or unknown, and for a block of the
    whole context."""
    size = vllm_config.number("mamba_block_size", 0)
    if not size or size == vllm_config.resolved.budget.max_model_len or vllm_config.prefix_caching is not False:
        return None
    return f"--mamba-block-size {size} needs prefix caching, which is off"


def _as_it_is(vllm_config: VllmConfig) -> str | None:
    """Pooling without a conversion, with a model that generates text. None unless vLLM's own implementation runs a
    model whose classes all generate."""
    classes = vllm_config.model.architectures
    if (
        vllm_config.args.get("runner") != "pooling"
        or vllm_config.args.get("convert") != "none"
        or not vllm_config.in_vllm
        or not classes
    ):
        return None
    if not all(text.endswith("ForCausalLM") for text in classes):
        return None
    return f"--runner pooling with --convert none: {vllm_config.model.id} generates text and is not a pooling model"


def _levels(vllm_config: VllmConfig) -> str | None:
    """A compilation level without the CUDA graphs that state layers need. None for other models, in eager mode, and if
    the config sets cudagraph_mode."""
    config = vllm_config.args.get("compilation_config")
    level = config.get("level") if isinstance(config, Mapping) else None
    if vllm_config.settings.eager or level not in (0, 1, 2) or STATEFUL.isdisjoint(vllm_config.model.layer_types):
        return None
    if isinstance(config, Mapping) and "cudagraph_mode" in config:
        return None
    return f"compilation level {level} has no piecewise CUDA graphs, which a model with state layers takes by default"


def _twice(dest: str, config: str, key: str, release: Release) -> Check:
    """The check of an argument that is a key of a JSON argument, too (engine/arg_utils.py)."""

    def refusal(vllm_config: VllmConfig) -> str | None:
        given = vllm_config.args.get(config)
        if vllm_config.args.get(dest) is None or not isinstance(given, Mapping) or given.get(key) is None:
            return None
        flags = [f"--{name.replace('_', '-')}" for name in (dest, config)]
        return f"{flags[0]} and {key} in {flags[1]}: vLLM takes one of them"

    refusal.__doc__ = f"`{key}` in `--{config.replace('_', '-')}`, too."
    return Check(dest, release, None, refusal, ("leave one of them out",))


R = Release
LEAVE_OUT = change.leave_out()
CHECKS = (
    # engine/arg_utils.py create_engine_config, create_speculative_config
    _twice("cudagraph_capture_sizes", "compilation_config", "cudagraph_capture_sizes", R(0, 11, 2)),
    _twice("max_cudagraph_capture_size", "compilation_config", "max_cudagraph_capture_size", R(0, 11, 2)),
    _twice("enable_flashinfer_autotune", "kernel_config", "enable_flashinfer_autotune", R(0, 16)),
    _twice("spec_method", "speculative_config", "method", R(0, 22)),
    _twice("spec_model", "speculative_config", "model", R(0, 22)),
    _twice("spec_tokens", "speculative_config", "num_speculative_tokens", R(0, 22)),
    # config/vllm.py _set_cudagraph_sizes
    Check("compilation_config", R(0, 11, 1), None, _captures, ("leave the sizes out",),
          variables=(NO_COMPILATION,)),
    Check("cudagraph_capture_sizes", R(0, 11, 1), None, _captures, (LEAVE_OUT,),
          variables=(NO_COMPILATION,)),
    Check("max_cudagraph_capture_size", R(0, 11, 1), None, _captures, (LEAVE_OUT, change.flags("--enforce-eager")),
          variables=(NO_COMPILATION,)),
    # config/profiler.py, config/observability.py
    Check("profiler_config", R(0, 13), None, _profiler, ('"torch_profiler_dir": "/tmp/profile"',)),
    Check("collect_detailed_traces", R(0, 11, 1), None, _traces, (LEAVE_OUT,)),
    # config/model.py ModelConfig, config/vllm.py, config/multimodal.py
    Check("hf_overrides", R(0, 11), None, _overrides, ('--hf-overrides \'{"KEY": VALUE}\'',)),
    Check("kv_cache_dtype", R(0, 33), None, _cache_dtype, (LEAVE_OUT,), of_model=True, of_gpu=True),
    Check("disable_sliding_window", R(0, 8, 5), R(0, 12), _window, (LEAVE_OUT,), of_model=True),
    Check("runner", R(0, 10), None, _generates, (change.flags("--runner pooling"),), of_model=True),
    Check("task", R(0, 8, 5), None, _generates, (LEAVE_OUT,), of_model=True),
    Check("limit_mm_per_prompt", R(0, 11, 1), None, _limits, (LEAVE_OUT,), of_model=True),
    # 0.11.0 config/multimodal.py MultiModalConfig
    Check("limit_mm_per_prompt", R(0, 11), R(0, 11, 1), _limit_options, ("a number of items",)),
    # config.py ModelConfig._init_multimodal_config
    Check("limit_mm_per_prompt", R(0, 6, 3), R(0, 10, 1), _limits_of_text, (LEAVE_OUT,), of_model=True),
    Check("video_pruning_rate", R(0, 11, 1), None, _pruning, (LEAVE_OUT,), of_model=True),
    Check("mm_processor_cache_gb", R(0, 11, 1), None, _processor_cache, (LEAVE_OUT,), of_model=True),
    Check("mm_encoder_attn_backend", R(0, 12), None, _encoder_backend, (LEAVE_OUT,), of_model=True),
    Check("kv_transfer_config", R(0, 27), R(0, 33), _connector_for_manager, ('"kv_connector": "NixlConnector"',)),
    Check("kv_transfer_config", R(0, 33), None, _connector, ('"kv_connector": "NixlConnector"',)),
    # config/vllm.py _verify_kv_transfer_compat (0.19.1 has no such check)
    Check("kv_transfer_config", R(0, 22), None, _moving_pages,
          (f"leave {EXPANDABLE} out", change.flags("--enable-cumem-allocator")), variables=(ALLOCATOR,)),
    Check("kv_offloading_size", R(0, 22), None, _moving_pages,
          (f"leave {EXPANDABLE} out", change.flags("--enable-cumem-allocator")), variables=(ALLOCATOR,)),
    # config/model.py, config/scheduler.py (0 makes a default batch of 0 tokens)
    Check("max_model_len", R(0, 14), None, _length, (LEAVE_OUT, change.flags("--max-model-len auto"))),
    # config/structured_outputs.py, config/vllm.py validate_mamba_block_size, config/model.py _get_convert_type
    Check("structured_outputs_config", R(0, 11), None, _structured_outputs_backend, ('"backend": "guidance"',)),
    Check("mamba_block_size", R(0, 11, 1), None, _state_blocks, (change.flags("--enable-prefix-caching"),),
          of_model=True),
    Check("runner", R(0, 11), None, _as_it_is, (change.without("--convert"),), of_model=True),
    # config/__init__.py __post_init__
    Check("compilation_config", R(0, 11), R(0, 11, 1), _levels, ("leave the level out",), of_model=True),
)  # fmt: skip
