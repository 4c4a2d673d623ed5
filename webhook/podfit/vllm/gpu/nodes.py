"""Live nodes → those that a Pod may be scheduled on, and the kinds of GPU that they have.

Nodes are filtered as the scheduler does: by nodeSelector, required affinity, taints, and the resource's allocatable.
Temporary conditions are ignored: a cordon, a node that is not ready, resources that other Pods use at present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from podfit.kube.path import mapping, mappings
from podfit.kube.snapshot import Alike, Node, Snapshot
from podfit.kube.workload import JSON, Container, Workload
from podfit.vllm.gpu import driver, labels, resource
from podfit.vllm.gpu.labels import NamedProducts
from podfit.vllm.gpu.product import Gpu
from podfit.vllm.gpu.requirement import NAME, node_demand
from podfit.vllm.gpu.unmet import unmet_demands

PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler",
           "DeletionCandidateOfClusterAutoscaler")  # fmt: skip
"""Taints that depend on the node's present state: a node that has one now may run the Pod later."""
ADDED = frozenset({"nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "habana.ai/gaudi"})
"""Taints that clouds' ExtendedResourceToleration admission tolerates for every Pod that requests the resource."""


MAX_KINDS = 16
"""Kinds of GPU that are planned, the commonest ones: each costs a plan while a review waits."""
KUEUE = "kueue.x-k8s.io/queue-name"
_MOST = 1 << 18
"""Most comparisons of requirements and tolerations with kinds of nodes; beyond that, the Pod's nodes are unknown."""


class NodeGpus(NamedTuple):
    """One kind of GPU that the Pod may get."""

    gpus: tuple[Gpu, ...]
    """The GPU model; several if the node's labels are ambiguous."""
    shared: bool
    nodes: int
    """Number of nodes that have it."""
    example: str
    """The name of one of them."""

    @property
    def name(self) -> str:
        """The names of the GPU models for people, joined by "or"."""
        return " or ".join(gpu.name for gpu in self.gpus)


class Placement(NamedTuple):
    """Where a Pod may run in this cluster."""

    node_count: int
    """Number of nodes in the cluster."""
    candidates: int
    """Number of nodes that may run the Pod."""
    kinds: tuple[NodeGpus, ...]
    """The GPUs of the candidates, most nodes first, at most MAX_KINDS; without candidates whose labels name no GPU."""
    why: str
    """For people, if there is no candidate: what most nodes lack."""
    fresh: bool
    """All nodes are known in their present state."""
    repelled: tuple[tuple[JSON, ...], ...] = ()
    """For each node that only its taints exclude: the taints that the Pod does not tolerate."""
    held: bool = False
    """Scheduling gates or Kueue decide later where the Pod may run (`is_held`)."""
    unnamed: int = 0
    """Number of candidates whose labels name no GPU."""
    more_kinds: int = 0
    """Number of further kinds of GPU, which are not in `kinds`."""
    cuda: tuple[tuple[int | None, int], ...] = ()
    """The newest major version of CUDA that drivers of candidates run, and on how many of them; None: it is unknown."""

    @property
    def open(self) -> bool:
        """True if the Pod may get a GPU that is not in `kinds`, even if no further node comes."""
        return self.held or not self.fresh or bool(self.unnamed or self.more_kinds)


def find_placement(
    workload: Workload, container: Container, snapshot: Snapshot | None, *, adds_tolerations: bool = True
) -> Placement | None:
    """Where the Pod may run. None if nodes are unknown, if the container requests no accelerator, or if there are too
    many requirements to compare (_MOST).

    `adds_tolerations`: the cluster's ExtendedResourceToleration admission tolerates the taint of a requested
    resource."""
    if snapshot is None or (nodes := snapshot.nodes) is None:
        return None
    items = resource.requests(workload, container)
    claims = bool(mapping(container.spec.get("resources")).get("claims"))
    if not items and not claims:
        return None
    demands = node_demand(workload)
    tolerations = mappings(workload.spec.get("tolerations"))
    part = bool(items) and not _devices(workload, container)
    needed = {} if part else workload.once(_devices_of_pod)
    tolerated = ADDED & needed.keys() if adds_tolerations else frozenset()
    lacking = {"affinity": 0, "resource": 0, "taints": 0}
    fitting: list[Alike] = []
    repelled: list[tuple[JSON, ...]] = []
    by_name = workload.spec.get("nodeName")
    names = frozenset([requirement.key for term in (demands.always, *demands.terms) for requirement in term])
    each = bool(by_name) or NAME in names
    sorts = [Alike(node, 1) for node in nodes] if each else snapshot.alike(names | driver.LABELS)
    if len(sorts) * (demands.size + len(tolerations)) > _MOST:
        return None
    for node, many in sorts:
        if by_name and node.name != by_name:
            lacking["affinity"] += many
        elif not _has_devices(node, needed, part):
            lacking["resource"] += many
        elif not by_name and not demands.holds(node.labels, node.name):
            lacking["affinity"] += many
        elif not by_name and (taints := _untolerated_taints(node, tolerations, tolerated)):
            lacking["taints"] += many
            repelled += [taints] * many
        else:
            fitting.append(Alike(node, many))
    first = next((name for name, _ in items), None)
    candidates, kinds = sum(kind.many for kind in fitting), _group_by_gpus(fitting, first)
    return Placement(
        node_count=len(nodes),
        candidates=candidates,
        kinds=kinds[:MAX_KINDS],
        why="" if fitting else _why_no_node(lacking, needed, len(nodes), unmet_demands(demands, sorts)),
        fresh=snapshot.complete("nodes"),
        repelled=tuple(repelled),
        held=is_held(workload),
        unnamed=candidates - sum(kind.nodes for kind in kinds),
        more_kinds=len(kinds[MAX_KINDS:]),
        cuda=_by_cuda(fitting),
    )


def is_held(workload: Workload) -> bool:
    """True if scheduling gates hold the Pod back, or Kueue admits it and then adds a flavor's labels and
    tolerations."""
    own = mapping(workload.object.get("metadata"))
    queued = any(KUEUE in mapping(item.get("labels")) for item in (own, workload.metadata))
    return queued or bool(workload.spec.get("schedulingGates"))


def _devices(workload: Workload, container: Container) -> dict[str, int]:
    """Resource → the devices of it that the container needs at least."""
    items = resource.requests(workload, container)
    return {name: count or 1 for name, count in items if "/" in name and name not in resource.ONE_BY_DEFAULT}


def _devices_of_pod(workload: Workload) -> dict[str, int]:
    """Resource → the devices that a node must have for the whole Pod: those of all containers together, or of its
    largest init container (k8s.io/component-helpers resource.PodRequests). A sidecar runs next to the others."""
    together: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in workload.containers:
        before = container.init and container.spec.get("restartPolicy") != "Always"
        for name, count in _devices(workload, container).items():
            if before:
                largest[name] = max(largest.get(name, 0), count)
            else:
                together[name] = together.get(name, 0) + count
    return {name: max(together.get(name, 0), largest.get(name, 0)) for name in together | largest}


def _has_devices(node: Node, needed: Mapping[str, int], part: bool) -> bool:
    """True if the node can allocate the requested devices, or its device plugin has not registered any yet.

    `part`: the container requests a part of a GPU, which a scheduler of its own allocates; then the node must have a
    GPU."""
    if part or (needed and not node.allocatable):
        return _gpus_of_labels(node.hardware, None) is not None
    return all(node.allocatable.get(name, 0) >= count for name, count in needed.items())


def _untolerated_taints(node: Node, tolerations: Sequence[JSON], added: frozenset[str]) -> tuple[JSON, ...]:
    """The node's taints that keep the Pod off it."""
    return tuple(taint for taint in node.taints if not _is_tolerated(taint, tolerations, added))


def _is_tolerated(taint: JSON, tolerations: Sequence[JSON], added: frozenset[str]) -> bool:
    """True if a toleration allows the taint: k8s.io/api core/v1 Toleration.ToleratesTaint, for the effects that keep a
    Pod off a node."""
    key, effect = str(taint.get("key")), taint.get("effect")
    if effect not in ("NoSchedule", "NoExecute") or key in added or key.startswith(PASSING):
        return True
    return any(_tolerates(toleration, key, str(taint.get("value", "")), effect) for toleration in tolerations)


def _tolerates(toleration: JSON, key: str, value: str, effect: str) -> bool:
    """True if one toleration matches a taint."""
    if toleration.get("effect") not in (None, "", effect) or toleration.get("key") not in (None, "", key):
        return False
    return toleration.get("operator") == "Exists" or (
        bool(toleration.get("key")) and str(toleration.get("value", "")) == value
    )


def _group_by_gpus(fitting: Sequence[Alike], resource_name: str | None) -> tuple[NodeGpus, ...]:
    """The fitting nodes grouped by their GPUs, most nodes first."""
    entries: dict[tuple[tuple[str, ...], bool], NodeGpus] = {}
    for node, many in fitting:
        products = _gpus_of_labels(node.hardware, resource_name)
        if products is not None:
            key = (tuple(gpu.name for gpu in products.gpus), products.shared)
            before = entries.get(key) or NodeGpus(products.gpus, products.shared, 0, node.name)
            entries[key] = NodeGpus(products.gpus, products.shared, before.nodes + many, before.example)
    return tuple(sorted(entries.values(), key=lambda kind: (-kind.nodes, kind.name)))


def _by_cuda(fitting: Sequence[Alike]) -> tuple[tuple[int | None, int], ...]:
    """(the newest major version of CUDA that the drivers run, the number of nodes with it), for each; None: unknown."""
    counts: Counter[int | None] = Counter()
    for node, many in fitting:
        counts[driver.cuda_major(node.labels)] += many
    return tuple(counts.items())


@lru_cache(4096)
def _gpus_of_labels(label_pairs: frozenset[tuple[str, str]], resource_name: str | None) -> NamedProducts | None:
    """The GPU models that a node's labels name; None if they name none."""
    return labels.of_node(dict(sorted(label_pairs)), resource_name)


def _why_no_node(lacking: Mapping[str, int], needed: Mapping[str, int], node_count: int, unmet: str) -> str:
    """For people: the demands that no node meets; else how many of the nodes lack the resource, do not match the
    affinity, or are tainted."""
    if unmet and lacking["affinity"]:
        return unmet
    many = ", ".join(f"{count} × {name}" for name, count in needed.items())
    words = {
        "resource": f"{lacking['resource']:,} do not have {many or 'the resource'}",
        "affinity": f"{lacking['affinity']:,} do not match nodeSelector and affinity",
        "taints": f"{lacking['taints']:,} have a taint that is not tolerated",
    }
    return f"of {node_count:,} nodes, " + ", ".join(words[key] for key, count in lacking.items() if count)
