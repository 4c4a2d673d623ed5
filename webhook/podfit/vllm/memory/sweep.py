"""One engine on many accelerators: how many requests of each length fit at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, by_name
from podfit.vllm.memory import parallel, plan
from podfit.vllm.memory.division import divisible
from podfit.vllm.memory.ledger import Verdict
from podfit.vllm.memory.search import with_changes
from podfit.vllm.memory.solve import NODE, PRODUCTS
from podfit.vllm.model import Model, longest_max_model_len

LENGTHS = (2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
"""Context lengths that are planned, in tokens; those beyond the model's own are left out."""


@dataclass(frozen=True)
class Cell:
    """One accelerator, one context length."""

    verdict: Verdict
    concurrency: float | None
    """Requests of that length at once (likely): "Maximum concurrency"; None if the KV cache is unknown."""


@dataclass(frozen=True)
class SweepRow:
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
    asked: Sequence[int] | None = None,
) -> Iterator[SweepRow]:
    """A row for each GPU model and each tensor-parallel size of one node that divides the heads, in the order of the
    argument `products`. `asked`: context lengths, by default `lengths(model)`."""
    asked = asked or lengths(model)
    now = parallel.read(args, env)
    others = now.pp * now.pcp * now.dp_local
    for label in products:
        where = Accelerator(by_name(label), None)
        for size in (1, 2, 4, NODE):
            if not where.gpus or size * others > max(NODE, others) or not (size == 1 or divisible(model, size, args)):
                continue
            changed = with_changes(args, {"tensor_parallel_size": size})
            cells = {}
            for length in asked:
                one = plan.judge(
                    with_changes(changed, {"max_model_len": length}),
                    model,
                    replace(where, count=size * others),
                    env=env,
                )
                cells[length] = Cell(one.verdict, one.ledger.max_concurrency if one.ledger else None)
            yield SweepRow(label, size * others, cells)
