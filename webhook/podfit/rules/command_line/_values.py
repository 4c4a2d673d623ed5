"""Single values that vLLM rejects for this model: rows as in `_configuration`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.rules.command_line._configuration import ENCODER_ARCHITECTURES, Check, Given
from podfit.vllm import change
from podfit.vllm.memory.kv_releases import STATEFUL
from podfit.vllm.release import Release

CHANGES_GRAPHS = frozenset({"mode", "level", "use_cudagraph", "full_cuda_graph", "pass_config"})
"""Keys of the compilation config that may switch CUDA graphs off, or change their sizes (sequence parallelism)."""
NO_COMPILATION = "TORCH_COMPILE_DISABLE"
"""1 switches CUDA graphs off with the compilation (vLLM 0.20 … 0.33 config/vllm.py)."""


def _captures(it: Given) -> str | None:
    """CUDA graph capture sizes that contradict each other. None if CUDA graphs are or may be off, for values of another
    type, and for sizes above a default batch."""
    config = it.args.get("compilation_config")
    config = config if isinstance(config, Mapping) else {}
    if _may_lack_graphs(it, config):
        return None
    sizes = it.args.get("cudagraph_capture_sizes", config.get("cudagraph_capture_sizes"))
    most = it.args.get("max_cudagraph_capture_size", config.get("max_cudagraph_capture_size"))
    if isinstance(sizes, list) and not sizes:
        return "cudagraph_capture_sizes is empty: CUDA graphs need one size at least"
    if not isinstance(most, int) or isinstance(most, bool):
        return None
    if most < 1:
        return f"max_cudagraph_capture_size {most}: CUDA graphs need 1 at least"
    if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes):
        return None
    tokens = it.settings.batch.max_num_batched_tokens
    if "max_num_batched_tokens" not in it.args and max(sizes) > tokens:
        return None  # sizes above the batch are left out, and its default depends on the GPU
    largest = max((size for size in sizes if size <= tokens), default=0)
    if largest == most:
        return None
    return f"max_cudagraph_capture_size {most} is not the largest of cudagraph_capture_sizes, {largest}"


def _may_lack_graphs(it: Given, config: Mapping[str, Any]) -> bool:
    """True if CUDA graphs are off, or if `CHANGES_GRAPHS` or `NO_COMPILATION` may switch them off or change their
    sizes."""
    level, mode = it.args.get("optimization_level"), str(config.get("cudagraph_mode", "")).upper()
    if it.settings.eager or level in (0, "0") or mode in ("NONE", "0"):
        return True
    return NO_COMPILATION in it.engine.command.env or not CHANGES_GRAPHS.isdisjoint(config)


def _profiler(it: Given) -> str | None:
    """The torch profiler without a directory. None for another profiler."""
    config = it.args.get("profiler_config")
    if not isinstance(config, Mapping) or config.get("profiler") != "torch" or config.get("torch_profiler_dir"):
        return None
    return '--profiler-config: the profiler "torch" needs torch_profiler_dir'


def _traces(it: Given) -> str | None:
    """Detailed traces without an endpoint. None without such traces."""
    if not it.args.get("collect_detailed_traces") or it.args.get("otlp_traces_endpoint"):
        return None
    return "--collect-detailed-traces needs --otlp-traces-endpoint"


def _overrides(it: Given) -> str | None:
    """Overrides of config.json that are not a JSON object. None if they are."""
    value = it.args.get("hf_overrides")
    return None if isinstance(value, Mapping) else f"--hf-overrides {value!r} is not a JSON object"


def _cache_dtype(it: Given) -> str | None:
    """A 16-bit KV cache of another dtype than the model's. None for another kind of KV cache, and if the model's dtype
    is unknown."""
    text = it.settings.types.kv_cache_dtype
    if text not in ("bfloat16", "float16") or it.dtype not in ("bfloat16", "float16", "float32") or it.dtype == text:
        return None
    return f"--kv-cache-dtype {text} is not the model's dtype here, {it.dtype}"


def _window(it: Given) -> str | None:
    """--disable-sliding-window of a model with RoPE scaling. None without the argument, without scaling, and for the
    kinds of scaling that vLLM's check passes over."""
    scaling = it.model.config.get("rope_scaling") or it.model.config.get("rope_parameters")
    kind = scaling.get("rope_type") or scaling.get("type") if isinstance(scaling, Mapping) else None
    unscaled = kind in (None, "su", "longrope", "llama3", "default") or "gemma3" in (it.model.model_type or "")
    if not it.args.get("disable_sliding_window") or unscaled:
        return None
    return f"--disable-sliding-window is not supported for a model with RoPE scaling ({kind})"


def _generates(it: Given) -> str | None:
    """An encoder that is asked to generate text. None without `generate`, outside of vLLM's own implementation, and if
    a class may be no encoder's."""
    is_generator = it.args.get("runner") == "generate" or it.args.get("task") == "generate"
    classes = it.model.architectures
    if (
        not is_generator
        or not classes
        or not it.in_vllm
        or not all(text.startswith(ENCODER_ARCHITECTURES) for text in classes)
    ):
        return None
    return f"{it.model.id} is an encoder: it generates no text"


def _limits(it: Given) -> str | None:
    """A negative number of images or videos. None for a model without vision."""
    value = it.args.get("limit_mm_per_prompt")
    if not it.model.vision_config or not isinstance(value, Mapping):
        return None
    counts = {name: item.get("count") if isinstance(item, Mapping) else item for name, item in value.items()}
    wrong = [name for name, item in counts.items() if isinstance(item, int) and item < 0]
    return f"--limit-mm-per-prompt: {wrong[0]} is {counts[wrong[0]]}, 0 at least" if wrong else None


def _limit_options(it: Given) -> str | None:
    """Options of a limit, which are new in 0.11.1. None if no limit has options."""
    value = it.args.get("limit_mm_per_prompt")
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


def _limits_of_text(it: Given) -> str | None:
    """A limit of images or videos for a model that takes text alone. None if the model may take more."""
    classes = it.model.architectures
    if not it.args.get("limit_mm_per_prompt") or not classes or not TEXT_ALONE.issuperset(classes):
        return None
    return f"--limit-mm-per-prompt is for multimodal models, {it.model.id} takes text alone"


def _pruning(it: Given) -> str | None:
    """A video pruning rate outside of [0, 1). None for a model without vision, and without a number."""
    rate = it.args.get("video_pruning_rate")
    if not it.model.vision_config or not isinstance(rate, int | float) or 0 <= rate < 1:
        return None
    return f"--video-pruning-rate {rate:g} is not within 0 … 1, without 1"


def _encoder_backend(it: Given) -> str | None:
    """An attention backend of the vision encoder that was removed. None for a model without vision, and for other
    backends."""
    name = str(it.args.get("mm_encoder_attn_backend"))
    removed = bool(it.model.vision_config) and name.upper() == "XFORMERS"
    return f"--mm-encoder-attn-backend {name} was removed" if removed else None


def _connector(it: Given) -> str | None:
    """A KV transfer role without a connector. None without a role."""
    value = it.args.get("kv_transfer_config")
    if not isinstance(value, Mapping) or value.get("kv_connector") or not value.get("kv_role"):
        return None
    return f"--kv-transfer-config has the kv_role {value['kv_role']!r} and no kv_connector"


def _connector_for_manager(it: Given) -> str | None:
    """A KV transfer role without a connector, which decides about the hybrid KV cache manager (config/vllm.py). None if
    --disable-hybrid-kv-cache-manager decides."""
    return None if "disable_hybrid_kv_cache_manager" in it.args else _connector(it)


ALLOCATOR, EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"
KEEPS_PAGES = ("enable_cumem_allocator", "enable_sleep_mode")
"""Arguments with which the KV cache stays on the same physical pages; sleep mode switches the allocator on."""


def _moving_pages(it: Given) -> str | None:
    """A KV connector, whose registered memory PyTorch's expandable segments may move. None without such segments, with
    an argument of `KEEPS_PAGES`, and without a connector or --kv-offloading-size."""
    config = it.args.get("kv_transfer_config")
    connector = config.get("kv_connector") if isinstance(config, Mapping) else None
    offloads = it.args.get("kv_offloading_size") is not None
    if EXPANDABLE not in it.engine.command.env.get(ALLOCATOR, "") or any(it.args.get(text) for text in KEEPS_PAGES):
        return None
    what = f"the KV connector {connector}" if connector else "--kv-offloading-size" if offloads else None
    return f"{what} does not work with {ALLOCATOR}={EXPANDABLE}" if what else None


def _processor_cache(it: Given) -> str | None:
    """A negative size of the multimodal processor's cache. None for a model without vision."""
    size = it.args.get("mm_processor_cache_gb")
    if not it.model.vision_config or not isinstance(size, int | float) or size >= 0:
        return None
    return f"--mm-processor-cache-gb {size:g} is negative"


NO_LENGTH_OF_ZERO = Release(0, 23)
"""Since then 0 is rejected by itself (config/model.py validate_model_config_after; 0.19.1 takes it with a batch that is
given, 0.23 does not)."""


def _length(it: Given) -> str | None:
    """A --max-model-len below 1 that is not -1. None for 0 before `NO_LENGTH_OF_ZERO` if a batch is given."""
    length = it.number("max_model_len", 1)
    taken = it.release < NO_LENGTH_OF_ZERO and "max_num_batched_tokens" in it.args
    if length >= -1 and (length or taken):
        return None
    return f"--max-model-len {length} is neither a length nor -1, which means as long as fits"


def _structured_outputs_backend(it: Given) -> str | None:
    """An option of --structured-outputs-config that the chosen backend does not have. None without such an option."""
    config = it.args.get("structured_outputs_config")
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


def _state_blocks(it: Given) -> str | None:
    """A block size of states without prefix caching. None if prefix caching is on or unknown, and for a block of the
    whole context."""
    size = it.number("mamba_block_size", 0)
    if not size or size == it.resolved.budget.max_model_len or it.prefix_caching is not False:
        return None
    return f"--mamba-block-size {size} needs prefix caching, which is off"


def _as_it_is(it: Given) -> str | None:
    """Pooling without a conversion, with a model that generates text. None unless vLLM's own implementation runs a
    model whose classes all generate."""
    classes = it.model.architectures
    if it.args.get("runner") != "pooling" or it.args.get("convert") != "none" or not it.in_vllm or not classes:
        return None
    if not all(text.endswith("ForCausalLM") for text in classes):
        return None
    return f"--runner pooling with --convert none: {it.model.id} generates text and is not a pooling model"


def _levels(it: Given) -> str | None:
    """A compilation level without the CUDA graphs that state layers need. None for other models, in eager mode, and if
    the config sets cudagraph_mode."""
    config = it.args.get("compilation_config")
    level = config.get("level") if isinstance(config, Mapping) else None
    if it.settings.eager or level not in (0, 1, 2) or STATEFUL.isdisjoint(it.model.layer_types):
        return None
    if isinstance(config, Mapping) and "cudagraph_mode" in config:
        return None
    return f"compilation level {level} has no piecewise CUDA graphs, which a model with state layers takes by default"


def _twice(dest: str, config: str, key: str, release: Release) -> Check:
    """The check of an argument that is a key of a JSON argument, too (engine/arg_utils.py)."""

    def refusal(it: Given) -> str | None:
        given = it.args.get(config)
        if it.args.get(dest) is None or not isinstance(given, Mapping) or given.get(key) is None:
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
