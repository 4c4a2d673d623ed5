"""EngineArgs + Model + Accelerator → MemoryPlan: both ledgers, the start-up time, and the verdict.

The verdict is about GPU memory while vLLM starts, and about nothing else: `does-not-fit` where even the certain
minimum of every line leaves too little of the largest total ever seen for the product, `fits` where the pessimistic
end of the interval still holds one request, else `unsure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from webhook.args import EngineArgs
from webhook.gpu import Accelerator, Gpu
from webhook.memory import activations, budget, cuda_graphs, host, kv_cache, non_torch, settings, startup, weights
from webhook.memory.kv_cache import Layout
from webhook.memory.ledger import GpuLedger, Line, MemoryPlan, Verdict
from webhook.memory.parallel import gpus_needed, world_size
from webhook.memory.settings import Settings
from webhook.model import Model
from webhook.quantity import human
from webhook.release import Release

__all__ = ["gpus_needed", "plan", "world_size"]

OLDEST = Release(0, 4)
GENERATIONS = tuple(
    Release(*numbers) for numbers in ((0, 6, 3), (0, 7, 3), (0, 8, 5), (0, 10, 2), (0, 16), (0, 19), (0, 25), (0, 33))
)
"""One release of each way to account for memory: what an unknown release is planned as."""
SIZES = (
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "quantization", "dtype", "kv_cache_dtype",
    "gpu_memory_utilization", "cpu_offload_gb", "kv_cache_memory_bytes", "enable_expert_parallel", "load_format",
    "speculative_config", "hf_overrides", "model",
)  # fmt: skip
"""Arguments that decide the sizes: where one can't be known, nothing about them is certain."""
PLANNED_VENDORS = ("nvidia", "amd")


@dataclass(frozen=True)
class Judged:
    """One GPU and one release."""

    verdict: Verdict
    why: str
    ledger: GpuLedger


def plan(
    args: EngineArgs,
    model: Model | None,
    accelerator: Accelerator | None,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
    download: bool | None = None,
) -> MemoryPlan:
    """The plan of one engine.

    `gpu_memory`: bytes the process sees on each GPU, where measured; wins over the product's. `env`: the process's
    environment. `download`: whether the checkpoint must be fetched first; None where that is not known.
    Never raises; what can't be known is None in the plan, and `why` says what is missing.
    """
    env = env or {}
    gpus: Sequence[Gpu | None] = accelerator.gpus if accelerator and accelerator.gpus else ()
    if not gpus and gpu_memory:
        gpus = (None,)
    release = args.release or GENERATIONS[-1]
    smallest = min(gpus, key=lambda gpu: gpu.memory if gpu else 0, default=None)
    memory = gpu_memory or (smallest.memory if smallest else 0)
    resolved = settings.resolve(args, model, smallest, memory, release, env) if model else None
    found = weights.checkpoint(model, resolved) if model and resolved else None
    hosted = host.ledger(args, model, resolved, release, env, found)
    starting = startup.estimate(model, resolved, found, download=download) if model and resolved else None
    if model is None or not gpus:
        missing = " and ".join(
            what for what, absent in (("the model's config", model is None), ("the GPU", not gpus)) if absent
        )
        return MemoryPlan("unsure", f"{missing} {'is' if ' and ' not in missing else 'are'} not known", None, hosted, starting)
    planned = [one for gpu in gpus if (one := _on_gpu(args, model, gpu, gpu_memory, env)) is not None]
    if not planned:
        return MemoryPlan("unsure", "the model's sizes are not known", None, hosted, starting)
    shown = min(planned, key=lambda one: one.ledger.total.likely)
    verdicts = {one.verdict for one in planned}
    verdict = shown.verdict if len(verdicts) == 1 and len(planned) == len(gpus) else "unsure"
    why = shown.why
    if verdict != shown.verdict:
        why = f"it depends on which GPU it is: {shown.why}"
    if accelerator and accelerator.shared and verdict == "fits":
        verdict, why = "unsure", f"{why}; other processes may use the same GPU"
    return MemoryPlan(verdict, why, shown.ledger, hosted, starting)


def _on_gpu(
    args: EngineArgs, model: Model, gpu: Gpu | None, measured: int | None, env: Mapping[str, str]
) -> Judged | None:
    """One GPU: the release's plan, or every generation's where it is not known."""
    if gpu is not None and gpu.vendor.lower() not in PLANNED_VENDORS:
        return None
    releases = (args.release,) if args.release else GENERATIONS
    judged = [one for release in releases if release and (one := _judge(args, model, gpu, measured, release, env))]
    if not judged:
        return None
    newest = judged[-1]
    if len(judged) == 1:
        if args.release and args.release < OLDEST and newest.verdict != "unsure":
            return replace(newest, verdict="unsure", why=f"vLLM {args.release} is older than what is known here")
        return newest
    verdicts = {one.verdict for one in judged}
    if len(verdicts) == 1:
        return newest
    return replace(newest, verdict="unsure", why=f"it depends on vLLM's release, which is not known: {newest.why}")


def _judge(
    args: EngineArgs, model: Model, gpu: Gpu | None, measured: int | None, release: Release, env: Mapping[str, str]
) -> Judged | None:
    whole = budget.total(gpu, measured)
    if whole is None:
        return None
    resolved = settings.resolve(args, model, gpu, whole.likely, release, env)
    found = weights.checkpoint(model, resolved)
    if found is None:
        return None
    stages = [
        one
        for stage in weights.heaviest(found, model, resolved)
        if (one := _stage(args, model, resolved, whole, found, stage)) is not None
    ]
    return min(stages, key=lambda one: (RANK[one.verdict], one.ledger.kv_cache.likely)) if stages else None


RANK: Mapping[Verdict, int] = {"does-not-fit": 0, "unsure": 1, "fits": 2}


def _stage(
    args: EngineArgs, model: Model, resolved: Settings, whole: Line, found: weights.Checkpoint, stage: int
) -> Judged:
    allowed = budget.line(whole, resolved)
    loaded = weights.line(found, model, resolved, stage)
    peak = activations.line(model, resolved, stage)
    graphs = cuda_graphs.line(model, resolved)
    other = non_torch.line(resolved)
    inside = [loaded, peak, other, *([graphs] if cuda_graphs.charged(resolved) else [])]
    if resolved.kv_cache_memory:
        fixed = resolved.kv_cache_memory
        left = Line(fixed, fixed, fixed, fixed, "--kv-cache-memory-bytes", "vLLM 0.33 v1/worker/gpu_worker.py")
    else:
        left = Line(
            floor=allowed.high - sum(one.floor for one in inside),
            low=allowed.low - sum(one.likely for one in inside) - _doubt([one.high - one.likely for one in inside]),
            likely=allowed.likely - sum(one.likely for one in inside),
            high=allowed.likely - sum(one.likely for one in inside) + _doubt([one.likely - one.low for one in inside]),
            note=f"{human(allowed.likely)} − {human(sum(one.likely for one in inside))}",
            source=kv_cache.SOURCE,
        )
        left = replace(left, floor=max(left.floor, left.high), high=min(left.high, max(left.floor, left.likely)))
    first, last = resolved.parallel.stages(len(found.layers))[stage]
    layout = kv_cache.layout(model, resolved, first, last)
    length = resolved.max_model_len
    ledger = GpuLedger(
        total=whole, budget=allowed, weights=loaded, activations=peak, cuda_graphs=graphs, non_torch=other,
        kv_cache=left,
        kv_cache_bytes_per_token=layout.bytes_per_token if layout else None,
        kv_cache_bytes_per_request=layout.bytes(length, resolved) if layout and length else None,
        kv_cache_tokens=_tokens(left, layout, length, resolved),
        max_model_len=length,
        estimated_max_model_len=kv_cache.longest(left.likely, layout, length, resolved) if layout and length else None,
        max_concurrency=round(max(0, left.likely) // layout.bytes_per_block / layout.blocks(length, resolved), 2)
        if layout and length
        else None,
    )  # fmt: skip
    verdict, why = _verdict(args, resolved, ledger, layout)
    return Judged(verdict, why, ledger)


def _doubt(deviations: Sequence[float]) -> int:
    """Independent doubts add in squares."""
    return int(sum(max(0.0, one) ** 2 for one in deviations) ** 0.5)


def _tokens(left: Line, layout: Layout | None, length: int | None, resolved: Settings) -> tuple[int, int, int] | None:
    if layout is None:
        return None
    low, likely, high = (
        kv_cache.tokens(size, layout, length or 4096, resolved) for size in (left.low, left.likely, left.high)
    )
    return low, likely, high


def _verdict(
    args: EngineArgs, resolved: Settings, ledger: GpuLedger, layout: Layout | None
) -> tuple[Verdict, str]:
    """The verdict of one rank, and the arithmetic behind it."""
    left, loaded = ledger.kv_cache, ledger.weights
    if not 0 < resolved.utilization <= 1:
        return "unsure", f"--gpu-memory-utilization {resolved.utilization:g} is out of range"
    doubts = [f"--{dest.replace('_', '-')}" for dest in SIZES if dest in args.unresolved]
    why = (
        f"{human(ledger.budget.likely)} budget − {human(loaded.likely)} weights − "
        f"{human(ledger.budget.likely - loaded.likely - left.likely)} for the rest leave {human(left.likely)} of KV cache"
    )
    if resolved.kv_cache_memory:
        why = f"--kv-cache-memory-bytes gives {human(resolved.kv_cache_memory)} of KV cache"
    if doubts:
        return "unsure", f"{' and '.join(doubts)} can't be known here; {why}"
    if resolved.kv_cache_memory and loaded.floor > ledger.total.high:
        return "does-not-fit", f"weights {human(loaded.floor)} exceed the GPU's {human(ledger.total.high)}"
    if left.floor <= 0:
        return "does-not-fit", (
            f"weights take {human(loaded.likely)} (at least {human(loaded.floor)}) of the {human(ledger.budget.likely)} "
            "that vLLM may use: nothing is left for the KV cache"
        )
    if layout is None:
        return "unsure", f"how this model's KV cache is laid out is not known here; {why}"
    needed = ledger.kv_cache_bytes_per_request
    least = 1 if resolved.auto_len or ledger.max_model_len is None else ledger.max_model_len
    certain = layout.bytes(least, resolved) if layout.known else layout.bytes_per_block
    if left.floor < certain * 0.999:
        return "does-not-fit", f"{why}; one request of {least:,} tokens needs {human(certain)}"
    outside = budget.context(resolved).likely
    if not cuda_graphs.charged(resolved):
        outside += ledger.cuda_graphs.likely
    if not resolved.kv_cache_memory and ledger.total.likely - ledger.budget.likely < outside:
        rest = human(ledger.total.likely - ledger.budget.likely)
        return "unsure", (
            f"--gpu-memory-utilization {resolved.utilization:g} leaves {rest} of the GPU to the CUDA context, NCCL and "
            f"graphs, which may take {human(outside)}; {why}"
        )
    if needed is None:
        return "unsure", f"{why}; the context length is not known"
    wanted = layout.bytes(1, resolved) if resolved.auto_len else needed
    if not layout.known:
        return "unsure", f"how this model's KV cache is laid out is only partly known here; {why}"
    if left.low >= wanted:
        return "fits", f"{why}; one request of {ledger.max_model_len:,} tokens needs {human(needed)}"
    if left.likely >= wanted:
        return "unsure", f"{why}; one request needs {human(needed)}: it is close"
    return "unsure", f"{why}; one request of {ledger.max_model_len:,} tokens needs {human(needed)}"
