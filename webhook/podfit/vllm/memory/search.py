"""A search for changes to one engine: does it fit with these arguments changed? What does not change is kept between
the tries. A ratio excludes tries that fail because of the weights alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu
from podfit.vllm.memory import arguments, loaded, plan
from podfit.vllm.memory.arguments import MemoryArguments
from podfit.vllm.memory.loaded import LoadedEngine
from podfit.vllm.model import Model
from podfit.vllm.release import Release


class SpentError(Exception):
    """The search has made as many plans as it may."""


class _Targets(NamedTuple):
    """The GPUs on which a change is planned."""

    gpus: Sequence[Gpu | None]
    """None: a GPU of which only the measured memory is known."""
    memory: int | None
    """Measured bytes of each; None if they were not measured."""


class _Weights(NamedTuple):
    """The weights of the unchanged engine with one release, if they are equally large on every GPU model; else 0."""

    heaviest: int
    """Likely bytes on the rank with the most."""
    share: float
    """The share of the GPU that vLLM may use, 0 to 1."""


_BY_GPU = _Weights(heaviest=0, share=0.0)


@dataclass
class Search:
    """One engine, and the plans of its changes."""

    args: EngineArgs
    model: Model
    accelerator: Accelerator
    gpu_memory: int | None
    """Measured bytes of each GPU; None if they were not measured."""
    env: Mapping[str, str] | None
    steps: int
    """Plans that the search may still make."""

    def __post_init__(self) -> None:
        self._releases = list(plan.releases_of(self.args, self.model))
        self._gpus = plan.gpus_of(self.accelerator, self.gpu_memory)
        self._as_it_is = arguments.read(self.args, self.model, self.env or {})
        self.cut = self._as_it_is.parallel
        self._loaded: dict[tuple[int, Release], LoadedEngine | None] = {}
        """(index of the GPU, release) → the unchanged engine there."""
        self._weights: dict[Release, _Weights] = {}

    def fits(self, changes: Mapping[str, Any], gpus: Sequence[Gpu] | None = None, model: Model | None = None) -> bool:
        """True if the engine fits with these arguments changed, on every one of these GPUs and with every possible
        release. `gpus` None: the present ones; `model` None: the present checkpoint.

        Each release costs one step; raises SpentError if none is left."""
        targets = self._targets(gpus)
        ratio = self._rank_ratio(changes) if model is None else 0.0
        smallest = _least_memory(targets) if ratio else 0
        memory_arguments: MemoryArguments | None = None
        for index, release in enumerate(self._releases):
            if self.steps <= 0:
                raise SpentError
            self.steps -= 1
            # the ratio is tried for the first release alone, which is the one that failed last
            if index or not smallest or not self._is_too_heavy(release, ratio, smallest):
                memory_arguments = memory_arguments or self._changed_arguments(changes, model)
                if plan.fit(memory_arguments, targets.gpus, targets.memory, release):
                    continue
            self._releases.insert(0, self._releases.pop(index))  # it will probably fail again, so try it first
            return False
        return True

    def _targets(self, gpus: Sequence[Gpu] | None) -> _Targets:
        """These GPUs, or the present ones if there are none. A measurement on the present GPU does not apply to another
        GPU model."""
        return _Targets(gpus, memory=None) if gpus else _Targets(self._gpus, self.gpu_memory)

    def _changed_arguments(self, changes: Mapping[str, Any], model: Model | None = None) -> MemoryArguments:
        """The memory arguments after the changes."""
        if not changes and model is None:
            return self._as_it_is
        return arguments.read(with_changes(self.args, changes), model or self.model, self.env or {})

    def _rank_ratio(self, changes: Mapping[str, Any]) -> float:
        """How many times as many GPUs the weights are cut over after the changes. 0 if an argument changes besides the
        tensor-parallel size, so that the ratio says nothing."""
        if not changes:
            return 1.0
        return changes["tensor_parallel_size"] / self.cut.tp if changes.keys() == {"tensor_parallel_size"} else 0.0

    def _is_too_heavy(self, release: Release, ratio: float, memory: int) -> bool:
        """True if the weights use up the budget of a GPU of `memory` bytes even if each is cut over `ratio` times as
        many GPUs. This ratio excludes most of what a search tries, without a plan."""
        weights = self._weights.get(release)
        if weights is None:
            weights = self._weights[release] = self._present_weights(release)
        return weights.heaviest > 0 and weights.heaviest / ratio >= int(memory * weights.share)

    def _present_weights(self, release: Release) -> _Weights:
        """The weights of the unchanged engine on its first GPU model; _BY_GPU if they are unknown or depend on it."""
        engine = self._loaded_on(0, release) if self._gpus else None
        if engine is None or not engine.has_same_weights_elsewhere(self._as_it_is.width):
            return _BY_GPU
        return _Weights(engine.ranks.heaviest, engine.resolved.budget.utilization)

    def is_full(self, share: float | None = None) -> bool:
        """True if the weights alone use up the budget on one of the GPU models with one of the releases, or if they are
        unknown. `share`: of the GPU's memory, 0 to 1, instead of the budget; then they use up a smaller one, too."""
        engines = (self._loaded_on(index, release) for index in range(len(self._gpus)) for release in self._releases)
        return any(engine is None or engine.is_full(share) for engine in engines)

    def _loaded_on(self, index: int, release: Release) -> LoadedEngine | None:
        """The unchanged engine on one of its GPU models, computed once. None as for `loaded.load`."""
        if (index, release) not in self._loaded:
            self._loaded[index, release] = loaded.load(self._as_it_is, self._gpus[index], self.gpu_memory, release)
        return self._loaded[index, release]

    def longest(self, changes: Mapping[str, Any], gpus: Sequence[Gpu] | None = None) -> int:
        """Tokens of the longest context that may fit with these arguments changed, calculated without a plan; 0 if none
        does. `gpus` None: the present ones."""
        targets = self._targets(gpus)
        return plan.longest(self._changed_arguments(changes), targets.gpus, targets.memory, self._releases)

    def given(self, dest: str) -> int | None:
        """A whole number above 0 from the command line."""
        value = self.args.given.get(dest)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _least_memory(targets: _Targets) -> int:
    """Likely bytes of the smallest of the GPUs; 0 if unknown."""
    if targets.memory:
        return targets.memory
    return min([gpu.memory_likely or gpu.memory for gpu in targets.gpus if gpu is not None], default=0)


def with_changes(args: EngineArgs, changes: Mapping[str, Any]) -> EngineArgs:
    """The command line with some arguments changed, whose values are known then. `changes`: as `Alternative.changes`;
    its GPUs and its checkpoint are not arguments and are left out."""
    if not changes:
        return args
    own = {dest: value for dest, value in changes.items() if dest not in ("gpus", "product", "model")}
    unresolved = {dest: why for dest, why in args.unresolved.items() if dest not in own}
    return args.with_arguments({**args.given, **own}, unresolved)
