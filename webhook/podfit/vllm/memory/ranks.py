"""The lines and the KV cache layout of one rank, independent of the budget and the length of a request. Plans of one
model mostly differ only in these two, so results are cached by all other settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from podfit.vllm.memory import activations, cuda_graphs, draft, kv_cache, loading, non_torch, weights
from podfit.vllm.memory.estimate import Estimate, plus
from podfit.vllm.memory.kv_cache import Layout
from podfit.vllm.memory.remembered import remembered
from podfit.vllm.memory.settings import Settings
from podfit.vllm.memory.weights import Checkpoint
from podfit.vllm.model import Model


class Rank(NamedTuple):
    """The lines of one rank, and the sum of those that count against the budget."""

    weights: Estimate
    activations: Estimate
    cuda_graphs: Estimate
    non_torch: Estimate
    graphs_charged: bool
    """The CUDA graphs count against the budget."""
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
    found = weights.checkpoint(model, settings)
    if found is None:
        return None
    stages = weights.heaviest(found, settings)
    own = [weights.line(found, model, settings, stage) for stage in stages]
    ranks = [_rank(model, settings, found, stage, line) for stage, line in zip(stages, own, strict=True)]
    most = max((rank.loading.floor for rank in ranks if rank.loading), default=0)
    return Ranks(found, tuple(ranks), max(line.likely for line in own), most)


def _rank(model: Model, settings: Settings, found: Checkpoint, stage: int, own: Estimate) -> Rank:
    """The ledger lines of a rank of one pipeline stage."""
    first, last = settings.parallel.stage(stage, found.layers)
    layout = kv_cache.layout(model, settings, first, last)
    loaded = plus(own, draft.line(model, settings, stage))
    peak = activations.line(model, settings, stage)
    graphs, other = cuda_graphs.line(model, settings), non_torch.line(settings)
    whole = loading.line(model, settings, stage)
    if model.is_minimum:
        loaded, peak, graphs = loaded.bound(), peak.bound(), graphs.bound()
        whole = whole and whole.bound()
    rank = added((loaded, peak, graphs, other), cuda_graphs.charged(settings), layout)
    return rank if whole is None else rank._replace(loading=whole)


def added(lines: tuple[Estimate, Estimate, Estimate, Estimate], graphs_charged: bool, layout: Layout | None) -> Rank:
    """A rank of these lines: weights, activations, CUDA graphs and non-torch memory."""
    loaded, peak, graphs, other = lines
    inside = (loaded, peak, other, graphs) if graphs_charged else (loaded, peak, other)
    return Rank(
        *lines,
        graphs_charged,
        layout,
        least=sum([one.floor for one in inside]),
        taken=sum([one.likely for one in inside]),
        less=_doubt([one.likely - one.low for one in inside]),
        more=_doubt([one.high - one.likely for one in inside]),
    )


def _doubt(deviations: Sequence[float]) -> int:
    """The square root of the sum of squares: the uncertainties are independent."""
    return int(sum([one * one for one in deviations if one > 0]) ** 0.5)
