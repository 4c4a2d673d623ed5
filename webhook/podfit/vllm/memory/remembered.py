"""`lru_cache` for results that are as large as the model is deep."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from podfit.vllm.model import Model

P = ParamSpec("P")
T = TypeVar("T")
Result = TypeVar("Result", covariant=True)

DEEP, DEEP_ENTRIES = 512, 8
"""Layers from which a model is deeper than any published one (128), and how many results for such models are kept. Both
are chosen: a result takes memory in proportion to the layers, so eight of such models take little."""


class Remembered(Protocol, Generic[P, Result]):
    """A function whose results are cached; `cache_info` is of deep models' results."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result: ...
    def cache_info(self) -> Any: ...
    def cache_clear(self) -> None: ...


def remembered(
    entries: int,
) -> Callable[[Callable[Concatenate[Model, P], T]], Remembered[Concatenate[Model, P], T]]:
    """Decorate a function of a model, so that its last results are cached: at most `entries`, and of models with DEEP
    layers at most DEEP_ENTRIES.

    An author decides how many layers a model has, and so how much memory a cached result takes.
    """

    def decorate(function: Callable[Concatenate[Model, P], T]) -> Remembered[Concatenate[Model, P], T]:
        """The function with one cache for usual models and one for deep ones."""
        usual, deep = lru_cache(entries)(function), lru_cache(DEEP_ENTRIES)(function)

        def call(model: Model, *args: P.args, **kwargs: P.kwargs) -> T:
            """The function's result, from the cache for models as deep as this one."""
            cached: Callable[..., T] = deep if model.described_layers >= DEEP else usual
            return cached(model, *args, **kwargs)

        def clear() -> None:
            """Empty both caches."""
            usual.cache_clear()
            deep.cache_clear()

        update_wrapper(call, function)
        call.__dict__.update(cache_info=deep.cache_info, cache_clear=clear)
        return cast("Remembered[Concatenate[Model, P], T]", call)

    return decorate
