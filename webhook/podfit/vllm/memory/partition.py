"""The GPUs that a container may get → those on which it fits, those on which it does not, and the rest.

Each GPU is where the plan of its name would put it: `plan.verdicts` is `plan.judge` for many GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from podfit.base.lazy import cached_property
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu
from podfit.vllm.measured import MeasuredStart
from podfit.vllm.memory import plan
from podfit.vllm.memory.ledger import GpuLedger, Verdict
from podfit.vllm.memory.verdict import PlannedRelease
from podfit.vllm.model import Model
from podfit.vllm.release import Release


class Candidate(NamedTuple):
    """A GPU that the container may get."""

    gpu: Gpu
    shared: bool = False
    """Other processes may use the same GPU: then nothing certainly fits it."""


class PlannedGpu(NamedTuple):
    """A candidate with the `verdict` of its plan."""

    candidate: Candidate
    verdict: Verdict

    @property
    def gpu(self) -> Gpu:
        """The GPU model of the plan."""
        return self.candidate.gpu


class Needs(NamedTuple):
    """Bytes of memory that each GPU must have so that the engine starts, and their 95 % interval."""

    low: int
    likely: int
    high: int


@dataclass(frozen=True)
class Partition:
    """The candidates by the `verdict` of their plans."""

    gpus: tuple[PlannedGpu, ...]
    """In the order of the candidates; each name once."""
    engine: PlannedEngine = field(repr=False)
    """The engine that is planned."""

    @property
    def assumed_release(self) -> Release | None:
        """The one release that is planned although the container's is unknown; else None."""
        return self.engine.release if self.engine.args.release is None else None

    @cached_property
    def by_verdict(self) -> Mapping[Verdict, tuple[PlannedGpu, ...]]:
        """The candidates of each `verdict`."""
        return {verdict: tuple([gpu for gpu in self.gpus if gpu.verdict == verdict]) for verdict in VERDICTS}

    @property
    def fits_none(self) -> bool:
        """True if the engine does not fit a single candidate."""
        return bool(self.gpus) and all(gpu.verdict == "does-not-fit" for gpu in self.gpus)

    @property
    def is_unsure(self) -> bool:
        """True if no candidate certainly fits or fails."""
        return all(gpu.verdict == "unsure" for gpu in self.gpus)

    @cached_property
    def largest(self) -> Gpu | None:
        """The candidate with the most memory."""
        return max([gpu.gpu for gpu in self.gpus], key=lambda gpu: gpu.memory, default=None)

    @cached_property
    def needs(self) -> Needs | None:
        """The needs of each GPU, by the settings of the smallest GPU that fits, else of the largest candidate. None if
        there is no candidate, or if the size of one request is unknown."""
        fitting = [planned_gpu.gpu for planned_gpu in self.by_verdict["fits"]]
        gpu = min(fitting, key=lambda gpu: gpu.memory) if fitting else self.largest
        if gpu is None:
            return None
        ledger = self.engine.plan_on(gpu).ledger
        return needed_memory(ledger) if ledger is not None else None


def partition(
    args: EngineArgs,
    model: Model,
    candidates: Sequence[Candidate],
    *,
    env: Mapping[str, str] | None = None,
    one_release: bool = True,
    measured_starts: Sequence[MeasuredStart] = (),
    kv_cache_memory: int | None = None,
) -> Partition:
    """Plan the engine for each candidate.

    `one_release`: if the release is unknown, plan the newest that may serve the model instead of every possible one.
    `measured_starts`: measurements in logs, used if one was of exactly this start. `kv_cache_memory`: bytes that vLLM
    reported for the KV cache.
    """
    env = env or {}
    releases = plan.releases_of(args, model)  # oldest first
    release = releases[-1] if one_release or len(releases) == 1 else None
    key = repr((args.given, args.unresolved, args.quantization, sorted(env.items())))
    engine = PlannedEngine(
        key=key,
        model=model,
        release=release,
        args=args,
        env=env,
        measured_starts=tuple(measured_starts),
        kv_cache_memory=kv_cache_memory,
    )
    gpus = tuple([candidate.gpu for candidate in candidates])
    verdicts = _verdicts(engine, gpus) if len(key) <= MAX_KEY_LENGTH else engine.verdicts(gpus)
    planned_gpus = [_planned_gpu(candidate, verdict) for candidate, verdict in zip(candidates, verdicts, strict=True)]
    return Partition(tuple(_unique(planned_gpus)), engine)


VERDICTS: tuple[Verdict, ...] = ("fits", "unsure", "does-not-fit")
MAX_KEY_LENGTH = 4096
"""Characters of arguments and environment up to which results are cached: a repair plans the same engine again."""


@dataclass(frozen=True, slots=True)
class PlannedEngine:
    """An engine that is planned for many GPUs. Engines with equal arguments are equal."""

    key: str
    """The arguments and the environment as one text, by which engines are compared: `args` and `env` have no hash."""
    model: Model
    release: Release | None
    """The release that is planned; None: every possible one."""
    args: EngineArgs = field(compare=False)
    env: Mapping[str, str] = field(compare=False)
    measured_starts: tuple[MeasuredStart, ...] = ()
    """Measurements in logs, used if one was of exactly this start."""
    kv_cache_memory: int | None = None
    """Bytes that vLLM reported for the KV cache; None if they are planned."""

    def verdicts(self, gpus: Sequence[Gpu]) -> tuple[Verdict, ...]:
        """The `verdict` on each GPU, in their order."""
        if self.release is None or self.measured_starts or self.kv_cache_memory is not None:
            return tuple([self.plan_on(gpu).verdict for gpu in gpus])
        # one release without measurements: GPUs of one class share a plan
        return tuple(plan.verdicts(self.args, self.model, gpus, self.release, env=self.env))

    def plan_on(self, gpu: Gpu) -> PlannedRelease:
        """The plan on one GPU, of the planned release if there is one."""
        args = replace(self.args, release=self.release) if self.release is not None else self.args
        return plan.judge(
            args,
            self.model,
            Accelerator((gpu,), None),
            env=self.env,
            measured_starts=self.measured_starts,
            kv_cache_memory=self.kv_cache_memory,
        )


@lru_cache(256)
def _verdicts(engine: PlannedEngine, gpus: tuple[Gpu, ...]) -> tuple[Verdict, ...]:
    """The results of the plans on each of the GPUs, in their order, cached."""
    return engine.verdicts(gpus)


def _planned_gpu(candidate: Candidate, verdict: Verdict) -> PlannedGpu:
    """The candidate with the result of its plan: `unsure` instead of `fits` if other processes may use the same GPU."""
    return PlannedGpu(candidate, "unsure" if candidate.shared and verdict == "fits" else verdict)


def _unique(planned: Iterable[PlannedGpu]) -> Iterable[PlannedGpu]:
    """Each name once. A GPU that is a candidate twice (shared and alone) is `unsure` if the results differ."""
    by_name: dict[str, PlannedGpu] = {}
    for planned_gpu in planned:
        first = by_name.setdefault(planned_gpu.gpu.name, planned_gpu)
        if first.verdict != planned_gpu.verdict:
            by_name[planned_gpu.gpu.name] = first._replace(verdict="unsure")
    return by_name.values()


def needed_memory(ledger: GpuLedger) -> Needs | None:
    """Total bytes that each GPU must have for the lines of this ledger and one request of max_model_len. None if the KV
    cache of a request is unknown.

    The lines in the budget and the request come out of the budget, which is a share of the total. A given size of the
    KV cache (`--kv-cache-memory-bytes`) replaces both the share and the request. A pooling model without a KV cache
    needs its lines alone. The total also holds the weights while they load.
    """
    budget_settings, kv_bytes = ledger.resolved.budget, ledger.least_kv_cache_bytes
    if kv_bytes is None:
        if not ledger.resolved.settings.pooling:
            return None
        kv_bytes = 0
    share = budget_settings.utilization
    if budget_settings.kv_cache_memory:
        share, kv_bytes = 1.0, budget_settings.kv_cache_memory
    elif not 0 < share <= 1:  # vLLM rejects it
        share = 1.0
    # the range of what is left has the ranges of the budget and of the lines; only that of the lines counts here
    left, allowed = ledger.kv_cache, ledger.budget
    lines = sum(charge.amount.likely for charge in ledger.charged)
    lines_low = lines - max(0, left.high - left.likely)
    lines_high = lines + max(0, left.likely - left.low - (allowed.likely - allowed.low))
    loading = ledger.loading.likely if ledger.loading else 0

    def total(lines_in_budget: int) -> int:
        """Bytes of a GPU whose budget holds these lines and the KV cache."""
        return max(loading, int((lines_in_budget + kv_bytes) / share))

    return Needs(total(lines_low), total(lines), total(lines_high))
