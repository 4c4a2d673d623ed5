"""A search for changes to one engine: does it fit with these arguments changed? What does not change is kept between
the tries. A ratio excludes tries that fail because of the weights alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu
from podfit.vllm.memory import arguments, loaded, plan
from podfit.vllm.memory.arguments import MemoryArguments
from podfit.vllm.memory.loaded import LoadedEngine
from podfit.vllm.model import Model
from podfit.vllm.release import Release


class SpentError(Exception):
    """The search has made as many plans as it may."""


@dataclass
class Search:
    """One engine, and the plans of its changes."""

    args: EngineArgs
    model: Model
    accelerator: Accelerator
    gpu_memory: int | None
    env: Mapping[str, str] | None
    steps: int
    """Plans that the search may still make."""

    def __post_init__(self) -> None:
        self._releases = list(plan.releases_of(self.args, self.model))
        self._gpus = plan.gpus_of(self.accelerator, self.gpu_memory)
        self._as_it_is = arguments.read(self.args, self.model, self.env or {})
        self.cut = self._as_it_is.parallel
        self._loaded: dict[tuple[int, Release], LoadedEngine | None] = {}
        self._weights: dict[Release, tuple[int, float]] = {}
        """Likely bytes on the heaviest rank, and the share of the GPU that it may use; 0 if they depend on the GPU."""

    def fits(self, changes: Mapping[str, Any], gpus: Sequence[Gpu] | None = None, model: Model | None = None) -> bool:
        """True if the engine fits with these arguments changed, on these GPUs, with this checkpoint."""
        where, memory = self._where(gpus)
        more = self._times(changes) if model is None else 0.0
        room = _room(where, memory) if more else 0
        memory_arguments: MemoryArguments | None = None
        for index, release in enumerate(self._releases):
            if self.steps <= 0:
                raise SpentError
            self.steps -= 1
            if index or not room or not self._is_too_heavy(release, more, room):
                memory_arguments = memory_arguments or self._changed_arguments(changes, model)
                if plan.fit(memory_arguments, where, memory, release):
                    continue
            self._releases.insert(0, self._releases.pop(index))  # it will probably fail again, so try it first
            return False
        return True

    def _where(self, gpus: Sequence[Gpu] | None) -> tuple[Sequence[Gpu | None], int | None]:
        """The GPUs, and their measured memory. A measurement on the present GPU does not apply to another GPU model."""
        return (gpus, None) if gpus else (self._gpus, self.gpu_memory)

    def _changed_arguments(self, changes: Mapping[str, Any], model: Model | None = None) -> MemoryArguments:
        """The memory arguments after the changes."""
        if not changes and model is None:
            return self._as_it_is
        return arguments.read(with_changes(self.args, changes), model or self.model, self.env or {})

    def _times(self, changes: Mapping[str, Any]) -> float:
        """How many times as many GPUs the weights are cut over; 0 if more than that changes."""
        if not changes:
            return 1.0
        return changes["tensor_parallel_size"] / self.cut.tp if changes.keys() == {"tensor_parallel_size"} else 0.0

    def _is_too_heavy(self, release: Release, more: float, room: int) -> bool:
        """True if the weights use up the budget of a GPU of `room` bytes even if each is cut over `more` times as many
        GPUs. This ratio excludes most of what a search tries, without a plan."""
        if (weight := self._weights.get(release)) is None:
            begun = self._begun(0, release) if self._gpus else None
            alike = begun is not None and begun.has_same_weights_elsewhere(self._as_it_is.width)
            weight = (begun.ranks.heaviest, begun.resolved.budget.utilization) if begun and alike else (0, 0.0)
            self._weights[release] = weight
        heaviest, share = weight
        return heaviest > 0 and heaviest / more >= int(room * share)

    def is_full(self, share: float | None = None) -> bool:
        """True if the weights alone use up the budget, or this share of the GPU: then they use up a smaller one,
        too."""
        begun = (self._begun(index, release) for index in range(len(self._gpus)) for release in self._releases)
        return any(loaded_engine is None or loaded_engine.is_full(share) for loaded_engine in begun)

    def _begun(self, index: int, release: Release) -> LoadedEngine | None:
        """The unchanged engine, on one of its GPU models. None as for `loaded.load`."""
        if (index, release) not in self._loaded:
            loaded_engine = loaded.load(self._as_it_is, self._gpus[index], self.gpu_memory, release)
            self._loaded[index, release] = loaded_engine
        return self._loaded[index, release]

    def longest(self, changes: Mapping[str, Any], gpus: Sequence[Gpu] | None = None) -> int:
        """Tokens of the longest context that may fit with these arguments changed, calculated without a plan."""
        where, memory = self._where(gpus)
        return plan.longest(self._changed_arguments(changes), where, memory, self._releases)

    def given(self, dest: str) -> int | None:
        """A whole number above 0 from the command line."""
        value = self.args.given.get(dest)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _room(gpus: Sequence[Gpu | None], measured: int | None) -> int:
    """Likely bytes of the smallest of the GPUs; 0 if unknown."""
    if measured:
        return measured
    return min([gpu.memory_likely or gpu.memory for gpu in gpus if gpu is not None], default=0)


def with_changes(args: EngineArgs, changes: Mapping[str, Any]) -> EngineArgs:
    """The command line with some arguments changed."""
    if not changes:
        return args
    own = {dest: value for dest, value in changes.items() if dest not in ("gpus", "product", "model")}
    unresolved = {dest: why for dest, why in args.unresolved.items() if dest not in own}
    return args.with_arguments({**args.given, **own}, unresolved)
