"""The values that vLLM will use for the arguments that a configuration resolves, under their own names."""

from __future__ import annotations

from typing import Any

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Gpu
from podfit.vllm.memory import dtype, kv_releases
from podfit.vllm.memory.kv_specs import CACHED_AT_EACH_BLOCK
from podfit.vllm.memory.settings import BY_POOLER, ResolvedArguments, Settings
from podfit.vllm.model import Model

BY_DEVICE = ("max_num_seqs", "max_num_batched_tokens")
"""Arguments whose defaults depend on the GPU."""


def values(
    resolved: ResolvedArguments, args: EngineArgs, model: Model, gpu: Gpu | None, *, known: bool
) -> dict[str, Any]:
    """Argument → the value that vLLM will use; None if unknown. `known`: the GPU's memory is known; without it, the
    defaults of BY_DEVICE are unknown."""
    settings = resolved.settings
    entries: dict[str, Any] = {
        "max_model_len": resolved.budget.max_model_len,
        "max_num_seqs": settings.batch.max_num_seqs,
        "max_num_batched_tokens": settings.batch.max_num_batched_tokens,
        "enable_chunked_prefill": settings.batch.chunked and not _is_overruled(settings),
        "enable_prefix_caching": _prefix_caching(settings, args, model),
        "dtype": dtype.resolved(args.given.get("dtype"), model, gpu, settings.release, pooling=settings.pooling),
        "gpu_memory_utilization": resolved.budget.utilization,
        "enforce_eager": settings.eager,
        "kv_cache_dtype": settings.types.kv_cache_dtype,
        "tensor_parallel_size": settings.parallel.tp,
        "pipeline_parallel_size": settings.parallel.pp,
        "data_parallel_size": settings.parallel.dp,
    }
    unknown = [name for name in entries if name in args.unresolved]
    if not known:
        unknown += [name for name in BY_DEVICE if name not in args.given]
    return {**entries, **dict.fromkeys(unknown)}


def _prefix_caching(settings: Settings, args: EngineArgs, model: Model) -> bool | None:
    """The final value of `--enable-prefix-caching` (vLLM 0.8.5, 0.10.2, 0.11.0 engine/arg_utils.py _set_default_args;
    0.12 … 0.33 config/model.py is_prefix_caching_supported, models/config.py)."""
    given, release = settings.attention.prefix_caching, settings.release
    if not settings.v1:  # engine/arg_utils.py: V0 switches it off for models with a vision tower
        return bool(given) and not model.vision_config
    states = kv_releases.keeps_states(model)
    if release < kv_releases.STATE_PER_BLOCK and (states or args.given.get("enable_prompt_embeds")):
        return False
    if _is_overruled(settings):
        return False
    if states and release < kv_releases.MODES and model.model_type not in CACHED_AT_EACH_BLOCK:
        return False  # models/config.py MambaModelConfig
    if given is not None:
        return given
    if settings.batch.whole_prompts:  # the default is off for a pooler that needs the whole prompt
        return False
    return not states or release >= kv_releases.STATES_CACHED


def _is_overruled(settings: Settings) -> bool:
    """True if vLLM switches chunked prefill and prefix caching off in any case."""
    return settings.v1 and settings.batch.whole_prompts and settings.release < BY_POOLER
