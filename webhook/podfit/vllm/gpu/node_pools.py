"""GPUs of nodes that an autoscaler makes for a Pod: Karpenter's NodePools and GKE's ComputeClasses, of the same input.

A pool counts if the Pod's requirements name it, or name a label that it gives its nodes. A pool's labels only inform:
the cluster may have another pool by then. For nodes that exist see `nodes`; for labels that name a GPU model by
themselves see `labels`.
"""

from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.snapshot import JSON, Snapshot
from podfit.kube.workload import Workload
from podfit.vllm.gpu import labels
from podfit.vllm.gpu.labels import NamedProducts
from podfit.vllm.gpu.requirement import Demands, NodeRequirement, node_demand

NODE_POOL = "karpenter.sh/nodepool"
"""The label of a node → its NodePool (karpenter.sh/docs/concepts/scheduling)."""
COMPUTE_CLASS = "cloud.google.com/compute-class"
"""The node label of GKE's ComputeClass
(cloud.google.com/kubernetes-engine/docs/concepts/about-custom-compute-classes)."""
_MANY = 64
"""Most alternatives of a Pod's requirements, and most pools, that are read: beyond that, the GPU model is unknown."""


def product_of_pools(workload: Workload, snapshot: Snapshot | None) -> NamedProducts | None:
    """The GPU models of the pools that may make a node for the Pod; None if the labels of one pool name none, or no
    pool is known."""
    pools, classes = (snapshot.objects.get(kind, {}) if snapshot else {} for kind in ("nodepools", "computeclasses"))
    if (not pools and not classes) or max(len(pools), len(classes)) > _MANY:
        return None
    terms = node_demand(workload).alternatives(lambda alternative: True)
    if len(terms) > _MANY:
        return None
    items: list[NamedProducts] = []
    for term in terms:
        offered = [
            *(rest for (_, name), kept in pools.items() for rest in _of_node_pool(term, name, kept)),
            *(rest for (_, name), kept in classes.items() for rest in _of_compute_class(term, name, kept)),
        ]
        products = [labels.of_demands((*term, *rest)) for rest in offered]
        if not products or None in products:
            return None
        items += [product for product in products if product is not None]
    both = labels.union(items)
    return both._replace(may_deny=False) if both else None


def _of_node_pool(term: Demands, name: str, kept: JSON) -> Iterator[Demands]:
    """The labels of a NodePool's nodes, if they meet the requirements and one requirement is about such a label."""
    own = {**kept["labels"], NODE_POOL: name}
    about = [requirement for requirement in term if requirement.key in own]
    if about and all(requirement.holds(own) for requirement in about):
        yield (*labels.as_demands(own), *map(_requirement, kept["requirements"]))


def _of_compute_class(term: Demands, name: str, kept: JSON) -> Iterator[Demands]:
    """The labels of the nodes for each priority of a ComputeClass, if the requirements name the class."""
    if any(requirement.key == COMPUTE_CLASS and requirement.holds({COMPUTE_CLASS: name}) for requirement in term):
        for priority in kept["priorities"]:
            yield labels.as_demands(priority)


def _requirement(kept: JSON) -> NodeRequirement:
    """The requirement from the dict in which a snapshot keeps it."""
    return NodeRequirement(kept["key"], kept["operator"], kept["values"])
