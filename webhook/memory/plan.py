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
from webhook.memory import budget, doubt, host, kv_cache, printed, ranks, settings, startup, verdict, weights
from webhook.memory.generations import GENERATIONS, OLDEST, possible
from webhook.memory.held import Held
from webhook.memory.ledger import GpuLedger, Line, MemoryPlan, Verdict
from webhook.memory.ranks import Rank, Ranks
from webhook.memory.settings import Settings
from webhook.memory.verdict import Judged
from webhook.model import Model
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
        (begun := _loaded(case)) is None or _is_full(*begun)
        for case in _cases(args, model, _gpus(accelerator, gpu_memory), gpu_memory, env)
    )


def _is_full(whole: Line, resolved: Settings, found: Ranks) -> bool:
    return not resolved.kv_cache_memory and found.heaviest >= budget.line(whole, resolved).likely


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


def _longest(model: Model, whole: Line, resolved: Settings, found: Ranks) -> int:
    """Of one case."""
    least = resolved.max_model_len or 0
    for rank in found.ranks:
        if rank.checked is not None:
            left = _left(budget.line(whole, resolved), resolved, rank)
            null = rank.checked.bytes_per_block if resolved.release >= verdict.NULL_BLOCK else 0
            least = min(least, kv_cache.longest(left.low - null, rank.checked, least, resolved))
    return least


def _fits(case: _Case) -> bool:
    """Whether every stage of the pipeline fits; weights without room are refuted first."""
    begun = _loaded(case)
    if begun is None or _is_full(*begun):
        return False
    whole, resolved, found = begun
    return all(verdict.fits(case.args, resolved, _ledger(case.model, whole, resolved, rank)) for rank in found.ranks)


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
    judged = [
        verdict.of_rank(case.args, resolved, found.checkpoint, _ledger(model, whole, resolved, rank, seen))
        for rank in found.ranks
    ]
    return min(judged, key=lambda one: (RANK[one.verdict], one.ledger.kv_cache.likely if one.ledger else 0))


RANK: Mapping[Verdict, int] = {"does-not-fit": 0, "unsure": 1, "fits": 2}


def _loaded(case: _Case) -> tuple[Line, Settings, Ranks] | None:
    """The GPU's memory, the settings, and the ranks with the least room; None where one of them can't be known."""
    whole = budget.total(case.gpu, case.measured)
    if whole is None or (case.gpu is not None and case.gpu.vendor.lower() in OTHER_RUNTIMES):
        return None
    resolved = settings.resolve(case.args, case.model, case.gpu, whole.likely, case.release, case.env)
    found = ranks.of(case.model, resolved)
    return None if found is None else (whole, resolved, found)


def _ledger(model: Model, whole: Line, resolved: Settings, rank: Rank, seen: Measured | None = None) -> GpuLedger:
    """The lines of one rank, what they leave, and what that holds."""
    allowed = budget.line(whole, resolved)
    if seen is not None:
        rank = printed.rank(seen, rank)
    left = _left(allowed, resolved, rank)
    if seen is not None:
        left = printed.kv_cache(seen, left, whole)
    length, layout = resolved.max_model_len, rank.layout
    if resolved.auto_len and rank.checked and length:
        length = kv_cache.longest(left.likely, rank.checked, length, resolved)
    blocks = layout.blocks(length, resolved) if layout and length else 0
    held = Held(model, resolved, layout, rank.checked, length, blocks)
    loaded, peak, graphs, other, charged = rank[:5]
    return GpuLedger(whole, allowed, loaded, peak, graphs, other, left, charged, held)


def _left(allowed: Line, resolved: Settings, rank: Rank) -> Line:
    """What the budget leaves to the KV cache, or what is given."""
    if fixed := resolved.kv_cache_memory:
        return Line(fixed, fixed, fixed, fixed, "--kv-cache-memory-bytes", "vLLM 0.33 v1/worker/gpu_worker.py")
    likely = allowed.likely - rank.taken
    most = max(likely, allowed.high - rank.least)
    low = likely - (allowed.likely - allowed.low) - rank.more
    return Line(most, low, likely, min(most, likely + rank.less), "", kv_cache.SOURCE)
