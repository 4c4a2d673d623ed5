"""The definition of a line of the GPU's ledger. `lines` lists all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.settings import Settings
from podfit.vllm.memory.weights import Checkpoint
from podfit.vllm.model import Model

SIZE = r"(-?\d+(?:\.\d+)?) ?Gi?B"
"""A size as vLLM's logs print it."""


def always(settings: Settings) -> bool:
    """Charge the line to the budget in every release."""
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """Memory of one purpose on one rank. Texts, JSON, schemas, charts, docs/memory.md and `podfit calibrate` are made
    from these."""

    id: str
    """The name of its module, and in JSON, schemas and measurements."""
    title: str
    """The name for people."""
    about: str
    """The purpose of the line, for docs/memory.md."""
    reads: frozenset[str]
    """The parts of `Settings` that decide the amount; a test checks that it reads no other."""
    amount: Callable[[Model, Settings, Checkpoint, int], Estimate]
    """The model, the settings, the checkpoint and the pipeline stage → the bytes of a rank."""
    is_charged: Callable[[Settings], bool] = always
    """True if the release counts the line in the budget. Otherwise it is memory outside of the budget."""
    grows_with_layers: bool = True
    """True if only the minimum of the line is known for a model with more layers than are described."""
    printed: tuple[str, ...] = ()
    """Patterns of the texts in vLLM's logs that print the line, each with one SIZE."""
    in_every_log: bool = False
    """Every release prints it."""

    @property
    def may_be_outside(self) -> bool:
        """True if some releases have it outside of the budget."""
        return self.is_charged is not always


@dataclass(frozen=True, kw_only=True, slots=True)
class Charge:
    """A line with its amount on one rank."""

    line: Line
    amount: Estimate
    in_budget: bool
    """The release counts it in the budget."""
