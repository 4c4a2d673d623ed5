"""EngineArgs + Model + Accelerator → MemoryPlan: both ledgers, the start-up time, and the verdict.

The verdict is about GPU memory while vLLM starts, and about nothing else: `does-not-fit` where even the certain
minimum of every line leaves too little of the largest total ever seen for the product, `fits` where the pessimistic
end of the interval still holds one request, else `unsure`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from webhook.args import EngineArgs
from webhook.gpu import Accelerator, Gpu
from webhook.measured import Measured
from webhook.memory import (
    activations,
    budget,
    cuda_graphs,
    doubt,
    draft,
    host,
    kv_cache,
    non_torch,
    printed,
    settings,
    startup,
    verdict,
    weights,
)
from webhook.memory.generations import GENERATIONS, OLDEST, possible
from webhook.memory.kv_cache import Layout
from webhook.memory.ledger import GpuLedger, Line, MemoryPlan, Verdict, plus
from webhook.memory.settings import Settings
from webhook.memory.verdict import Judged
from webhook.memory.weights import Checkpoint
from webhook.model import Model, longest_max_model_len
from webhook.quantity import human
from webhook.release import Release
from webhook.volumes import Files

OTHER_RUNTIMES = ("aws", "google", "huawei", "intel")
"""Vendors whose vLLM plugin accounts for memory in ways of its own."""


class _Case(NamedTuple):
    """What is planned at a time: one engine on one product under one release."""

    args: EngineArgs
    model: Model
    gpu: Gpu | None
    measured: int | None
    """Bytes that the process sees on the GPU."""
    release: Release
    env: Mapping[str, str]


def plan(
    args: EngineArgs,
    model: Model | None,
    accelerator: Accelerator | None,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
    files: Files | None = None,
    vendor: str = "nvidia",
    known: Sequence[Measured] = (),
) -> MemoryPlan:
    """The plan of one engine.

    `gpu_memory`: bytes the process sees on each GPU, where measured; wins over the product's. `env`: the process's
    environment. `files`: where the checkpoint comes from, None where that is not known. `vendor`: who makes the GPU,
    where the product is not known. `known`: what logs printed of starts, believed where one was exactly this.
    Never raises; what can't be known is None in the plan, and `why` says what is missing.
    """
    env = env or {}
    judged = judge(args, model, accelerator, gpu_memory=gpu_memory, env=env, known=known)
    resolved, found = judged.settings, judged.checkpoint
    release = resolved.release if resolved else args.release or GENERATIONS[-1]
    if model and not resolved:
        smallest = min(_gpus(accelerator, gpu_memory), key=lambda gpu: gpu.memory if gpu else 0, default=None)
        memory = gpu_memory or (smallest.memory if smallest else 0)
        resolved = settings.resolve(args, model, smallest, memory, release, env)
        found = weights.checkpoint(model, resolved)
    makers = {gpu.vendor.lower() for gpu in accelerator.gpus} if accelerator else {vendor}
    hosted = host.ledger(args, model, resolved, release, env, found, files, amd=makers == {"amd"})
    form = str(args.given.get("load_format") or "auto")
    starting = None
    if model and resolved:
        filled = sum([line.likely for name, line in hosted.lines if name == "KV offload"])
        starting = startup.estimate(model, resolved, found, load_format=form, files=files, kv_in_memory=filled)
    size = (model.weights_bytes if model else None) or (int(found.total) if found else None)
    return MemoryPlan(judged.verdict, judged.tell, judged.ledger, hosted, starting, size, judged.cause)


def judge(
    args: EngineArgs,
    model: Model | None,
    accelerator: Accelerator | None,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
    known: Sequence[Measured] = (),
) -> Judged:
    """The GPU's part of the plan: does it fit on every product that this may be, with every release that it may be?"""
    gpus = _gpus(accelerator, gpu_memory)
    if model is None or not gpus:
        missing = [what for what, absent in (("the model's config", model is None), ("the GPU", not gpus)) if absent]
        missed = f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not known"
        return Judged("unsure", lambda: missed, None)
    asked = [_cases(args, model, (gpu,), gpu_memory, env) for gpu in gpus]
    planned = [one for cases in asked if (one := _on_gpu(cases, known)) is not None]
    if not planned:
        return Judged("unsure", lambda: "the sizes of the model or of the GPU are not known", None)
    shown = min(planned, key=lambda one: one.ledger.total.likely if one.ledger else 0)
    if len({one.verdict for one in planned}) > 1 or len(planned) < len(gpus):
        shown = _unsure(shown, lambda own: f"it depends on which GPU it is: {own}")
    if accelerator and accelerator.shared and shown.verdict == "fits":
        shown = _unsure(shown, lambda own: f"{own}; other processes may use the same GPU")
    if shown.verdict == "does-not-fit":
        why = doubt.of(args, model, env or {})
        if why is None and shown.cause == "request":
            why = doubt.of_default_length(args, model)
        if why is not None:
            shown = _unsure(shown, lambda own: f"{why}; {own}")
    return shown


def _unsure(one: Judged, told: Callable[[str], str]) -> Judged:
    """The verdict taken back; `told` writes why, of what it was."""
    return one._replace(verdict="unsure", tell=lambda: told(one.why))


def fits(
    args: EngineArgs,
    model: Model,
    accelerator: Accelerator,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
) -> bool:
    """Whether the verdict is `fits`: as `judge`, but it stops at the first product or release that does not."""
    cases = _cases(args, model, _gpus(accelerator, gpu_memory), gpu_memory, env)
    if not cases or accelerator.shared or cases[-1].release < OLDEST:
        return False
    return all(map(_fits, cases))


def is_full(
    args: EngineArgs,
    model: Model,
    accelerator: Accelerator,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
) -> bool:
    """Whether the weights alone take the budget of one product under one release: then `fits` is False, whatever the
    context, the batches and the dtype of the KV cache are."""
    return any(
        (begun := _loaded(case)) is None or _is_full(model, *begun)
        for case in _cases(args, model, _gpus(accelerator, gpu_memory), gpu_memory, env)
    )


def _is_full(model: Model, whole: Line, resolved: Settings, found: Checkpoint) -> bool:
    if resolved.kv_cache_memory:
        return False
    loaded = [weights.line(found, model, resolved, stage).likely for stage in weights.heaviest(found, resolved)]
    return max(loaded) >= budget.line(whole, resolved).likely


def longest(
    args: EngineArgs,
    model: Model,
    accelerator: Accelerator,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Tokens of the longest request, up to max_model_len, that the low end of the KV cache holds on every product under
    every release: the longest for which `fits` may be True, if batches are as large then."""
    found = []
    for case in _cases(args, model, _gpus(accelerator, gpu_memory), gpu_memory, env):
        if (begun := _loaded(case)) is None:
            return 0
        found.append(_longest(model, *begun))
    return min(found, default=0)


def _longest(model: Model, whole: Line, resolved: Settings, found: Checkpoint) -> int:
    """Of one case."""
    least = resolved.max_model_len or 0
    for stage in weights.heaviest(found, resolved):
        left = _ledger(model, resolved, whole, found, stage, None).kv_cache
        layout = _cache(model, resolved, found, stage, left).checked
        if layout is not None:
            null = layout.bytes_per_block if resolved.release >= verdict.NULL_BLOCK else 0
            least = min(least, kv_cache.longest(left.low - null, layout, least, resolved))
    return least


def _fits(case: _Case) -> bool:
    """Whether every stage of the pipeline fits; weights without room are refuted first."""
    begun, model = _loaded(case), case.model
    if begun is None or _is_full(model, *begun):
        return False
    whole, resolved, found = begun
    for stage in weights.heaviest(found, resolved):
        ledger = _ledger(model, resolved, whole, found, stage, None)
        cache = _cache(model, resolved, found, stage, ledger.kv_cache)
        if _verdict(case.args, resolved, ledger._replace(max_model_len=cache.length), cache).verdict != "fits":
            return False
    return True


def _cases(
    args: EngineArgs, model: Model, gpus: Sequence[Gpu | None], measured: int | None, env: Mapping[str, str] | None
) -> list[_Case]:
    """Every product with every release that it may be, the newest last."""
    releases = (args.release,) if args.release else possible(model, args)
    return [_Case(args, model, gpu, measured, release, env or {}) for gpu in gpus for release in releases]


def _gpus(accelerator: Accelerator | None, measured: int | None) -> Sequence[Gpu | None]:
    if accelerator and accelerator.gpus:
        return accelerator.gpus
    return (None,) if measured else ()


def _on_gpu(cases: Sequence[_Case], known: Sequence[Measured]) -> Judged | None:
    """One GPU: the release's plan, or every generation's where it is not known."""
    if (release := cases[0].args.release) is not None:
        one = _judge(cases[0], known)
        if one is not None and release < OLDEST:
            return _unsure(one, lambda _: f"vLLM {release} is older than what is known here")
        return one
    judged = [one for case in cases if (one := _judge(case))]
    if not judged:
        return None
    newest = judged[-1]
    if len({one.verdict for one in judged}) == 1:
        return newest
    return _unsure(newest, lambda own: f"it depends on vLLM's release, which is not known: {own}")


def _judge(case: _Case, known: Sequence[Measured] = ()) -> Judged | None:
    """The worst of the pipeline's stages."""
    begun, model = _loaded(case), case.model
    if begun is None:
        return None
    whole, resolved, found = begun
    seen = printed.of(known, case.args, model, case.gpu, whole, case.release, case.env) if known else None
    judged = []
    for stage in weights.heaviest(found, resolved):
        ledger = _ledger(model, resolved, whole, found, stage, seen)
        cache = _cache(model, resolved, found, stage, ledger.kv_cache)
        judged.append(_verdict(case.args, resolved, _with_cache(model, resolved, ledger, cache), cache))
    worst = min(judged, key=lambda one: (RANK[one.verdict], one.ledger.kv_cache.likely if one.ledger else 0))
    return worst._replace(settings=resolved, checkpoint=found)


RANK: Mapping[Verdict, int] = {"does-not-fit": 0, "unsure": 1, "fits": 2}


def _loaded(case: _Case) -> tuple[Line, Settings, Checkpoint] | None:
    """The GPU's memory, the settings, and the checkpoint as it is loaded; None where one of them can't be known."""
    whole = budget.total(case.gpu, case.measured)
    if whole is None or (case.gpu is not None and case.gpu.vendor.lower() in OTHER_RUNTIMES):
        return None
    resolved = settings.resolve(case.args, case.model, case.gpu, whole.likely, case.release, case.env)
    found = weights.checkpoint(case.model, resolved)
    return None if found is None else (whole, resolved, found)


def _ledger(
    model: Model, resolved: Settings, whole: Line, found: Checkpoint, stage: int, seen: Measured | None
) -> GpuLedger:
    """The lines of one rank of `stage`, and what they leave."""
    allowed = budget.line(whole, resolved)
    loaded = plus(weights.line(found, model, resolved, stage), draft.line(model, resolved, stage))
    peak = activations.line(model, resolved, stage)
    graphs = cuda_graphs.line(model, resolved)
    other = non_torch.line(resolved)
    if seen is not None:
        loaded, peak, graphs, other = printed.lines(seen, loaded, peak, graphs, other)
    charged = cuda_graphs.charged(resolved)
    inside = (loaded, peak, other, graphs) if charged else (loaded, peak, other)
    if resolved.kv_cache_memory:
        fixed = resolved.kv_cache_memory
        left = Line(fixed, fixed, fixed, fixed, "--kv-cache-memory-bytes", "vLLM 0.33 v1/worker/gpu_worker.py")
    else:
        used = sum([one.likely for one in inside])
        likely = allowed.likely - used
        most = max(likely, allowed.high - sum([one.floor for one in inside]))
        left = Line(
            floor=most,
            low=likely - (allowed.likely - allowed.low) - _doubt([one.high - one.likely for one in inside]),
            likely=likely,
            high=min(most, likely + _doubt([one.likely - one.low for one in inside])),
            note=f"{human(allowed.likely)} − {human(used)}",
            source=kv_cache.SOURCE,
        )
    if seen is not None:
        left = printed.kv_cache(seen, left, whole)
    return GpuLedger(whole, allowed, loaded, peak, graphs, other, left, graphs_charged=charged)


class _Cache(NamedTuple):
    """How the KV cache of one rank is laid out."""

    own: Layout | None
    checked: Layout | None
    """What this release's check of one request counts with."""
    length: int | None
    """max_model_len; what fits, where vLLM is to find that."""


def _cache(model: Model, resolved: Settings, found: Checkpoint, stage: int, left: Line) -> _Cache:
    first, last = resolved.parallel.stage(stage, found.layers)
    layout = kv_cache.layout(model, resolved, first, last)
    checked = kv_cache.of_check(model, resolved, layout)
    length = resolved.max_model_len
    if resolved.auto_len and checked and length:
        length = kv_cache.longest(left.likely, checked, length, resolved)
    return _Cache(layout, checked, length)


def _verdict(args: EngineArgs, resolved: Settings, ledger: GpuLedger, cache: _Cache) -> Judged:
    return verdict.of_rank(args, resolved, ledger, cache.checked, every_stage=cache.checked is not cache.own)


def _with_cache(model: Model, resolved: Settings, ledger: GpuLedger, cache: _Cache) -> GpuLedger:
    """The ledger with what vLLM will print of its KV cache."""
    left, (layout, checked, length) = ledger.kv_cache, cache
    blocks = layout.blocks(length, resolved) if layout and length else 0
    estimated = kv_cache.longest(left.likely, checked, length, resolved) if checked and length else None
    longest, own = estimated, longest_max_model_len(model, resolved.release)
    if checked and length and estimated == length and own and own > length:
        longest = kv_cache.longest(left.likely, checked, own, resolved)
    return ledger._replace(
        kv_cache_bytes_per_token=layout.bytes_per_token if layout else None,
        kv_cache_bytes_per_request=blocks * layout.bytes_per_block if layout and length else None,
        kv_cache_tokens=_tokens(left, layout, length, resolved),
        max_model_len=length,
        estimated_max_model_len=estimated,
        longest_request=longest,
        model_length=own,
        max_concurrency=round(max(0, left.likely) // layout.bytes_per_block / blocks, 2) if layout and length else None,
    )


def _doubt(deviations: Sequence[float]) -> int:
    """Independent doubts add in squares."""
    return int(sum([one * one for one in deviations if one > 0]) ** 0.5)


def _tokens(left: Line, layout: Layout | None, length: int | None, resolved: Settings) -> tuple[int, int, int] | None:
    if layout is None:
        return None
    low, likely, high = [
        kv_cache.tokens(size, layout, length or 4096, resolved) for size in (left.low, left.likely, left.high)
    ]
    return low, likely, high
