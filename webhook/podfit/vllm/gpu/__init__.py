"""Pod spec + facts → Accelerator: the GPU model, the number of GPUs, and the memory that a process sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from podfit.kube import quantity
from podfit.kube.workload import Container, Workload
from podfit.vllm.facts import Fact, Facts
from podfit.vllm.gpu import advice, labels, maker
from podfit.vllm.gpu.candidates import of_table
from podfit.vllm.gpu.instances import rented
from podfit.vllm.gpu.labels import NamedProducts
from podfit.vllm.gpu.name import by_name, commonest, distinct, nearest, short
from podfit.vllm.gpu.node_pools import product_of_pools
from podfit.vllm.gpu.nodes import NodeGpus, Placement, find_placement, is_held
from podfit.vllm.gpu.product import Accelerator, Gpu, all_products, sold_gigabytes, whole_name
from podfit.vllm.gpu.resource import (
    CLAIM,
    DeviceRequest,
    device_request,
    is_one,
    may_be_one,
    misspelled_resource,
    named_product,
    requested_resource,
    shared_by_resource,
    with_hami_limits,
)

__all__ = [
    "CLAIM",
    "Accelerator",
    "DeviceRequest",
    "Gpu",
    "NodeGpus",
    "Placement",
    "advice",
    "all_products",
    "assumed",
    "by_name",
    "commonest",
    "device_request",
    "distinct",
    "find",
    "find_placement",
    "is_held",
    "is_one",
    "maker",
    "may_be_one",
    "misspelled_resource",
    "nearest",
    "of_table",
    "on_nodes",
    "parse",
    "rented",
    "requested_resource",
    "shared_by_resource",
    "short",
    "sold_gigabytes",
    "whole_name",
]  # fmt: skip


def find(
    workload: Workload,
    container: Container,
    facts: Facts,
    placement: Placement | None = None,
    request: DeviceRequest | None = None,
    build: str | None = None,
) -> Fact[Accelerator] | None:
    """The GPU model that the container gets, by the order in `podfit.vllm.facts`; None if no GPU model is known.

    A preferred affinity and a toleration select no node, so they are ignored. If several GPU models are possible, each
    of them is planned. `placement` and `request` are those of the same container (`find_placement`, `device_request`).
    `build` is the maker of the devices that its build of vLLM runs on (`maker.of_build`), if it is known.
    """
    request = device_request(workload, container, facts.snapshot) if request is None else request
    resource, count = request.resource_and_count or (None, None)
    named = _named_by_object(workload, container, request) or _named_by_cluster(workload, placement, facts)
    if named is not None and facts.nodes_closed and placement is not None and placement.fresh:
        named = _narrowed_to_nodes(named, placement)
    given = (
        None
        if named
        else next(
            (
                accelerator
                for accelerator in (facts.gpu, assumed(facts))
                if accelerator and _may_get(accelerator, container, resource, build)
            ),
            None,
        )
    )
    if given is not None:
        certain = given is facts.gpu
        named = NamedProducts(
            given.gpus, "--gpu" if certain else "the policy's assume.gpu", may_deny=certain, shared=given.shared
        )
        count = given.count if count is None else count
    if named is None and facts.gpu_memory is None:
        return None
    named = named or NamedProducts((), "memory given", may_deny=True, shared=False)
    gpus = with_hami_limits(named.gpus, container.resources, workload.spec.get("nodeSelector"))
    if facts.gpu_memory is not None:
        gpus = _with_memory(gpus, facts.gpu_memory)
    shared = named.shared or shared_by_resource(resource, workload)
    return Fact(Accelerator(gpus, count, resource, shared), named.source, named.may_deny)


def _named_by_object(workload: Workload, container: Container, request: DeviceRequest) -> NamedProducts | None:
    """The GPU model that the object itself names, or the claims that it refers to; None if neither names one."""
    claimed = request.claimed
    if claimed is not None and claimed.gpus:
        return NamedProducts(claimed.gpus, claimed.source, may_deny=claimed.exact, shared=False)
    if len(request.resources) > 1:  # CUDA sees either the whole GPUs or one slice; which of them is unknown
        items = [labels.product_of_labels(workload, name) for name, _ in request.resources]
        rows = [group for group in items if group is not None]
        both = labels.union(rows) if len(rows) == len(items) else None
        return both._replace(may_deny=False) if both else None
    name = request.resources[0][0] if request.resources else None
    if (products := labels.product_of_labels(workload, name)) is not None:
        return products
    if container.accelerator:
        gpus = by_name(container.accelerator)
        if not gpus:
            return None
        return NamedProducts(gpus, f"accelerator_type {container.accelerator}", may_deny=True, shared=False)
    if name is not None and (gpus := named_product(name)):
        # A device plugin's configuration may use any name.
        return NamedProducts(gpus, f"resource {name}", may_deny=False, shared=False)
    return None


def _named_by_cluster(workload: Workload, placement: Placement | None, facts: Facts) -> NamedProducts | None:
    """The GPU models of the nodes on which the Pod may run, and of the pools that may make a node for it.

    None if the labels of such a node name none. They may deny only if the Pod can get no other GPU. For that the policy
    says that the nodes are closed, and each node names a known GPU that is neither shared nor a slice."""
    pools = product_of_pools(workload, facts.snapshot)
    if placement is None or not placement.kinds:
        return None if placement is not None and placement.unnamed else pools
    if placement.unnamed:
        return None
    gpus = {gpu.name: gpu for kind in placement.kinds for gpu in kind.gpus}
    shared = any(kind.shared for kind in placement.kinds)
    is_exact = not shared and not any(gpu.mig for gpu in gpus.values())
    more = f" (and of {placement.more_kinds} more kinds)" if placement.more_kinds else ""
    nodes = NamedProducts(
        gpus=tuple(gpus.values()),
        source=f"the labels of {placement.candidates} node{'s' if placement.candidates > 1 else ''} of "
        f"{'this cluster' if facts.fleet is None else '--nodes'}{more}",
        may_deny=facts.nodes_closed and not placement.open and is_exact,
        shared=shared,
    )
    return labels.union([nodes, pools]) if pools else nodes


def _narrowed_to_nodes(named: NamedProducts, placement: Placement) -> NamedProducts:
    """The named GPU models that nodes of the cluster have, for a policy that says that no other nodes will come."""
    there = {gpu.name for kind in placement.kinds for gpu in kind.gpus}
    left = tuple(gpu for gpu in named.gpus if gpu.name in there)
    return named._replace(gpus=left) if left and not placement.open else named


def on_nodes(
    fact: Fact[Accelerator], placement: Placement | None, workload: Workload
) -> Iterator[tuple[Accelerator, str]]:
    """(one kind of GPU, text that names its nodes) for each possible kind, by the nodes' labels. Without labels, by
    the GPU models; the text is then empty."""
    accelerator = fact.value
    kinds = placement.kinds if placement is not None and placement.kinds else ()
    shared = shared_by_resource(accelerator.resource, workload)
    for kind in kinds:
        where = f"{kind.nodes} node{'s' if kind.nodes > 1 else ''} such as {kind.example}"
        yield replace(accelerator, gpus=kind.gpus, shared=shared or kind.shared), where
    if not kinds and len(accelerator.gpus) == 1:
        yield accelerator, ""
    elif not kinds:
        for gpu in accelerator.gpus:
            yield replace(accelerator, gpus=(gpu,)), ""


def _may_get(accelerator: Accelerator, container: Container, resource: str | None, build: str | None) -> bool:
    """True if `--gpu` or `assume.gpu` may apply to the container. It does not if the container requests another maker's
    device, or, without such a resource, runs another maker's build of vLLM."""
    its = maker.of_resources(resource, container.resources) or build
    return its is None or its in maker.of_gpus(accelerator.gpus)


def parse(text: str) -> Accelerator:
    """`NAME[:COUNT][,NAME[:COUNT]…]` as users write it → what a container gets; raises ValueError if no GPU has one of
    these names. Each GPU of a list is planned; the count is known if all agree."""
    accelerators = [_parse_item(name) for name in text.split(",", MAX_NAMES)]
    gpus = {gpu.name: gpu for accelerator in accelerators for gpu in accelerator.gpus}
    counts = {accelerator.count for accelerator in accelerators}
    return Accelerator(gpus=tuple(gpus.values()), count=counts.pop() if len(counts) == 1 else None)


MAX_NAMES = 64
"""GPU models that a list names."""


def _parse_item(text: str) -> Accelerator:
    """One `NAME[:COUNT]`, parsed; raises ValueError for an unknown name, or a count outside 1 to 1,024."""
    name, _, count = text.rpartition(":")
    if not name:
        name, count = text, ""
    if count and not (count.isascii() and count.isdigit() and 0 < int(count) <= 1024):
        raise ValueError(f"{count!r} is not a number of GPUs; expected NAME or NAME:COUNT, such as l4:4")
    gpus = by_name(name)
    if not gpus:
        near = nearest(name)
        hint = f"; did you mean {', '.join(near)}?" if near else "; expected a name such as l4, h100 or Tesla-T4"
        raise ValueError(f"no GPU is known by the name {name!r}{hint}")
    return Accelerator(gpus=gpus, count=int(count) if count else None)


def assumed(facts: Facts) -> Accelerator | None:
    """The GPU that the policy assumes (`assume.gpu`), by the tables in use; None if they do not know it."""
    return None if facts.assume.gpu is None else _parse_known(facts.assume.gpu)


@lru_cache(64)
def _parse_known(text: str) -> Accelerator | None:
    """The parsed GPUs; None if the tables have no such name."""
    try:
        return parse(text)
    except ValueError:
        return None


def _with_memory(gpus: tuple[Gpu, ...], memory: int) -> tuple[Gpu, ...]:
    """The GPUs with the measured memory, which also chooses between GPU models of one name."""
    near = tuple(gpu for gpu in gpus if gpu.memory * 0.97 <= memory <= gpu.memory_high * 1.01) or gpus
    if near:
        return tuple(gpu.with_memory(memory) for gpu in near)
    anonymous = f"GPU with {quantity.human(memory)}"
    return (Gpu(anonymous, "unknown", None, None, memory, memory, None, ()),)
