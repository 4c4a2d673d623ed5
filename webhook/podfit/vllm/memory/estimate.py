"""A quantity with its uncertainty: the type of each line of a ledger."""

from __future__ import annotations

from math import erf, sqrt
from typing import NamedTuple

DEVIATIONS = 1.96
"""Standard deviations of a normal distribution between its middle and an end of its 95 % interval."""


class Estimate(NamedTuple):
    """A quantity in bytes with its uncertainty: `floor ≤ low ≤ likely ≤ high`.

    `low … high` is the 95 % interval for people, `floor` the certain minimum: only `floor` may support a denial. For
    *available* memory (total, budget, KV memory) the roles are reversed if a docstring says so.
    """

    floor: int
    low: int
    likely: int
    high: int
    note: str = ""
    """The arithmetic, for people: "131.4 GiB / 4"."""
    source: str = ""
    """Where the formula or the measurement comes from (`vLLM 0.33 v1/worker/gpu_worker.py`)."""
    is_bound: bool = False
    """Only `floor` is known. The other three are equal to it, so that no estimate is larger than what is certain."""

    def share_below(self, amount: float) -> float:
        """The probability that the quantity is less than `amount`, from 0 to 1.

        The distribution is a split normal one: `likely` is its median, 2.5 % are below `low` and 2.5 % above `high`.
        """
        distance = amount - self.likely
        end = self.high - self.likely if distance > 0 else self.likely - self.low
        if end <= 0:
            return 0.5 if distance == 0 else float(distance > 0)
        return 0.5 * (1 + erf(distance * DEVIATIONS / end / sqrt(2)))

    def bound(self) -> Estimate:
        """The estimate of which only the minimum is known."""
        return Estimate(self.floor, self.floor, self.floor, self.floor, self.note, self.source, is_bound=True)

    def json(self) -> dict[str, int | None]:
        """The four numbers, in bytes; None for those that are unknown."""
        if self.is_bound:
            return {"floor": self.floor, "low": None, "likely": None, "high": None}
        return {"floor": self.floor, "low": self.low, "likely": self.likely, "high": self.high}


NOTHING = Estimate(0, 0, 0, 0)
"""Zero bytes, with certainty."""


def plus(left: Estimate, estimate: Estimate) -> Estimate:
    """The sum of two estimates."""
    if not estimate.high:
        return left
    return Estimate(
        left.floor + estimate.floor, left.low + estimate.low, left.likely + estimate.likely, left.high + estimate.high,
        ", ".join(note for note in (left.note, estimate.note) if note), left.source, left.is_bound or estimate.is_bound,
    )  # fmt: skip


def independent(estimate: Estimate, other: Estimate) -> Estimate:
    """Both together, whose uncertainties do not depend on each other: the ends are nearer than their sums."""
    likely = estimate.likely + other.likely
    less = sqrt((estimate.likely - estimate.low) ** 2 + (other.likely - other.low) ** 2)
    more = sqrt((estimate.high - estimate.likely) ** 2 + (other.high - other.likely) ** 2)
    return Estimate(estimate.floor + other.floor, int(likely - less), likely, int(likely + more))
