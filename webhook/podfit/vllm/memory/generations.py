"""Releases that are planned if the release is unknown: one per way to count memory, if it can serve the model."""

from __future__ import annotations

from functools import cache, lru_cache

from podfit.vllm.args import EngineArgs
from podfit.vllm.memory import parallel
from podfit.vllm.model import Model, architectures
from podfit.vllm.release import Release, newest_read

OLDEST = Release(0, 4)
"""The oldest release for which anything is certain."""
FORMER_GENERATIONS = tuple(
    Release(*numbers)
    for numbers in ((0, 6, 3), (0, 7, 3), (0, 8, 5), (0, 10, 2), (0, 13), (0, 16), (0, 18), (0, 19), (0, 25))
)
"""The last release of each former way to count memory; the newest release that was read is of the present one:

- V0 with its three ways; V1 with and without NCCL in the budget
- the samplers of 0.11.1, 0.17 and 0.21; CUDA graphs in the budget from 0.20; batches of 0.28
- 0.13 and 0.18 for their checks of one request (`kv_cache`)"""
OF_STAGES, OF_GROUPS = Release(0, 13), Release(0, 18)
"""They differ from the next generation only with pipeline stages, or only with layers of different kinds."""
SINCE = {
    "gemma3n": Release(0, 9),
    "gemma4_text": Release(0, 18),
    "glm4v_moe": Release(0, 10),
    "kimi_linear": Release(0, 11),
    "mistral3": Release(0, 8),
}
"""model_type → the first release that serves it, or an earlier one, if the architecture does not identify the release
(vLLM's release notes)."""


@cache
def memory_generations() -> tuple[Release, ...]:
    """One release per way to count memory, oldest first. The last one is the default of generated manifests and
    `podfit plan`."""
    return (*FORMER_GENERATIONS, newest_read())


def possible(model: Model, args: EngineArgs | None = None) -> tuple[Release, ...]:
    """The generations that may serve this model, oldest first; the newest is always included.

    With `args`, generations whose parser does not know all flags are left out. For this, each generation represents the
    releases after the previous one, up to itself. If none is left, the flags are ignored. A generation that counts this
    engine's memory like the next one is also left out.
    """
    staged = args is not None and parallel.size(args, "pipeline_parallel_size") != 1
    return _possible(model, staged, args.releases if args else ())


@lru_cache(256)
def _possible(model: Model, staged: bool, accepting: tuple[Release, ...]) -> tuple[Release, ...]:
    """`possible`, cached. `staged`: there are pipeline stages; `accepting`: the releases that know all flags, () if the
    flags are unknown."""
    generations = _distinct(staged=staged, has_kinds_of_layers=len(set(model.layer_types)) > 1)
    since = SINCE.get(model.model_type or "", OLDEST)
    architecture = architectures.architecture_of(model)
    missing = architecture.missing if architecture else Release(0, 0)
    serving = [release for release in generations if release >= since and release > missing] or [newest_read()]
    accepted = []
    for release in serving:
        index = generations.index(release)
        previous = generations[index - 1] if index else OLDEST
        if any(previous <= known <= _last(release) for known in accepting):
            accepted.append(release)
    return tuple(accepted or serving)


def _distinct(*, staged: bool, has_kinds_of_layers: bool) -> list[Release]:
    """The generations that count the memory of such an engine in different ways, oldest first. `has_kinds_of_layers`:
    its layers are of more than one kind."""
    like_the_next = set()
    if not staged:
        like_the_next.add(OF_STAGES)
    if not has_kinds_of_layers:
        like_the_next.add(OF_GROUPS)
    return [release for release in memory_generations() if release not in like_the_next]


def _last(generation: Release) -> Release:
    """The last release that a generation represents: every patch of its minor; for the newest, all that follow. Patch
    99 and release 9.0 are above any that will be."""
    return Release(generation.major, generation.minor, 99, 99) if generation != newest_read() else Release(9, 0)
