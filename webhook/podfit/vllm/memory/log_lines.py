"""The ledger's lines as vLLM printed them, if a start in a log was exactly this one (`podfit.vllm.measured`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from podfit.kube.quantity import MI
from podfit.vllm import measured
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Gpu
from podfit.vllm.measured import MeasuredStart
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.lines import KV_CACHE
from podfit.vllm.memory.ranks import Rank, added
from podfit.vllm.model import Model
from podfit.vllm.model.given import key
from podfit.vllm.release import Release

STARTS_DIFFER, ROUNDED = 0.01, 16 * MI
"""The share of a line by which two starts of one setting differ at most, and the bytes by which a log rounds: it prints
two decimals of a GiB."""
APART = 0.005
"""Share of GPU memory by which the KV cache of two equal starts may differ (public logs of one setting: 0.1 … 0.3
%)."""


def of(
    measured_starts: Sequence[MeasuredStart],
    args: EngineArgs,
    model: Model,
    gpu: Gpu | None,
    estimate: Estimate,
    release: Release,
    env: Mapping[str, str],
) -> MeasuredStart | None:
    """The measured start that was exactly this one: the same model, GPU model, memory, release and arguments. None if
    there is none.

    `estimate`: the GPU's memory. None also if an argument or the GPU model is unknown, and with pipeline stages, whose
    ranks differ."""
    if gpu is None or args.release != release or args.unresolved or args.open:
        return None
    if (args.given.get("pipeline_parallel_size") or 1) != 1:
        return None
    names = (model.id, key(args.model or ""))
    arguments = measured.canonical_arguments(args.given, args.defaults, env)
    return measured.find_measured(measured_starts, names, gpu.name, estimate.likely, release, arguments)


def rank(measured_start: MeasuredStart, own: Rank) -> Rank:
    """The rank with the measured lines instead of its own; a line that was not measured stays as it is."""
    charges = [
        replace(charge, amount=_line(charge.amount, measured_start.lines.get(charge.line.id), measured_start))
        for charge in own.charges
    ]
    return added(tuple(charges), own.layout)


def _line(own: Estimate, size: int | None, measured_start: MeasuredStart) -> Estimate:
    """The line with its measured `size` in bytes; the line itself if that is None. The floor may fall but never rises:
    a denial must be certain for every start."""
    if size is None:
        return own
    slack = int(max(STARTS_DIFFER * size, ROUNDED))
    low = max(0, size - slack)
    return Estimate(min(own.floor, low), low, size, size + slack, "measured", measured_start.source)


def kv_cache(measured_start: MeasuredStart, own: Estimate, estimate: Estimate) -> Estimate:
    """The measured memory for the KV cache; `own` if it was not measured. `floor` is the certain maximum: it may rise
    but never falls. `estimate`: the GPU's memory."""
    size = measured_start.lines.get(KV_CACHE)
    if size is None:
        return own
    slack = int(APART * estimate.likely)
    return Estimate(max(own.floor, size + slack), size - slack, size, size + slack, "measured", measured_start.source)
