"""Builds a model's own layers without weights, and asks each for the spec of its KV cache.

vLLM's classes run as they are, on torch's meta device: every tensor has a shape and no memory. What would need a
driver, a compiled operator or a compiler of kernels does nothing. From 0.33 on; earlier classes need more of a GPU.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

FIRST = (0, 33)
"""The first release whose layers are built."""
COMPILERS = re.compile(r"(cutlass|cuda|deep_gemm|quack)(\..*)?")
"""Libraries that compile kernels. Models import them while their layers are made, and call them later."""


class Compilers(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module that accepts everything in the place of a compiler of kernels."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A stand-in for a compiler, else None."""
        return (
            importlib.machinery.ModuleSpec(fullname, self, is_package=True) if COMPILERS.fullmatch(fullname) else None
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """A module of which each name can be called, and decorates."""
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs."""


def on_meta(torch: Any) -> Any:
    """A mode in which a tensor that asks for a GPU gets the meta device, and stays there."""

    class Meta(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if "cuda" in str(kwargs.get("device", "")):
                kwargs["device"] = "meta"
            return args[0] if func in (torch.Tensor.to, torch.Tensor.cuda) else func(*args, **kwargs)

    return Meta()


@contextlib.contextmanager
def absent_operators(torch: Any) -> Iterator[None]:
    """Compiled operators that are not there do nothing, while layers are made. Not before: modules check for them."""
    namespace = type(torch.ops._C)
    real: Callable[[Any, str], Any] = namespace.__getattr__

    def operator(self: Any, name: str) -> Any:
        try:
            return real(self, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return lambda *_, **__: None

    namespace.__getattr__ = operator
    try:
        yield
    finally:
        namespace.__getattr__ = real


def prepare(torch: Any, tensor_parallel: int) -> None:
    """One process that takes itself for a rank of this many: its layers have the sizes of one rank."""
    if not any(isinstance(finder, Compilers) for finder in sys.meta_path):
        sys.meta_path.append(Compilers())
    for name in ("vllm._custom_ops", "vllm._aiter_ops", "vllm.utils.deep_gemm"):
        importlib.import_module(name)
    for module in [one for name, one in sys.modules.items() if name.startswith("vllm")]:
        if "has_deep_gemm" in vars(module):  # the image has it, and layers check for it
            vars(module)["has_deep_gemm"] = lambda: True
    torch.cuda.Event = torch.cuda.Stream = torch.cuda.current_stream = MagicMock()
    state: Any = importlib.import_module("vllm.distributed.parallel_state")
    if not torch.distributed.is_initialized():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        state.init_distributed_environment(1, 0, address, 0, backend="gloo")
    state.destroy_model_parallel()
    state.initialize_model_parallel(1, 1)
    state.get_tp_group().world_size = tensor_parallel
    workspace: Any = importlib.import_module("vllm.v1.worker.workspace")
    workspace.init_workspace_manager(torch.device("meta"))


def build(config: Any) -> dict[str, Any]:
    """Layer → its KVCacheSpec, as the worker collects them; the block size and the layout are then chosen."""
    torch: Any = importlib.import_module("torch")
    settings: Any = importlib.import_module("vllm.config")
    backends: Any = importlib.import_module("vllm.v1.attention.backends.utils")
    models: Any = importlib.import_module("vllm.model_executor.models")
    dtypes: Any = importlib.import_module("vllm.utils.torch_utils")
    worker: Any = importlib.import_module("vllm.v1.worker.gpu.attn_utils")
    with settings.set_current_vllm_config(config):
        prepare(torch, config.parallel_config.tensor_parallel_size)
        model = config.model_config
        made, _ = models.ModelRegistry.resolve_model_cls(model.architectures, model)
        with torch.device("meta"), on_meta(torch), dtypes.set_default_torch_dtype(model.dtype), absent_operators(torch):
            made(vllm_config=config, prefix="")
        type(importlib.import_module("vllm.platforms").current_platform).update_block_size_for_backend(config)
        specs: dict[str, Any] = worker.get_kv_cache_spec(config)
        context = config.compilation_config.static_forward_context
        used = dict.fromkeys(context[name].get_attn_backend() for name in specs)
        layouts = [layout.name for layout in backends.get_supported_kv_cache_layouts(used)]
        backends.resolve_kv_cache_layout(config, [layouts], specs.values())
    return specs
