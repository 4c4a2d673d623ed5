"""The numbers of a plan, for GPU and host memory, that can be compared with measurements of a container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.ledger import GpuLedger, MemoryPlan
from podfit.vllm.memory.lines import TITLES

Plane = Literal["gpu", "host"]


class Span(NamedTuple):
    """Bytes: the 95 % interval and what is likely."""

    low: int
    likely: int
    high: int

    @classmethod
    def of(cls, line: Estimate) -> Span:
        """The interval of a ledger's line, in bytes."""
        return cls(max(0, line.low), max(0, line.likely), max(0, line.high))


Planned = Mapping[Plane, Mapping[str, Span]]
"""Plane → line → bytes: of one GPU, and of the container's host memory. A plane that can't be planned is not there."""

USED = "used"
"""GPU: all that vLLM holds of one GPU once it serves."""
STEADY, PEAK = "steady", "peak"
"""Host: unreclaimable memory while serving, and at its highest."""


def planned_lines(plan: MemoryPlan) -> Planned:
    """The lines of both ledgers, in bytes. The host's names are in lower case with `_` for what is not a letter."""
    entries: dict[Plane, dict[str, Span]] = {}
    if plan.gpu is not None:
        lines = {name: Span.of(plan.gpu.amount(name)) for name in TITLES}
        entries["gpu"] = {**lines, "budget": Span.of(plan.gpu.budget), USED: _used_of_gpu(plan.gpu)}
    if plan.host is not None:
        named = {_line_name(name): Span.of(line) for name, line in plan.host.lines}
        entries["host"] = {**named, STEADY: Span.of(plan.host.steady), PEAK: Span.of(plan.host.peak)}
    return entries


def _used_of_gpu(ledger: GpuLedger) -> Span:
    """Bytes of one GPU that vLLM uses once it serves: the sum of all lines. The KV cache takes what the other lines
    leave of the budget, so their doubts cancel out. Left are those of the budget, and of lines outside of it."""
    likely = sum(max(0, ledger.amount(name).likely) for name in TITLES)
    doubtful = [ledger.budget, *(charge.amount for charge in ledger.charges if charge.line.may_be_outside)]
    low = likely - sum(amount.likely - amount.low for amount in doubtful)
    high = likely + sum(amount.high - amount.likely for amount in doubtful)
    return Span(max(0, low), likely, high)


def _line_name(name: str) -> str:
    """A ledger line's name in lower case, with `_` for anything that is not a letter or digit."""
    return "".join(letter if letter.isalnum() else "_" for letter in name).strip("_").lower()
