"""Offers that serve a number of users with a context length: per GPU model the fewest GPUs, and the changes needed.

The planner checks every offer, pessimistically. An offer's plan must fit, and the low end of its KV cache must hold the
requests at full length. podfit knows no prices; GPU memory is used instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podfit.kube.snapshot import Node
from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, Gpu, by_name
from podfit.vllm.memory import plan, quantisation, served_copies
from podfit.vllm.memory.division import divisible
from podfit.vllm.memory.ledger import GpuLedger
from podfit.vllm.memory.search import with_changes
from podfit.vllm.memory.solve import NODE, PRODUCTS
from podfit.vllm.model import Model

PRODUCT = "nvidia.com/gpu.product"
RESOURCE = "nvidia.com/gpu"
FP8_CACHE = (8, 9)
"""Compute capability from which on every attention backend supports an 8-bit KV cache (as in `solve`)."""


GPU_COUNTS = (1, 2, 4, NODE)
"""Numbers of GPUs per replica that are tried."""


class Stock(NamedTuple):
    """A GPU model that is available."""

    product: str
    """The label nvidia.com/gpu.product."""
    per_node: int = NODE
    """GPUs of the largest node."""
    nodes: int | None = None
    """Number of nodes that have it; None without a cluster."""
    gpus: int | None = None
    """GPUs of all nodes."""


@dataclass(frozen=True)
class Offer:
    """One way to serve the users."""

    stock: Stock
    gpus: int
    """GPUs of one replica: its tensor-parallel size."""
    replicas: int
    held: int
    """Requests of the full length for which all replicas have room at once."""
    ledger: GpuLedger
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Changes besides context, sequences and tensor parallelism: argument → value; "model" → another checkpoint."""

    @property
    def all_gpus(self) -> int:
        """GPUs of all replicas."""
        return self.gpus * self.replicas

    @property
    def memory(self) -> int:
        """Bytes of GPU memory of all replicas, used instead of a price."""
        return self.all_gpus * self.ledger.total.likely

    @property
    def there(self) -> bool:
        """True if the cluster has enough GPUs for all replicas; true without a cluster."""
        return self.stock.gpus is None or self.all_gpus <= self.stock.gpus

    @property
    def rank(self) -> OfferRank:
        """Sort key, the best first."""
        return OfferRank(not self.there, bool(self.changes), self.memory, self.gpus)


class OfferRank(NamedTuple):
    """The order of offers: the one that compares less is better."""

    lacks_gpus: bool
    """The cluster has too few of them."""
    changes_answers: bool
    memory: int
    """Bytes of GPU memory of all replicas, used instead of a price."""
    gpus: int
    """GPUs of one replica."""


CATALOGUE = tuple(Stock(label) for label in PRODUCTS)
"""GPU models that clusters usually have."""


def stocks(nodes: Iterable[Node]) -> list[Stock]:
    """The whole NVIDIA GPUs of live nodes, by the label nvidia.com/gpu.product, in its alphabetical order. Nodes
    without the label, and with shared GPUs or only MIG slices, are left out."""
    counts: dict[str, list[int]] = {}  # label → GPUs of each node
    for node in nodes:
        label, count = node.labels.get(PRODUCT, ""), node.allocatable.get(RESOURCE, 0)
        if not count or not label or label.endswith("-SHARED"):
            continue
        if any(not gpu.mig for gpu in by_name(label)):
            counts.setdefault(label, []).append(int(count))
    return [
        Stock(product=label, per_node=max(of_nodes), nodes=len(of_nodes), gpus=sum(of_nodes))
        for label, of_nodes in sorted(counts.items())
    ]


def offers(
    args: EngineArgs,
    model: Model,
    *,
    context: int,
    users: int | None,
    stocks: Sequence[Stock] = CATALOGUE,
    gpus: int | None = None,
    env: Mapping[str, str] | None = None,
) -> list[Offer]:
    """Per GPU model the cheapest way to hold `users` requests of `context` tokens at once, best first.

    If a way that changes the model's answers is cheaper, the cheapest of these is added. `gpus`: those of one replica,
    if the user fixed them. `users` None: at least one request, and the release's own `max_num_seqs`.
    """
    items: list[Offer] = []
    for stock in stocks:
        gpu_models = by_name(stock.product)
        cheapest: list[Offer] = []  # of each variant; each cheaper than those before
        for variant in _variants(args, model, gpu_models):
            ways = _ways(args, variant, stock, gpu_models, context=context, users=users, gpus=gpus, env=env)
            best = min(ways, key=lambda offer: offer.rank, default=None)
            if best is not None and all(best.memory < offer.memory for offer in cheapest):
                cheapest.append(best)
        items += cheapest[:1]
        items += sorted(cheapest[1:], key=lambda offer: offer.memory)[:1]
    return sorted(items, key=lambda offer: offer.rank)


class _Variant(NamedTuple):
    """The engine, or one that answers almost like it with less memory."""

    changes: Mapping[str, Any]
    """Argument → value; "model" → another checkpoint. Empty: the engine itself."""
    model: Model


def _variants(args: EngineArgs, model: Model, gpu_models: Sequence[Gpu]) -> Iterator[_Variant]:
    """The model unchanged, with an 8-bit KV cache, and as each quantized copy of another size, if the arguments set
    neither and the GPUs have the kernels."""
    yield _Variant({}, model)
    capability = min((gpu.compute_capability or (0, 0) for gpu in gpu_models), default=(0, 0))
    if capability >= FP8_CACHE and args.given.get("kv_cache_dtype") in (None, "auto"):
        yield _Variant({"kv_cache_dtype": "fp8"}, model)
    if args.given.get("quantization"):
        return
    sizes: set[float] = set()
    for copy in served_copies.copies(model, gpu_models):
        scheme = quantisation.scheme(copy, None)
        if scheme is not None and round(scheme.bytes, 1) not in sizes:
            sizes.add(round(scheme.bytes, 1))
            yield _Variant({"model": copy.id}, copy)


def _ways(
    args: EngineArgs,
    variant: _Variant,
    stock: Stock,
    gpu_models: tuple[Gpu, ...],
    *,
    context: int,
    users: int | None,
    gpus: int | None,
    env: Mapping[str, str] | None,
) -> Iterator[Offer]:
    """Offers of a variant on one kind of GPU, one for each number of GPUs (`gpus`, or of GPU_COUNTS) that fits. None if
    `gpu_models` is empty: the tables do not have the GPU."""
    if not gpu_models:
        return
    changes = {**variant.changes, "max_model_len": context}  # `with_changes` leaves the checkpoint out
    if users:
        changes["max_num_seqs"] = users
    for size in (gpus,) if gpus else GPU_COUNTS:
        if size > stock.per_node or not (size == 1 or divisible(variant.model, size, args)):
            continue
        changed = with_changes(args, {**changes, "tensor_parallel_size": size})
        release_plan = plan.judge(changed, variant.model, Accelerator(gpu_models, size), env=env)
        if release_plan.verdict != "fits" or release_plan.ledger is None:
            continue
        requests = capacity(release_plan.ledger)
        replicas = 1 if requests is None else math.ceil((users or 1) / requests)
        held = replicas * (requests or users or 1)  # an encoder holds any number
        yield Offer(stock, size, replicas, held, release_plan.ledger, variant.changes)


def capacity(ledger: GpuLedger) -> int | None:
    """Requests of full length that the low end of the KV cache certainly has room for, at least one if the plan fits.
    None if there is no KV cache (an encoder)."""
    if ledger.max_concurrency is None or ledger.kv_cache.likely <= 0:
        return None
    return max(1, math.floor(ledger.max_concurrency * ledger.kv_cache.low / ledger.kv_cache.likely))
