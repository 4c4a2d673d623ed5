"""Quantized copies of a model from the catalog that a GPU serves well."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from podfit.vllm.gpu import Gpu
from podfit.vllm.memory import quantisation
from podfit.vllm.model import Model, quantised_copies

CAPABLE = {"FP8": (8, 0), "INT8": (8, 0), "INT4": (8, 0), "NVFP4": (10, 0), "bitsandbytes": (7, 5)}
"""Scheme → the least compute capability that serves it well (vLLM 0.33 docs, features/quantization)."""
OLDER = ("awq", "gptq")
"""Formats whose kernels also support Turing (7.5)."""


def copies(model: Model, gpus: Sequence[Gpu]) -> Sequence[Model]:
    """Quantized copies of the model from the catalog that these GPUs serve well, those with the most bits first and
    slow formats last."""
    return _copies(model, min((gpu.compute_capability or (0, 0) for gpu in gpus), default=(0, 0)))


@lru_cache(64)
def _copies(model: Model, capability: tuple[int, int]) -> Sequence[Model]:
    """Quantized copies of a model that the GPUs can run, the most accurate first."""
    rated: list[tuple[bool, float, Model]] = []
    for copy in () if model.quantization_config else quantised_copies(model):
        scheme = quantisation.scheme(copy, None)
        if scheme and _is_capable(capability, copy, scheme):
            rated.append((scheme.name == "bitsandbytes", -scheme.bytes, copy))
    return tuple(copy for _, _, copy in sorted(rated, key=lambda entry: entry[:2]))


def _is_capable(capability: tuple[int, int], copy: Model, scheme: quantisation.Scheme) -> bool:
    """True if the compute capability (major, minor) has kernels for the copy's scheme."""
    method = str((copy.quantization_config or {}).get("quant_method"))
    least = (7, 5) if method in OLDER and scheme.name == "INT4" else CAPABLE.get(scheme.name, (99, 0))
    return capability >= least
