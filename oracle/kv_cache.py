"""Runs a release's own KV-cache code on its own configuration: groups, blocks, the check and the printed numbers.

What is written here, after each release's gpu_model_runner.get_kv_cache_spec, is the spec of each layer of models whose
layers are simple; `layers` asks the others' own. Block sizes of hybrids, groups, the check and the estimate are vLLM's.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from types import ModuleType
from typing import Any

from oracle import layers as own_layers

STATE = ("linear_attention", "mamba")
PRINTED = {
    "tokens": re.compile(r"GPU KV cache size: ([\d,]+) tokens"),
    "concurrency": re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x"),
}
ESTIMATED = re.compile(r"estimated maximum model length is (\d+)")


class Lines(logging.Handler):
    """Keeps what vLLM logs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one line."""
        self.lines.append(record.getMessage())


def module(name: str) -> ModuleType | None:
    """The module, None where the release has none."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def model_class(config: Any) -> Any:
    """The model's class, which knows the shape of its state."""
    registry = importlib.import_module("vllm.model_executor.models").ModelRegistry
    model = config.model_config
    more = {"model_config": model} if "model_config" in inspect.signature(registry.resolve_model_cls).parameters else {}
    return registry.resolve_model_cls(model.architectures, **more)[0]


def align(config: Any) -> None:
    """The block size of the FlashAttention backend; of a hybrid, from 0.20 on, aligned with its state's page."""
    platform = importlib.import_module("vllm.platforms").current_platform
    kind = type(platform)
    mamba: Any = module("vllm.model_executor.layers.mamba.abstract")
    if hasattr(mamba, "get_mamba_prefill_checkpoint_alignment"):  # asks the layers, of which there are none here
        mamba.get_mamba_prefill_checkpoint_alignment = lambda _: checkpoint_alignment(config)
    if hasattr(kind, "_align_hybrid_block_size"):
        backend = importlib.import_module("vllm.v1.attention.backends.flash_attn").FlashAttentionBackend
        kind._find_non_ssm_backend = classmethod(lambda cls, _: backend)
        kind._find_non_ssm_backends = classmethod(lambda cls, _: [backend])
        kind.update_block_size_for_backend(config)
    if getattr(config.cache_config, "kv_cache_layout", "") is None:
        config.cache_config.kv_cache_layout = "LBNHC"  # the layout of FlashAttention; the engine core chooses from 0.30
    if config.cache_config.block_size is None:
        config.cache_config.block_size = 16


def checkpoint_alignment(config: Any) -> int | None:
    """Tokens of which Gated DeltaNet's checkpoints are a multiple, None where it exports none: since 0.33, where it
    prefills with FlashInfer. With CUDA 13, as in the image, whatever CUDA this machine's torch is built for."""
    text = config.model_config.hf_text_config
    layer: Any = module("vllm.model_executor.layers.mamba.gdn.qwen_gdn_linear_attn")
    tokens = getattr(layer, "FLASHINFER_GDN_CHECKPOINT_ALIGNMENT", None)
    if tokens is None or not hasattr(text, "linear_key_head_dim"):
        return None
    platform = importlib.import_module("vllm.platforms").current_platform
    type(platform).get_cuda_runtime_major = classmethod(lambda cls: 13)
    return int(tokens) if layer._resolve_gdn_prefill_backend(config)[1] == "flashinfer" else None


def specs(config: Any, kinds: list[str]) -> dict[str, Any]:
    """Layer → its KVCacheSpec."""
    face = importlib.import_module("vllm.v1.kv_cache_interface")
    model, cache, text = config.model_config, config.cache_config, config.model_config.hf_text_config
    utils = module("vllm.utils.torch_utils") or importlib.import_module("vllm.utils")
    dtype = model.dtype if cache.cache_dtype == "auto" else utils.STR_DTYPE_TO_TORCH_DTYPE[cache.cache_dtype]
    common = {
        "block_size": cache.block_size,
        "num_kv_heads": model.get_num_kv_heads(config.parallel_config),
        "head_size": model.get_head_size(),
        "dtype": dtype,
    }

    def make(name: str, **more: Any) -> Any:
        kind = getattr(face, name, None)
        if kind is None:  # before 0.8.3 no windows, before 0.10 no chunks
            kind, more = face.FullAttentionSpec, {}
        mla = {"use_mla": False} if "use_mla" in inspect.signature(kind).parameters else {}  # up to 0.10.2
        return kind(**common, **mla, **more)

    state: dict[str, Any] = {}
    if any(kind in STATE for kind in kinds):
        named = model_class(config)
        possible = {
            "shapes": tuple(named.get_mamba_state_shape_from_config(config)),
            "dtypes": tuple(named.get_mamba_state_dtype_from_config(config)),
            "page_size_padded": getattr(cache, "mamba_page_size_padded", None),
            "block_size": getattr(cache, "mamba_block_size", None) or model.max_model_len,
            "mamba_cache_mode": getattr(cache, "mamba_cache_mode", None),
        }
        known = inspect.signature(face.MambaSpec).parameters
        if "mamba" in kinds and possible["mamba_cache_mode"] == "align":
            mixer = inspect.getsource(importlib.import_module("vllm.model_executor.layers.mamba.mamba_mixer2"))
            if "num_prefill_checkpoint_blocks=1" in mixer:  # in its get_kv_cache_spec, since 0.32
                possible["num_prefill_checkpoint_blocks"] = 1
        if possible["mamba_cache_mode"] == "align" and checkpoint_alignment(config):
            possible["num_prefill_checkpoint_blocks"] = 1
        state = {name: value for name, value in possible.items() if name in known}
    window = getattr(text, "sliding_window", None) or getattr(text, "interleaved_sliding_window", None)
    made = {
        "full_attention": lambda: make("FullAttentionSpec"),
        "attention": lambda: make("FullAttentionSpec"),
        "sliding_attention": lambda: (
            make("SlidingWindowSpec", sliding_window=window) if window else make("FullAttentionSpec")
        ),
        "chunked_attention": lambda: make("ChunkedLocalAttentionSpec", attention_chunk_size=text.attention_chunk_size),
        **dict.fromkeys(STATE, lambda: face.MambaSpec(**state)),
    }
    return {f"model.layers.{index}": made[kind]() for index, kind in enumerate(kinds)}


def answer(config: Any, kinds: list[str] | None, memory: int) -> dict[str, Any]:
    """Whether vLLM starts with this many bytes of KV cache memory, and what it prints. Without kinds of layers, the
    model's own layers are built."""
    log, lines = logging.getLogger("vllm"), Lines()
    handlers, level = log.handlers, log.level
    log.handlers, log.level = [lines], logging.INFO
    try:
        error = None
        if kinds is None:
            layers = own_layers.build(config)
        else:
            align(config)
            layers = specs(config, kinds)
        try:
            blocks = plan(config, layers, memory)
        except (ValueError, NotImplementedError) as failed:
            error, blocks = str(failed), None
    finally:
        log.handlers, log.level = handlers, level
    out: dict[str, Any] = {"passes": error is None, "error": error, "num_blocks": blocks}
    for name, pattern in PRINTED.items():
        hit = next((hit for line in lines.lines if (hit := pattern.search(line))), None)
        out[name] = float(hit[1].replace(",", "")) if hit else None
    estimated = ESTIMATED.search(error or "")
    return {**out, "longest": int(estimated[1]) if estimated else None}


def plan(config: Any, layers: dict[str, Any], memory: int) -> int:
    """The number of blocks, as v1/engine/core.py of each release asks for it; ValueError where it is too small."""
    utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
    planning = module("vllm.v1.core.kv_cache_planning") or utils
    managers = (
        importlib.import_module("vllm.v1.core.single_type_kv_cache_manager")
        if hasattr(module("vllm.v1.core.single_type_kv_cache_manager"), "register_all_kvcache_specs")
        else None
    )
    if managers:
        managers.register_all_kvcache_specs(config)
    if hasattr(planning, "get_global_kv_cache_groups"):
        groups = planning.get_global_kv_cache_groups(config, [layers])
        found = planning.get_kv_cache_configs(config, [layers], [memory], groups)
    elif hasattr(planning, "get_kv_cache_configs"):
        several = "available_memory" in (known := inspect.signature(planning.get_kv_cache_configs).parameters) and (
            "list" in str(known["available_memory"].annotation)
        )
        found = planning.get_kv_cache_configs(config, [layers], [memory] if several else memory)
    else:
        found = [utils.get_kv_cache_config(config, layers, memory)]
        utils.unify_kv_cache_configs(found)
    if hasattr(utils, "update_kv_cache_capacity"):
        utils.update_kv_cache_capacity(config, utils.generate_scheduler_kv_cache_config(found))
    return int(found[0].num_blocks)
