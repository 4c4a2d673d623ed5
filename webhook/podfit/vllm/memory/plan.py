"""EngineArgs + Model + Accelerator → MemoryPlan: both ledgers, the start-up time, and whether it fits.

`verdict` is only about GPU memory while vLLM starts. It is `does-not-fit` if even the certain minimum of every line
exceeds the largest total ever measured for the GPU model. It is `fits` if the pessimistic end of the interval still
holds one request, else `unsure`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu
from podfit.vllm.measured import MeasuredStart
from podfit.vllm.memory import (
    arguments,
    budget,
    doubt,
    host,
    kv_cache,
    loaded,
    log_lines,
    settings,
    startup,
    verdict,
    weights,
)
from podfit.vllm.memory.arguments import MemoryArguments
from podfit.vllm.memory.estimate import NOTHING, Estimate
from podfit.vllm.memory.generations import OLDEST, possible
from podfit.vllm.memory.ledger import GpuLedger, MemoryPlan, Verdict
from podfit.vllm.memory.loaded import LoadedEngine
from podfit.vllm.memory.verdict import PlannedRelease
from podfit.vllm.model import MAX_LAYERS, Model
from podfit.vllm.release import Release, newest_read
from podfit.vllm.volumes import CheckpointSource


def plan(
    args: EngineArgs,
    model: Model | None,
    accelerator: Accelerator | None,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
    checkpoint_source: CheckpointSource | None = None,
    vendor: str = "nvidia",
    measured_starts: Sequence[MeasuredStart] = (),
    kv_cache_memory: int | None = None,
    warm: bool = False,
) -> MemoryPlan:
    """The plan of one engine.

    `gpu_memory`: measured bytes that the process sees on each GPU; overrides the tables. `env`: the process's
    environment. `checkpoint_source`: where the checkpoint comes from, None if unknown. `vendor`: the maker of the GPU
    if the model is unknown, empty for processors. `measured_starts`: measurements in logs, used if one was of exactly
    this start. `kv_cache_memory`: bytes that vLLM reported for the KV cache. `warm`: a volume keeps what
    torch.compile made. Never raises: unknown parts are None in the plan, and `why` says what is missing.
    """
    env = env or {}
    release_plan = judge(
        args, model, accelerator, gpu_memory=gpu_memory, env=env, measured_starts=measured_starts,
        kv_cache_memory=kv_cache_memory, warm=warm,
    )  # fmt: skip
    resolved, checkpoint = release_plan.resolved, release_plan.checkpoint
    release = resolved.settings.release if resolved else args.release or newest_read()
    if model and not resolved:  # without a plan of the GPU, host memory and start-up time are still estimated
        smallest = min(gpus_of(accelerator, gpu_memory), key=lambda gpu: gpu.memory if gpu else 0, default=None)
        memory = gpu_memory or (smallest.memory if smallest else 0)
        resolved = settings.resolve(args, model, smallest, memory, release, env)
        checkpoint = weights.checkpoint(model, resolved.settings)
    makers = {gpu.vendor.lower() for gpu in accelerator.gpus} if accelerator else {vendor}
    host_ledger = host.ledger(
        args, model, resolved.settings if resolved else None, release, env, checkpoint, checkpoint_source,
        amd=makers == {"amd"}, cuda={vendor, *makers} == {"nvidia"},
    )  # fmt: skip
    if model and model.is_minimum:
        host_ledger = host_ledger.bound()
    start_up = None
    if model and resolved and not model.is_minimum:
        kv_offload = dict(host_ledger.lines).get("KV offload", NOTHING) if host_ledger.offloaded.likely else NOTHING
        start_up = startup.estimate(
            model, resolved.settings, checkpoint, load_format=str(args.given.get("load_format") or "auto"),
            checkpoint_source=checkpoint_source, kv_in_memory=kv_offload.likely,
        )  # fmt: skip
    size = (model.weights_bytes if model else None) or (int(checkpoint.total) if checkpoint else None)
    return MemoryPlan(
        verdict=release_plan.verdict,
        tell=release_plan.tell,
        gpu=release_plan.ledger,
        host=host_ledger,
        startup=start_up,
        checkpoint=size,
        cause=release_plan.cause,
        resolved=resolved,
    )


def judge(
    args: EngineArgs,
    model: Model | None,
    accelerator: Accelerator | None,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
    measured_starts: Sequence[MeasuredStart] = (),
    kv_cache_memory: int | None = None,
    warm: bool = False,
) -> PlannedRelease:
    """The GPU's part of the plan: does it fit on every possible GPU model, with every possible release? `unsure`
    without a ledger if the model, the GPU or a size is unknown."""
    gpus = gpus_of(accelerator, gpu_memory)
    if model is None or not gpus:
        missing = _missing_inputs(model, gpus)
        return PlannedRelease("unsure", lambda: missing, None)
    memory_arguments = arguments.read(args, model, env or {}, warm=warm)
    facts = _Facts(gpu_memory, env or {}, measured_starts, kv_cache_memory)
    plans = (_on_gpu(memory_arguments, gpu, facts) for gpu in gpus)
    planned = [release_plan for release_plan in plans if release_plan is not None]
    if not planned:
        return PlannedRelease("unsure", lambda: "the sizes of the model or of the GPU are not known", None)
    release_plan = planned[0]
    if len(gpus) > 1:
        release_plan = _of_several_gpus(planned, are_all_planned=len(planned) == len(gpus))
    if accelerator and accelerator.shared and release_plan.verdict == "fits":
        release_plan = _unsure(release_plan, lambda own: f"{own}; other processes may use the same GPU")
    return _with_doubts(release_plan, args, model, env or {})


def _missing_inputs(model: Model | None, gpus: Sequence[Gpu | None]) -> str:
    """A sentence that names the missing ones of model and GPU; at least one of them is."""
    if model is None and not gpus:
        return "the model's config and the GPU are not known"
    return "the model's config is not known" if model is None else "the GPU is not known"


def _of_several_gpus(planned: Sequence[PlannedRelease], *, are_all_planned: bool) -> PlannedRelease:
    """The plan of the GPU model on which the result depends: the largest if the engine fits none, else the smallest.
    `unsure` if the results differ, or if a GPU could not be planned."""
    fits_none = all(release_plan.verdict == "does-not-fit" for release_plan in planned)
    choose = max if fits_none else min
    chosen = choose(planned, key=lambda release_plan: release_plan.ledger.total.likely if release_plan.ledger else 0)
    if len({release_plan.verdict for release_plan in planned}) > 1 or not are_all_planned:
        return _unsure(chosen, lambda own: f"it depends on which GPU it is: {own}")
    return chosen


def verdicts(
    args: EngineArgs, model: Model, gpus: Sequence[Gpu], release: Release, *, env: Mapping[str, str] | None = None
) -> list[Verdict]:
    """The `verdict` on each GPU with one release, as `judge` plans that GPU alone; `unsure` for a GPU whose memory or
    runtime is unknown.

    The settings and the ranks are computed once per class of GPUs. All GPUs of a class with the same memory have one
    plan, so that a table of GPUs costs milliseconds."""
    env = env or {}
    memory_arguments = arguments.read(args, model, env)
    classes: dict[tuple[object, ...], LoadedEngine | None] = {}
    verdict_of: dict[tuple[object, ...], Verdict] = {}
    results: list[Verdict] = []
    for gpu in gpus:
        total = budget.total(gpu, None)
        if total is None:
            results.append("unsure")
            continue
        its_class = settings.gpu_class(gpu, total.likely)
        if its_class not in classes:
            classes[its_class] = loaded.load(memory_arguments, gpu, None, release)
        key = (*its_class, total.low, total.likely, total.high)
        if key not in verdict_of:
            engine = classes[its_class]
            verdict_of[key] = _on_total(memory_arguments, engine, total, env) if engine is not None else "unsure"
        results.append(verdict_of[key])
    return results


def _on_total(
    memory_arguments: MemoryArguments, engine: LoadedEngine, total: Estimate, env: Mapping[str, str]
) -> Verdict:
    """The `verdict` for an engine of the same class on a GPU with this memory."""
    here = engine._replace(total_memory=total, budget=budget.line(total, engine.resolved.budget))
    release_plan = _worst_rank(memory_arguments, here)
    if engine.resolved.settings.release < OLDEST:
        release_plan = _too_old(release_plan, engine.resolved.settings.release)
    return _with_doubts(release_plan, memory_arguments.args, engine.model, env).verdict


def _with_doubts(
    release_plan: PlannedRelease, args: EngineArgs, model: Model, env: Mapping[str, str]
) -> PlannedRelease:
    """The plan; `unsure` instead of a certain failure if something about the model or the arguments makes that
    uncertain."""
    if model.is_minimum:
        release_plan = _at_least(release_plan)
    if release_plan.verdict == "does-not-fit":
        why = doubt.reason_unplannable(args, model, env)
        if why is None and release_plan.cause == "request":
            why = doubt.of_default_length(args, model)
        if why is None and release_plan.cause == "loading":
            why = doubt.of_loader(args)
        if why is not None:
            release_plan = _unsure(release_plan, lambda own: f"{why}; {own}")
    return release_plan


def _at_least(release_plan: PlannedRelease) -> PlannedRelease:
    """The plan of a model with more layers than are described: only its minimum is known, so it never `fits`."""
    why = f"the model has more than {MAX_LAYERS:,} layers, so that only the minimum of its memory is known"
    if release_plan.ledger is not None:
        release_plan = release_plan._replace(
            ledger=replace(release_plan.ledger, kv_cache=release_plan.ledger.kv_cache.bound())
        )
    reworded = release_plan._replace(tell=lambda: f"{why}; {release_plan.why}")
    return reworded if release_plan.verdict == "does-not-fit" else reworded._replace(verdict="unsure")


def _unsure(release_plan: PlannedRelease, reworded: Callable[[str], str]) -> PlannedRelease:
    """The plan, downgraded to `unsure`; `reworded` builds `why` from the original one."""
    return release_plan._replace(verdict="unsure", tell=lambda: reworded(release_plan.why))


def fits(
    args: EngineArgs,
    model: Model,
    accelerator: Accelerator,
    *,
    gpu_memory: int | None = None,
    env: Mapping[str, str] | None = None,
) -> bool:
    """True if `verdict` is `fits` and a request of max_model_len finishes: like `judge`, but it stops at the first GPU
    model or release that does not fit."""
    memory_arguments, gpus = arguments.read(args, model, env or {}), gpus_of(accelerator, gpu_memory)
    return not accelerator.shared and all(
        fit(memory_arguments, gpus, gpu_memory, release) for release in releases_of(args, model)
    )


def fit(memory_arguments: MemoryArguments, gpus: Sequence[Gpu | None], measured: int | None, release: Release) -> bool:
    """True if it fits on each of the GPUs with one release, and a request of max_model_len finishes. False without
    GPUs, before OLDEST, and for models of which only a minimum is known.

    `measured`: bytes that the process sees on each GPU, None if they were not measured. Weights that take the whole
    budget are excluded first."""
    if release < OLDEST or memory_arguments.model.is_minimum:
        return False
    for gpu in gpus:
        loaded_engine = loaded.load(memory_arguments, gpu, measured, release)
        if loaded_engine is None or loaded_engine.is_full():
            return False
        for rank in loaded_engine.ranks.ranks:
            ledger = loaded.ledger(loaded_engine, rank)
            if not verdict.fits(memory_arguments.args, loaded_engine.resolved, ledger) or not _finishes(ledger):
                return False
    return bool(gpus)


def _finishes(ledger: GpuLedger) -> bool:
    """True if the low end of the KV cache holds a request of max_model_len until it finishes. With `auto`, vLLM chooses
    such a length."""
    return ledger.resolved.budget.auto_len or ledger.kv_cache.low >= (ledger.request_bytes or 0)


def longest(
    memory_arguments: MemoryArguments, gpus: Sequence[Gpu | None], measured: int | None, releases: Iterable[Release]
) -> int:
    """Tokens of the longest request, up to max_model_len, for which `fits` may be True if batches are as large then.

    The low end of the KV cache must hold it on every GPU model with every release. 0 if nothing fits or a size is
    unknown."""
    if memory_arguments.model.is_minimum:
        return 0
    lengths = []
    for gpu, release in product(gpus, releases):
        loaded_engine = loaded.load(memory_arguments, gpu, measured, release)
        if loaded_engine is None:
            return 0
        lengths.append(_longest(loaded_engine))
    return min(lengths, default=0)


def _longest(loaded_engine: LoadedEngine) -> int:
    """Tokens of the longest request on one GPU model with one release, at most max_model_len; 0 if that is unknown."""
    resolved = loaded_engine.resolved
    least = resolved.budget.max_model_len or 0
    for rank in loaded_engine.ranks.ranks:
        if rank.layout is not None:
            left = loaded.left(loaded_engine.budget, resolved, rank)
            least = min(least, kv_cache.longest_served(left.low, rank.layout, least, resolved.settings))
    return least


def releases_of(args: EngineArgs, model: Model) -> Sequence[Release]:
    """The release; if it is unknown, every possible generation, the newest last."""
    return (args.release,) if args.release else possible(model, args)


def gpus_of(accelerator: Accelerator | None, measured: int | None) -> Sequence[Gpu | None]:
    """Every possible GPU model; None is a GPU with measured memory whose model is unknown."""
    if accelerator and accelerator.gpus:
        return accelerator.gpus
    return (None,) if measured else ()


class _Facts(NamedTuple):
    """The measurements, and the environment that they depend on."""

    gpu_memory: int | None
    """Measured bytes of each GPU."""
    env: Mapping[str, str]
    measured_starts: Sequence[MeasuredStart]
    kv_cache_memory: int | None
    """Bytes that vLLM reported for the KV cache."""


def _on_gpu(memory_arguments: MemoryArguments, gpu: Gpu | None, facts: _Facts) -> PlannedRelease | None:
    """One GPU: the release's plan, or the newest generation's if the release is unknown, `unsure` if the generations
    differ. None as for `loaded.load`."""
    release = memory_arguments.args.release
    if release is not None:
        release_plan = _judge(memory_arguments, gpu, release, facts)
        return _too_old(release_plan, release) if release_plan is not None and release < OLDEST else release_plan
    unmeasured = facts._replace(measured_starts=())  # a measured start is one of a known release
    generations = possible(memory_arguments.model, memory_arguments.args)
    plans = [_judge(memory_arguments, gpu, release, unmeasured) for release in generations]
    planned = [release_plan for release_plan in plans if release_plan is not None]
    if not planned:
        return None
    newest = planned[-1]
    if len({release_plan.verdict for release_plan in planned}) == 1:
        return newest
    return _unsure(newest, lambda own: f"it depends on vLLM's release, which is unknown: {own}")


def _too_old(release_plan: PlannedRelease, release: Release) -> PlannedRelease:
    """The plan, `unsure` because the release is older than OLDEST."""
    return _unsure(release_plan, lambda _: f"memory is planned for vLLM {OLDEST} and later, not {release}")


def _judge(
    memory_arguments: MemoryArguments, gpu: Gpu | None, release: Release, facts: _Facts
) -> PlannedRelease | None:
    """One GPU with one release; None as for `loaded.load`."""
    loaded_engine = loaded.load(memory_arguments, gpu, facts.gpu_memory, release)
    if loaded_engine is None:
        return None
    args, model, measured_start = memory_arguments.args, memory_arguments.model, None
    if facts.measured_starts:
        measured_start = log_lines.of(
            facts.measured_starts, args, model, gpu, loaded_engine.total_memory, release, facts.env
        )
    return _worst_rank(memory_arguments, loaded_engine, measured_start, facts.kv_cache_memory)


def _worst_rank(
    memory_arguments: MemoryArguments,
    loaded_engine: LoadedEngine,
    measured_start: MeasuredStart | None = None,
    reported: int | None = None,
) -> PlannedRelease:
    """The pipeline stage with the worst result. `reported`: bytes of KV cache memory that vLLM reported."""
    release_plans = [
        verdict.of_rank(
            memory_arguments.args,
            loaded_engine.resolved,
            loaded_engine.ranks.checkpoint,
            loaded.ledger(loaded_engine, rank, measured_start, reported),
            cache_reported=reported is not None,
        )
        for rank in loaded_engine.ranks.ranks
    ]
    if len(release_plans) == 1:
        return release_plans[0]
    return min(release_plans, key=_room)


class _Room(NamedTuple):
    """The order of ranks: the one that compares less is worse."""

    verdict: int
    """As in VERDICT_ORDER."""
    blocks: int
    """Blocks of the KV cache if it fits, else 0: all ranks use the fewest blocks that one has."""
    kv_cache: int
    """Likely bytes of the KV cache; negative if less than nothing is left."""


def _room(release_plan: PlannedRelease) -> _Room:
    """Sort key, the worst rank first; without a ledger only by the `verdict`."""
    order, ledger = VERDICT_ORDER[release_plan.verdict], release_plan.ledger
    if ledger is None:
        return _Room(order, blocks=0, kv_cache=0)
    blocks = ledger.blocks if release_plan.verdict == "fits" else 0
    return _Room(order, blocks, ledger.kv_cache.likely)


VERDICT_ORDER: Mapping[Verdict, int] = {"does-not-fit": 0, "unsure": 1, "fits": 2}
"""The worst first."""
