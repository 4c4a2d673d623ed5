"""The measured constants, computed from start-ups: nothing is fitted by hand.

Two tables are measured: bytes of the sampler for each sequence and vocabulary entry (`activations.SAMPLERS`), and
memory outside PyTorch (`non_torch.MEASURED`), by class of releases and GPUs. `fit` computes the likely value of each
class from the given cases; a class without cases has the value that the sources alone give.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from benchmarks.startups import Case, Row, argv
from podfit.cli.support.batch import engine_of
from podfit.evaluation.policy import builtin
from podfit.kube.quantity import GI
from podfit.vllm.memory import activations, non_torch, ranks, settings
from podfit.vllm.memory.settings import ResolvedArguments
from podfit.vllm.model import Model

FROM_SOURCES = 14.0, 34.0
"""Bytes read from vLLM's sampler, without a measurement: logits in 16 bits and three float32 copies; with a sort:
values, 64-bit indices, and the sort's scratch."""
IN_BLOCKS = "Model Runner V2", 4.0
"""Its kernels read the logits in 16 bits, in blocks."""
SORTS = ("V0", "V1 before 0.11", "0.11.1 to 0.16", "AMD to 0.16")
UNMEASURED = 0.25, 0.5
"""GiB outside PyTorch of one rank, and of several that reduce together. Pipeline stages only hand on, and NCCL is
outside the budget from 0.11."""


@dataclass(frozen=True)
class Constants:
    """Class → its likely value, and of how many start-ups it is the median (0: none; from the sources)."""

    samplers: Mapping[str, tuple[float, int]]
    non_torch: Mapping[str, tuple[float, int]]


_RESOLVED: dict[str, tuple[ResolvedArguments, Model] | None] = {}


def resolved(case: Case) -> tuple[ResolvedArguments, Model] | None:
    """As `_resolve`, once for each case."""
    if case["id"] not in _RESOLVED:
        _RESOLVED[case["id"]] = _resolve(case)
    return _RESOLVED[case["id"]]


def _resolve(case: Case) -> tuple[ResolvedArguments, Model] | None:
    """What the case's release makes of its arguments, and its model; None where something is not known."""
    if not case.get("vllm_version"):
        return None
    total = case.get("gpu_total_gib")
    engine = engine_of(
        {
            "argv": argv(case),
            "gpu": f"{case.get('gpu') or 'unknown'}:{case.get('gpu_count') or 1}",
            "gpu_memory_bytes": int(total * GI) if total else None,
            "vllm_version": case.get("vllm_version"),
        },
        builtin(),
    )
    if engine is None or engine.model is None or engine.gpu is None or engine.release is None:
        return None
    gpu, model = engine.gpu.value.gpus[0], engine.model.value
    return settings.resolve(engine.args, model, gpu, gpu.memory, engine.release, {}), model


def _from_sources(name: str) -> float:
    """Bytes of a sampler without a measurement."""
    return IN_BLOCKS[1] if name == IN_BLOCKS[0] else FROM_SOURCES[name in SORTS]


def fit(rows: Iterable[Row]) -> Constants:
    """The constants that these start-ups give. Those with `held_out` in the file are left out."""
    bytes_: dict[str, list[float]] = defaultdict(list)
    printed: dict[str, list[float]] = defaultdict(list)
    implied: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.held_out or not row.released or row.gpu is None or (found := resolved(row.case)) is None:
            continue
        at, model = found
        sampler, outside = activations.sampler(at.settings), non_torch.measured(at.settings)
        peak, other = row.printed("activation_peak_gib"), row.printed("non_torch_gib")
        entries = min(at.settings.batch.max_num_seqs, at.settings.batch.max_num_batched_tokens) * (
            model.vocab_size or 0
        )
        now = activations.SAMPLERS[sampler].likely
        if peak and entries and entries * now > 0.6 * row.gpu["activations"]["likely"]:
            bytes_[sampler].append(now + (peak - row.gpu["activations"]["likely"]) / entries)
        if other:
            printed[outside].append(other / GI)
        elif row.kv_cache and not peak and at.settings.parallel.pp == 1 and not at.budget.kv_cache_memory:
            missing = row.gpu["kv_cache"]["likely"] - row.kv_cache
            missing -= (row.weights or row.gpu["weights"]["likely"]) - row.gpu["weights"]["likely"]
            implied[outside].append(max(0.0, non_torch.MEASURED[outside].likely + missing / GI))
    samplers = {
        name: (median(bytes_[name]), len(bytes_[name])) if bytes_[name] else (_from_sources(name), 0)
        for name in activations.SAMPLERS
    }
    seen = {name: printed[name] or implied[name] for name in non_torch.MEASURED}
    others = {
        name: (median(values), len(values)) if values else (_of_its_kind(name, seen), 0)
        for name, values in seen.items()
    }
    return Constants(samplers, others)


def _of_its_kind(name: str, seen: Mapping[str, list[float]]) -> float:
    """For a class without a start-up: what was seen of the same kind (ranks on Hopper, several ranks …) on other
    releases."""
    kind = name.partition(", ")[2]
    values = [median(values) for other, values in seen.items() if values and other.partition(", ")[2] == kind]
    return median(values) if values else UNMEASURED["ranks" in kind]


@contextmanager
def constants(found: Constants) -> Iterator[None]:
    """Plans with these constants in place of the packaged ones, low and high moved along."""
    samplers, measured = dict(activations.SAMPLERS), dict(non_torch.MEASURED)
    for name, (likely, _) in found.samplers.items():
        was = samplers[name]
        moved = likely - was.likely
        activations.SAMPLERS[name] = activations.Sampler(was.floor, was.low + moved, likely, was.high + moved)
    for name, (likely, _) in found.non_torch.items():
        own = measured[name]
        moved = likely - own.likely
        low, high = max(0.0, own.low + min(0.0, moved)), own.high + max(0.0, moved)
        non_torch.MEASURED[name] = own._replace(low=min(low, likely), likely=likely, high=max(high, likely))
    ranks.of.cache_clear()
    try:
        yield
    finally:
        activations.SAMPLERS.update(samplers)
        non_torch.MEASURED.update(measured)
        ranks.of.cache_clear()
