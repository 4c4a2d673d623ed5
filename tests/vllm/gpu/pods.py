"""Pods that ask for accelerators, and what is made of them."""

from __future__ import annotations

from typing import Any

from podfit.kube import workload
from podfit.kube.snapshot import Snapshot
from podfit.vllm import gpu
from podfit.vllm.facts import Fact, Facts
from podfit.vllm.gpu import Accelerator, Placement

ONE: dict[str, Any] = {"nvidia.com/gpu": "1"}


def pod(limits: Any = None, **spec: Any) -> dict[str, Any]:
    """A Pod with one vLLM container."""
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.27.1", "resources": {"limits": limits}}
    metadata = {"name": "p", "annotations": spec.pop("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def demand(key: str, operator: str, *values: str) -> dict[str, Any]:
    """A node selector requirement."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def required(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """A required node affinity of these alternatives."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def find(obj: dict[str, Any], facts: Facts | None = None) -> Fact[Accelerator] | None:
    """What the first container gets."""
    (one,) = workload.find(obj)
    facts = facts or Facts()
    return gpu.find(one, one.containers[0], facts, gpu.find_placement(one, one.containers[0], facts.snapshot))


def place(obj: dict[str, Any], snapshot: Snapshot) -> Placement:
    """Where the Pod may run."""
    (one,) = workload.find(obj)
    found = gpu.find_placement(one, one.containers[0], snapshot)
    assert found is not None
    return found


def asked(obj: dict[str, Any], snapshot: Snapshot | None = None) -> tuple[str, int | None] | None:
    """The resource that the first container asks for, and how many."""
    (one,) = workload.find(obj)
    return gpu.requested_resource(one, one.containers[0], snapshot)
