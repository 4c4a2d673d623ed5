"""Facts about models and accelerators: an immutable snapshot made at the edge, and one order in which to ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", covariant=True)


@dataclass(frozen=True)
class Fact(Generic[T]):
    """A value, where it came from, and whether a denial may rest on it."""

    value: T
    source: str
    """For people: "built-in catalogue (config.json)", "node label nvidia.com/gpu.product", "guessed from the path"."""
    may_deny: bool
