"""Least compute capability that vLLM requires before it loads a quantized model, by method and release.

Read from the releases' own sources (vLLM 0.4.3 … 0.33, model_executor/layers/quantization, `get_min_capability` of each
method and of compressed-tensors' schemes). If the GPU has less, vLLM raises before it loads a weight. These numbers and
podfit both allow what a method only does slower (FP8 weights through Marlin below 8.9, NVFP4 below 10.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from podfit.vllm.model import Model
from podfit.vllm.release import Release, parse


class Step(NamedTuple):
    """A method's requirement from some release on."""

    after: Release | None
    """The last release read with another number; for releases between it and `first`, the lower of both applies."""
    first: Release
    """The first release read with this number."""
    least: int
    """Major × 10 + minor, as vLLM writes it."""


def _capability_steps(*steps: tuple[str, int]) -> tuple[Step, ...]:
    """The steps from pairs such as ("0.4.3", 89), ("0.5.0 … 0.5.4", 80): the numbers have only ever decreased."""
    read = []
    for text, least in steps:
        last, _, first = text.rpartition(" … ")
        read.append(Step(parse(last) if last else None, cast(Release, parse(first)), least))
    return tuple(read)


STEPS: Mapping[str, tuple[Step, ...]] = {
    "awq": _capability_steps(("0.4.3", 75)),
    "awq_marlin": _capability_steps(("0.5.4", 80), ("0.13.0 … 0.14.0", 75)),
    "gptq": _capability_steps(("0.4.3", 60)),
    "gptq_marlin": _capability_steps(("0.4.3", 80), ("0.13.0 … 0.14.0", 75), ("0.21.0 … 0.23.0", 60)),
    "fp8": _capability_steps(("0.4.3", 89), ("0.5.0 … 0.5.4", 80), ("0.13.0 … 0.14.0", 75)),
    "fbgemm_fp8": _capability_steps(("0.5.4", 80)),
    "modelopt": _capability_steps(("0.6.3", 89), ("0.25.0 … 0.27.0", 80)),
    "modelopt_fp4": _capability_steps(("0.8.0", 100), ("0.8.5 … 0.9.0", 80), ("0.13.0 … 0.14.0", 75)),
    "mxfp4": _capability_steps(("0.10.2", 80)),
    "bitsandbytes": _capability_steps(("0.5.0", 70)),
    "experts_int8": _capability_steps(("0.6.0", 80)),
    "torchao": _capability_steps(("0.8.5", 75)),
    "gguf": _capability_steps(("0.6.0", 60)),
    "compressed-tensors integers": _capability_steps(("0.5.4", 80), ("0.11.2 … 0.12.0", 75)),
    "compressed-tensors INT8": _capability_steps(("0.5.4", 75)),
    "compressed-tensors FP8": _capability_steps(("0.5.4", 80), ("0.14.0 … 0.16.0", 75)),
    "compressed-tensors NVFP4": _capability_steps(("0.9.0", 80), ("0.14.0 … 0.16.0", 75)),
}
"""Method → its requirements by release; a release newer than was read is taken for the newest."""


def least_capability(method: str, release: Release) -> tuple[int, int] | None:
    """(major, minor) of the compute capability that this release requires for the method; None if no requirement is
    known. Between two releases that were read with different numbers, the lower one applies."""
    least = None
    for step in STEPS.get(method, ()):  # the numbers decrease, so the last one that applies is the lowest
        applies = release > step.after if step.after else release >= step.first
        if applies:
            least = step.least
    return divmod(least, 10) if least is not None else None


def first_release(method: str, capability: tuple[int, int]) -> Release | None:
    """The first release that is known to run the method on a GPU of this compute capability; None if none is known."""
    for step in STEPS.get(method, ()):  # oldest first
        if divmod(step.least, 10) <= capability:
            return step.first
    return None


NAMED = frozenset({"quant_method", "bits", "_scheme", "format", "quant_algo"})
"""All keys of an entry's quantization if it was derived from the model's id: the method, not the exporter's
settings."""


def is_exact(model: Model) -> bool:
    """True if the quantization comes from the checkpoint's own config.json rather than from its id."""
    return not model.scheme_guessed and bool((model.quantization_config or {}).keys() - NAMED)


class Method(NamedTuple):
    """A quantization method."""

    name: str
    """A key of STEPS."""
    is_certain: bool
    """It comes from an argument or the checkpoint's own config, and not from a name."""


def method(model: Model, given: object) -> Method | None:
    """The method that vLLM will use. None if the model is not quantized, or if the method is not in STEPS.

    `given` is `--quantization`, None if it is not set. A checkpoint's own method wins, except over a kernel for it.
    """
    config = model.quantization_config
    if not config:
        argument = str(given).replace("-", "_") if given else ""
        return Method(argument, is_certain=True) if argument in STEPS else None
    name = _stored_method(config, given)
    return Method(name, is_exact(model)) if name in STEPS else None


def _stored_method(config: Mapping[str, Any], given: object) -> str:
    """The name in STEPS for a checkpoint's quantization config; another text if STEPS has none."""
    name = str(config.get("quant_method") or "").lower()
    if name == "compressed-tensors":
        return f"compressed-tensors {_scheme(config)}"
    if name == "modelopt":
        algorithm = str(config.get("quant_algo") or "").upper()
        return {"FP8": "modelopt", "NVFP4": "modelopt_fp4"}.get(algorithm, "")
    if name in ("awq", "gptq") and given in (f"{name}_marlin", "moe_wna16"):
        return str(given)
    return name.replace("-", "_")


def _scheme(config: Mapping[str, Any]) -> str | None:
    """compressed-tensors' scheme of all layers (vLLM compressed_tensors.py, `_get_scheme_from_parts`). None if groups
    of layers have different ones, or one that is not in STEPS."""
    groups = config.get("config_groups")
    names = {_scheme_of_group(value) for value in groups.values()} if isinstance(groups, Mapping) else set()
    return names.pop() if len(names) == 1 else None


def _scheme_of_group(group: object) -> str | None:
    """The scheme of one config group of compressed-tensors; None for others."""
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(group, Mapping) or not isinstance(weights, Mapping):
        return None
    bits, kind, activations = weights.get("num_bits"), weights.get("type"), group.get("input_activations")
    if kind == "float" and bits == 4:
        return "NVFP4" if weights.get("group_size") == 16 else None
    if kind == "float" and bits == 8:
        return "FP8"
    if kind == "int" and bits == 8 and activations:
        return "INT8"
    return "integers" if kind == "int" and bits in (4, 8) and not activations else None
