"""Changes that would fit, computed by the planner that refused: cheapest first, each enough by itself.

Nothing here estimates: a change is applied to the arguments, the model or the accelerator, and `plan.fits` says
whether the result fits. Lengths are found by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from webhook.args import EngineArgs
from webhook.gpu import Accelerator, Gpu, by_name
from webhook.memory import parallel, plan, shape
from webhook.memory.generations import possible
from webhook.model import Model, derived_max_model_len

MOST = 4
LEAST_CONTEXT = 2048
"""A shorter context than this is no answer worth giving."""
PRODUCTS = (
    "NVIDIA-L4", "NVIDIA-A10G", "NVIDIA-A100-SXM4-40GB", "NVIDIA-L40S", "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-B200",
)  # fmt: skip
"""What clusters have, by memory and price: values of the label nvidia.com/gpu.product."""


@dataclass(frozen=True)
class Alternative:
    """One change."""

    text: str
    """For people."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Argument (vLLM's dest) → value; "gpus" → how many the container needs, "product" → the label's value."""


class Fits(Protocol):
    """Whether the engine fits with these arguments changed, on these products instead of its own."""

    def __call__(self, changes: Mapping[str, Any], gpus: Sequence[Gpu] | None = None) -> bool: ...


def alternatives(
    args: EngineArgs,
    model: Model,
    accelerator: Accelerator,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
) -> list[Alternative]:
    """At most four changes after which the plan's verdict is `fits`; none where nothing simple helps.

    What changes the model's output (a KV cache in 8 bits, a quantised checkpoint) says so and comes last.
    """

    counted = shape.of(model)

    releases = [args.release] if args.release else list(possible(model))

    def fits(changes: Mapping[str, Any], gpus: Sequence[Gpu] | None = None) -> bool:
        # another product: what was measured on this one says nothing
        where = replace(accelerator, gpus=tuple(gpus)) if gpus else accelerator
        memory = None if gpus else gpu_memory
        changed = _with(args, changes)
        for index, release in enumerate(releases):
            one = replace(changed, release=release)
            if not plan.fits(one, model, where, gpu_memory=memory, env=env, counted=counted):
                releases.insert(0, releases.pop(index))  # the likeliest to fail again: asked first from now on
                return False
        return True

    same = [*_length(args, model, fits), *_batch(args, fits)]
    found = [*same[:2], *_more_gpus(args, model, accelerator, fits), *_product(accelerator, fits)]
    found = found[: MOST - 1] if len(found) >= MOST else found
    for alternative in _other_output(args, model, accelerator, fits):
        if len(found) >= MOST:
            break
        found.append(alternative)
    return found


def _with(args: EngineArgs, changes: Mapping[str, Any]) -> EngineArgs:
    unresolved = {dest: why for dest, why in args.unresolved.items() if dest not in changes}
    return replace(args, given={**args.given, **changes}, unresolved=unresolved)


def _length(args: EngineArgs, model: Model, fits: Fits, also: Mapping[str, Any] | None = None) -> Iterator[Alternative]:
    """The longest context that fits, in steps of 1,024 tokens."""
    given = args.given.get("max_model_len")
    longest = given if isinstance(given, int) and given > 0 else derived_max_model_len(model, args.release)
    if longest is None:
        return
    also = also or {}
    low, high = 0, (longest - 1) // 1024
    if high * 1024 < LEAST_CONTEXT or not fits({**also, "max_model_len": LEAST_CONTEXT}):
        return
    while low < high:
        middle = (low + high + 1) // 2
        if fits({**also, "max_model_len": middle * 1024}):
            low = middle
        else:
            high = middle - 1
    if low * 1024 >= LEAST_CONTEXT:
        tokens = low * 1024
        yield Alternative(f"--max-model-len {tokens}", {**also, "max_model_len": tokens})


def _batch(args: EngineArgs, fits: Fits) -> Iterator[Alternative]:
    """At the edge: fewer sequences at once, or no CUDA graphs."""
    given = args.given.get("max_num_seqs")
    current = given if isinstance(given, int) and given > 0 else 1024
    for seqs in (256, 128, 64, 16):
        if seqs < current and fits({"max_num_seqs": seqs}):
            yield Alternative(f"--max-num-seqs {seqs}", {"max_num_seqs": seqs})
            return
    if not args.given.get("enforce_eager") and fits({"enforce_eager": True}):
        yield Alternative("--enforce-eager (slower)", {"enforce_eager": True})


def divisible(model: Model, size: int) -> bool:
    """Whether tensor parallelism of `size` divides the heads, and goes with the KV heads."""
    heads, groups = model.num_attention_heads, model.num_key_value_heads
    if heads is None or heads % size:
        return False
    return not groups or groups % size == 0 or size % groups == 0


def _more_gpus(args: EngineArgs, model: Model, accelerator: Accelerator, fits: Fits) -> Iterator[Alternative]:
    """The fewest GPUs of this product over which it fits: 2, 4 or 8, or 8 with a shorter context."""
    if any(gpu.mig for gpu in accelerator.gpus):
        return  # one process can't use two slices
    now = parallel.read(args)
    sizes = [size for size in (2, 4, 8) if size > now.tp and divisible(model, size)]
    for size in sizes:
        changes = {"tensor_parallel_size": size}
        if fits(changes):
            count = size * now.pp * now.dp_local
            yield Alternative(f"{count} GPUs with --tensor-parallel-size {size}", {**changes, "gpus": count})
            return
    if sizes:
        changes = {"tensor_parallel_size": sizes[-1]}
        count = sizes[-1] * now.pp * now.dp_local
        for shorter in _length(args, model, fits, changes):
            length = shorter.changes["max_model_len"]
            yield Alternative(
                f"{count} GPUs with --tensor-parallel-size {sizes[-1]} and --max-model-len {length}",
                {**shorter.changes, "gpus": count},
            )


def _product(accelerator: Accelerator, fits: Fits) -> Iterator[Alternative]:
    """The smallest single product that fits with nothing else changed."""
    if any(gpu.vendor != "nvidia" for gpu in accelerator.gpus):
        return
    enough = max((gpu.memory for gpu in accelerator.gpus), default=0)
    for label in PRODUCTS:
        gpus = by_name(label)
        if gpus and min(gpu.memory for gpu in gpus) > 1.05 * enough and fits({}, gpus):
            yield Alternative(f"nodeSelector nvidia.com/gpu.product: {label}", {"product": label})
            return


def _other_output(args: EngineArgs, model: Model, accelerator: Accelerator, fits: Fits) -> Iterator[Alternative]:
    """What changes the model's answers: 8-bit KV cache, quantised weights."""
    warning = "(changes the model's output)"
    if not _eight_bit(accelerator):
        return
    if not args.given.get("kv_cache_dtype") and fits({"kv_cache_dtype": "fp8"}):
        yield Alternative(f"{warning} --kv-cache-dtype fp8", {"kv_cache_dtype": "fp8"})
    if model.quantization_config or args.given.get("quantization"):
        return
    if fits({"quantization": "fp8"}):
        yield Alternative(f"{warning} an FP8 checkpoint, or --quantization fp8", {"quantization": "fp8"})
    elif fits({"quantization": "awq"}):
        yield Alternative(f"{warning} an AWQ or GPTQ checkpoint in 4 bits", {})


def _eight_bit(accelerator: Accelerator) -> bool:
    """FP8 weights and KV cache run from Ampere on (weights alone through Marlin before Ada)."""
    return all(gpu.compute_capability is None or gpu.compute_capability >= (8, 0) for gpu in accelerator.gpus)
