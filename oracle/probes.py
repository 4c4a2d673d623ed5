"""What vLLM runs after its configuration stage, one check at a time: the model's class, its tokenizer, its KV cache.

A probe gets the configuration that vLLM made, and runs vLLM's own code with it. The code before and after the check
needs weights, files or a GPU, and is left out.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from oracle import layers


def build(config: Any) -> None:
    """Build all layers without weights (`oracle.layers`); rotary embeddings ask for the index of the GPU."""
    with patch("torch.accelerator.current_device_index", lambda: 0):
        layers.build(config)


def make(config: Any) -> None:
    """Begin to make the model: its class is called, as the loader does."""
    model_class(config)(vllm_config=config, prefix="")


def make_without_parent(config: Any) -> None:
    """The same without the parents of the class, whose layers need a GPU."""
    made = model_class(config)
    with patch.object(made.__mro__[1], "__init__", lambda *_, **__: None):
        made(vllm_config=config, prefix="")


def tokenize(config: Any) -> None:
    """Ask the model's processor for its tokenizer. No files are read: one of the mode that is set is there."""
    module: Any = sys.modules[model_class(config).__module__]
    mistral = config.model_config.tokenizer_mode == "mistral"
    tokenizer = object.__new__(module.MistralTokenizer) if mistral else object()
    (info,) = [
        value for name, value in vars(module).items() if name in ("PixtralProcessingInfo", "VoxtralProcessingInfo")
    ]
    context = SimpleNamespace(ctx=SimpleNamespace(model_config=config.model_config))
    with patch.object(module, "cached_tokenizer_from_config", lambda *_: tokenizer):
        info.get_tokenizer(context)


def store_in_latent_cache(config: Any) -> None:
    """Choose the dtype of DeepSeek-V4's KV cache, for the class of attention that CUDA has by default."""
    sys.meta_path.append(layers.Compilers())
    attention: Any = importlib.import_module("vllm.models.deepseek_v4.attention")
    attention._resolve_dsv4_kv_cache_dtype(True, config.cache_config.cache_dtype, config.cache_config)


def model_class(config: Any) -> Any:
    """The class of the model that vLLM resolves."""
    models: Any = importlib.import_module("vllm.model_executor.models")
    known, names = models.ModelRegistry.resolve_model_cls, config.model_config.architectures
    made, _ = known(names, config.model_config) if known.__code__.co_argcount > 2 else known(names)
    return made


PROBES: Mapping[str, Callable[[Any], None]] = {
    "build": build,
    "make": make,
    "make-without-parent": make_without_parent,
    "tokenize": tokenize,
    "store-in-latent-cache": store_in_latent_cache,
}


def run(name: str, config: Any) -> None:
    """Run a probe. Raises what vLLM's code raises."""
    settings: Any = importlib.import_module("vllm.config")
    with settings.set_current_vllm_config(config):
        PROBES[name](config)
