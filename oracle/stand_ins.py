"""What vLLM asks of a machine with GPUs, answered without one; see docs/oracle.md for the list.

vLLM's Python runs as it is. Only NVML, the calls of torch.cuda that would need a driver, the compiled modules and the
libraries' versions are answered here. A library that is not installed stays absent: vLLM chooses by what is there.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

COMPILED = re.compile(
    r"vllm\.(_\w*C(_\w+)?|_C\w*|cumem_allocator|spinloop|_rs\w*)"
    r"|vllm\.vllm_flash_attn(\.\w+)*|vllm\.third_party\.flashmla\.flash_mla_interface"
)
"""Extension modules of the wheel, and what its build adds in Python: not among the sources of each release."""
NVML = ("pynvml", "vllm.third_party.pynvml")
HOST_MEMORY = 1 << 40
"""Bytes of host memory: more than --swap-space or --cpu-offload-gb of any case asks for."""


SHARED_MEMORY = 101_376
"""Bytes of shared memory per block."""


@dataclass(frozen=True)
class Gpu:
    """What NVML and CUDA say of each GPU of the machine."""

    name: str
    memory: int
    """Bytes."""
    capability: tuple[int, int]
    count: int = 8


class Absent(ModuleType):
    """A module of which each name is a class, if it is capitalized, or a function that raises."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        if name[0].isupper():
            return type(name, (), {})

        def absent(*_: Any, **__: Any) -> Any:
            raise RuntimeError(f"stand-in for {self.__name__}.{name} was called")

        return absent


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds NVML's module, and a stand-in for each compiled module of vLLM."""

    def __init__(self, nvml: ModuleType) -> None:
        self.nvml = nvml

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A stand-in for a compiled module or NVML, else None."""
        missing = COMPILED.fullmatch(fullname) and importlib.machinery.PathFinder.find_spec(fullname, path) is None
        stands_in = fullname in NVML or missing
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if stands_in else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """NVML's answers, or a module that answers nothing."""
        return self.nvml if spec.name in NVML else Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Makes it a package: nothing runs."""
        module.__path__ = []


def nvml(gpu: Gpu) -> ModuleType:
    """A module that answers as NVML does on a machine with these GPUs."""
    module = ModuleType("pynvml")
    module.__file__ = "pynvml.py"

    class NVMLError(Exception):
        """Never raised."""

    answers: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: gpu.count,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetHandleByUUID": lambda uuid: 0,
        "nvmlDeviceGetIndex": lambda handle: handle,
        "nvmlDeviceGetName": lambda handle: gpu.name,
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle:08d}",
        "nvmlDeviceGetCudaComputeCapability": lambda handle: gpu.capability,
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=gpu.memory, free=gpu.memory, used=0),
        "nvmlDeviceGetP2PStatus": lambda *pair: 0,
        "nvmlSystemGetDriverVersion": lambda: "580.95.05",
        "nvmlSystemGetCudaDriverVersion": lambda: 13000,
        "NVML_P2P_STATUS_OK": 0,
        "NVML_P2P_CAPS_INDEX_NVLINK": 0,
        "NVML_SUCCESS": 0,
        "NVMLError": NVMLError,
        "NVMLError_NotSupported": NVMLError,
    }
    for name, value in answers.items():
        setattr(module, name, value)
    return module


def cuda(torch: Any, gpu: Gpu) -> None:
    """Answers the questions of torch.cuda that need a driver."""
    properties = SimpleNamespace(
        name=gpu.name, total_memory=gpu.memory, major=gpu.capability[0], minor=gpu.capability[1],
        multi_processor_count=100, is_integrated=False, shared_memory_per_block_optin=SHARED_MEMORY,
    )  # fmt: skip
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: False,
        "device_count": lambda: gpu.count,
        "_device_count_nvml": lambda: gpu.count,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: gpu.name,
        "get_device_capability": lambda device=None: gpu.capability,
        "get_device_properties": lambda device=None: properties,
        "mem_get_info": lambda device=None: (gpu.memory, gpu.memory),
    }
    for name, value in answers.items():
        setattr(torch.cuda, name, value)
    library = torch.library.Library("_C", "FRAGMENT")
    number = 10 * gpu.capability[0] + gpu.capability[1]
    supported = {
        "cutlass_scaled_mm_supports_fp8": number >= 89,
        "cutlass_scaled_mm_supports_block_fp8": number >= 90,
        "cutlass_scaled_mm_supports_fp4": number >= 100,
        "cutlass_group_gemm_supported": number in (90, 100),
        "cutlass_sparse_scaled_mm_supported": number == 90,
    }
    for name, value in supported.items():
        library.define(f"{name}(int capability) -> bool")
        library.impl(name, lambda _, value=value: value, "CompositeExplicitAutograd")
    KEPT.append(library)


KEPT: list[Any] = []
"""Libraries of operators, which are gone with their object."""


def install(folder: Path, release: str, gpu: Gpu) -> None:
    """Makes vLLM of this folder importable, on a machine with these GPUs; once per process, before anything of it."""
    os.environ.update(
        HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", VLLM_NO_USAGE_STATS="1",
        VLLM_TARGET_DEVICE="cuda", TOKENIZERS_PARALLELISM="false", VLLM_PLUGINS="",
    )  # fmt: skip
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    sys.path.insert(0, str(folder))
    sys.meta_path.insert(0, Finder(nvml(gpu)))
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        return release if distribution_name == "vllm" else real(distribution_name)

    importlib.metadata.version = version
    import psutil
    import torch

    cuda(torch, gpu)
    memory = psutil.virtual_memory()._replace(total=HOST_MEMORY, available=HOST_MEMORY)
    psutil.virtual_memory = lambda: memory
    with contextlib.suppress(ImportError):
        from triton.backends.nvidia import driver

        shared = SimpleNamespace(get_device_properties=lambda device: {"max_shared_mem": SHARED_MEMORY})
        driver.CudaUtils = lambda: shared
        driver.CudaDriver.is_active = staticmethod(lambda: True)
