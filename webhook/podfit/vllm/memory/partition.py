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
    """Bytes that each GPU must have so that the engine starts."""

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
        the size of one request is unknown."""
        fitting = [planned_gpu.gpu for planned_gpu in self.by_verdict["fits"]]
        smallest = min(fitting, key=lambda gpu: gpu.memory, default=self.largest)
        planned = self.engine.plan_on(smallest) if smallest else None
        return needed_memory(planned.ledger) if planned and planned.ledger else None


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
    `measured_starts` and `kv_cache_memory` are as for `plan.plan`.
    """
    releases = plan.releases_of(args, model)
    release = releases[-1] if one_release or len(releases) == 1 else None
    text = repr((args.given, args.unresolved, args.quantization, sorted((env or {}).items())))
    engine = PlannedEngine(text, model, release, args, env or {}, tuple(measured_starts), kv_cache_memory)
    gpus = tuple([candidate.gpu for candidate in candidates])
    verdicts = _verdicts(engine, gpus) if len(text) <= MAX_KEY_LENGTH else engine.verdicts(gpus)
    placed = [_placed(*pair) for pair in zip(candidates, verdicts, strict=True)]
    return Partition(tuple(_unique(placed)), engine)


VERDICTS: tuple[Verdict, ...] = ("fits", "unsure", "does-not-fit")
MAX_KEY_LENGTH = 4096
"""Characters of arguments and environment up to which results are cached: a repair plans the same engine again."""


@dataclass(frozen=True, slots=True)
class PlannedEngine:
    """An engine that is planned for many GPUs. Engines with equal arguments are equal."""

    text: str
    """The arguments and the environment."""
    model: Model
    release: Release | None
    """The release that is planned; None: every possible one."""
    args: EngineArgs = field(compare=False)
    env: Mapping[str, str] = field(compare=False)
    known: tuple[MeasuredStart, ...] = ()
    kv_cache_memory: int | None = None

    def verdicts(self, gpus: Sequence[Gpu]) -> tuple[Verdict, ...]:
        """The `verdict` on each GPU."""
        if self.release is None or self.known or self.kv_cache_memory is not None:
            return tuple([self.plan_on(gpu).verdict for gpu in gpus])
        return tuple(plan.verdicts(self.args, self.model, gpus, self.release, env=self.env))

    def plan_on(self, gpu: Gpu) -> PlannedRelease:
        """The plan on one GPU."""
        args = replace(self.args, release=self.release) if self.release is not None else self.args
        return plan.judge(
            args,
            self.model,
            Accelerator((gpu,), None),
            env=self.env,
            measured_starts=self.known,
            kv_cache_memory=self.kv_cache_memory,
        )


@lru_cache(256)
def _verdicts(engine: PlannedEngine, gpus: tuple[Gpu, ...]) -> tuple[Verdict, ...]:
    """The results of the plans on each of the GPUs, cached."""
    return engine.verdicts(gpus)


def _placed(candidate: Candidate, verdict: Verdict) -> PlannedGpu:
    """The candidate with the result of its plan: `unsure` instead of `fits` if other processes may use the same GPU."""
    return PlannedGpu(candidate, "unsure" if candidate.shared and verdict == "fits" else verdict)


def _unique(planned: Iterable[PlannedGpu]) -> Iterable[PlannedGpu]:
    """Each name once. A GPU that is a candidate twice (shared and alone) is `unsure` if the results differ."""
    by_name: dict[str, PlannedGpu] = {}
    for planned_gpu in planned:
        before = by_name.setdefault(planned_gpu.gpu.name, planned_gpu)
        if before.verdict != planned_gpu.verdict:
            by_name[planned_gpu.gpu.name] = before._replace(verdict="unsure")
    return by_name.values()


def needed_memory(ledger: GpuLedger) -> Needs | None:
    """Total bytes that each GPU must have for the lines of this ledger and one request of max_model_len. None if the KV
    cache of a request is unknown.

    The request comes out of the budget, which is a share of the total. Before 0.20 the CUDA graphs come out of the
    rest of the total.
    """
    least, resolved = ledger.least_kv_cache_bytes, ledger.resolved
    if least is None:
        if not resolved.settings.pooling:
            return None
        least = 0
    left, allowed = ledger.kv_cache, ledger.budget
    taken = sum(charge.amount.likely for charge in ledger.charged)
    less = max(0, left.high - left.likely)
    more = max(0, left.likely - left.low - (allowed.likely - allowed.low))
    share, given = resolved.budget.utilization, resolved.budget.kv_cache_memory
    if given or not 0 < share <= 1:
        share, least = 1.0, given or least
    loading = ledger.loading.likely if ledger.loading else 0
    low, likely, high = (max(loading, int((size + least) / share)) for size in (taken - less, taken, taken + more))
    return Needs(low, likely, high)
