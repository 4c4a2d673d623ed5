"""The lines and the KV cache layout of one rank, independent of the budget and the length of a request. Plans of one
model mostly differ only in these two, so results are cached by all other settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podfit.vllm.memory import kv_cache, lines, loading, weights
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.kv_cache import Layout
from podfit.vllm.memory.line import Charge
from podfit.vllm.memory.remembered import remembered
from podfit.vllm.memory.settings import Settings
from podfit.vllm.memory.weights import Checkpoint
from podfit.vllm.model import Model


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """The lines of one rank, and the sum of those that count against the budget."""

    charges: tuple[Charge, ...]
    """In the order of `lines.LINES`."""
    layout: Layout | None
    least: int
    """Bytes that certainly count against the budget."""
    taken: int
    """Bytes that likely count against it."""
    less: int
    more: int
    """Bytes by which the likely value may be too high or too low."""
    loading: Estimate | None = None
    """The weights while they load, if they are larger then."""


class Ranks(NamedTuple):
    """The ranks of an engine that may have the least room."""

    checkpoint: Checkpoint
    ranks: tuple[Rank, ...]
    heaviest: int
    """Likely bytes of the model's weights on the rank with the most."""
    loading: int
    """Bytes that are certainly on a rank while the weights load, if that is more than what stays; else 0."""


@remembered(512)
def of(model: Model, settings: Settings) -> Ranks | None:
    """The ranks of an engine; None if the checkpoint's size is unknown."""
    checkpoint = weights.checkpoint(model, settings)
    if checkpoint is None:
        return None
    stages = weights.heaviest(checkpoint, settings)
    own = [weights.line(checkpoint, model, settings, stage) for stage in stages]
    ranks = [_rank(model, settings, checkpoint, stage) for stage in stages]
    most = max((rank.loading.floor for rank in ranks if rank.loading), default=0)
    return Ranks(checkpoint, tuple(ranks), max(line.likely for line in own), most)


def _rank(model: Model, settings: Settings, checkpoint: Checkpoint, stage: int) -> Rank:
    """The ledger lines of a rank of one pipeline stage."""
    first, last = settings.parallel.stage(stage, checkpoint.layers)
    layout = kv_cache.layout(model, settings, first, last)
    before = loading.line(model, settings, stage)
    if before is not None and model.is_minimum:
        before = before.bound()
    return added(lines.charges(model, settings, checkpoint, stage), layout, before)


def added(charges: tuple[Charge, ...], layout: Layout | None, estimate: Estimate | None = None) -> Rank:
    """A rank of these lines. `estimate`: the weights while they load, if they are larger then."""
    inside = [charge.amount for charge in charges if charge.in_budget]
    return Rank(
        charges=charges,
        layout=layout,
        least=sum([amount.floor for amount in inside]),
        taken=sum([amount.likely for amount in inside]),
        less=_doubt([amount.likely - amount.low for amount in inside]),
        more=_doubt([amount.high - amount.likely for amount in inside]),
        loading=estimate,
    )


def _doubt(deviations: Sequence[float]) -> int:
    """The square root of the sum of squares: the uncertainties are independent."""
    return int(sum([deviation * deviation for deviation in deviations if deviation > 0]) ** 0.5)
