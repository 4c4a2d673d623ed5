"""One engine on many accelerators: how many requests of each length fit at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Gpu, by_name
from podfit.vllm.memory import parallel
from podfit.vllm.memory.division import divisible
from podfit.vllm.memory.ledger import Verdict
from podfit.vllm.memory.partition import Candidate, Partition, partition
from podfit.vllm.memory.search import with_changes
from podfit.vllm.memory.solve import NODE, PRODUCTS
from podfit.vllm.model import Model, longest_max_model_len

LENGTHS = (2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
"""Context lengths that are planned, in tokens; those beyond the model's own are left out."""


class Cell(NamedTuple):
    """One accelerator, one context length."""

    verdict: Verdict
    concurrency: float | None
    """Requests of that length at once (likely): "Maximum concurrency"; None if the KV cache is unknown."""


class SweepRow(NamedTuple):
    """One accelerator and tensor-parallel size."""

    product: str
    """The label nvidia.com/gpu.product."""
    gpus: int
    """GPUs of one engine."""
    cells: Mapping[int, Cell]
    """Context length → the requests that fit."""

    @property
    def longest(self) -> int | None:
        """The longest of the lengths that certainly fits."""
        return max((length for length, cell in self.cells.items() if cell.verdict == "fits"), default=None)


def lengths(model: Model) -> tuple[int, ...]:
    """The context lengths to plan."""
    longest = longest_max_model_len(model, None) or LENGTHS[-1]
    return tuple(length for length in LENGTHS if length <= longest) or (longest,)


def sweep(
    args: EngineArgs,
    model: Model,
    *,
    env: Mapping[str, str] | None = None,
    products: Iterable[str] = PRODUCTS,
    context_lengths: Sequence[int] | None = None,
) -> Iterator[SweepRow]:
    """A row for each GPU model and each tensor-parallel size of one node that divides the heads, in the order of the
    argument `products`. Labels that the tables do not have get no row. `context_lengths`: tokens; by default
    `lengths(model)`."""
    context_lengths = context_lengths or lengths(model)
    now = parallel.read(args, env)
    gpus_per_tensor_rank = now.pp * now.pcp * now.dp_local
    gpus_of_label = {label: by_name(label) for label in products}
    candidates = [Candidate(gpu) for gpus in gpus_of_label.values() for gpu in gpus]
    most = max(NODE, gpus_per_tensor_rank)
    sizes = [
        size
        for size in (1, 2, 4, NODE)
        if size * gpus_per_tensor_rank <= most and (size == 1 or divisible(model, size, args))
    ]
    planned: dict[tuple[int, int], Partition] = {}  # (tensor-parallel size, context length) → the plans of all GPUs
    for size in sizes:
        for length in context_lengths:
            changed = with_changes(args, {"tensor_parallel_size": size, "max_model_len": length})
            planned[size, length] = partition(changed, model, candidates, env=env)
    for label, gpus in gpus_of_label.items():
        for size in sizes if gpus else ():
            cells = {length: _cell(planned[size, length], gpus) for length in context_lengths}
            yield SweepRow(product=label, gpus=size * gpus_per_tensor_rank, cells=cells)


def _cell(planned: Partition, gpus: Sequence[Gpu]) -> Cell:
    """The cell of a label, which may stand for several GPU models: `unsure` if their plans differ, and the least number
    of requests that one of them has room for."""
    names = {gpu.name for gpu in gpus}
    verdicts = {gpu.verdict for gpu in planned.gpus if gpu.gpu.name in names}
    requests = []
    for gpu in gpus:
        ledger = planned.engine.plan_on(gpu).ledger
        if ledger is not None and ledger.max_concurrency is not None:
            requests.append(ledger.max_concurrency)
    return Cell(verdicts.pop() if len(verdicts) == 1 else "unsure", min(requests, default=None))
