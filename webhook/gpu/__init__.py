"""Pod spec + facts → Accelerator: which GPU, how many of them the container gets, what memory a process sees."""

from __future__ import annotations

from dataclasses import dataclass, replace

from webhook import quantity
from webhook.facts import Fact, Facts
from webhook.gpu import labels
from webhook.gpu.name import by_name, nearest
from webhook.gpu.product import Gpu, all_products
from webhook.gpu.resource import CLAIM, limited, requested, resources_of, shared_by_resource
from webhook.workload import Container, Workload

__all__ = ["CLAIM", "Accelerator", "Gpu", "all_products", "by_name", "find", "nearest", "requested"]


@dataclass(frozen=True)
class Accelerator:
    """What a container gets."""

    gpus: tuple[Gpu, ...]
    """The product; several where the name is ambiguous (an `a100` has 40 or 80 GB): each is planned."""
    count: int | None
    """GPUs that the container requests; None where that can't be known (a DRA claim, an operator decides)."""
    resource: str | None = None
    """The resource asked for ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")."""
    shared: bool = False
    """Time-sliced, MPS or a fraction: other processes may use the same card."""

    @property
    def name(self) -> str:
        """All names, for people."""
        if len(self.gpus) > 1 and len(slices := {gpu.mig for gpu in self.gpus}) == 1 and (profile := slices.pop()):
            return f"MIG {profile} of one of {len(self.gpus)} cards"
        return " or ".join(gpu.name for gpu in self.gpus)


def find(workload: Workload, container: Container, facts: Facts) -> Fact[Accelerator] | None:
    """What the container gets, by the order in `webhook.facts`; None where no product is known.

    A preferred affinity and a toleration select no node, so they say nothing. Several products are an answer: each of
    them is planned.
    """
    asked = requested(workload, container)
    resource, count = asked or (None, None)
    named = labels.named(workload, resource)
    if named is None and facts.gpu is not None:
        named = labels.Named(facts.gpu.gpus, "--gpu", True, facts.gpu.shared)
        count = facts.gpu.count if count is None else count
    if named is None and facts.gpu_memory is None:
        return None
    named = named or labels.Named((), "memory given", True, False)
    gpus = limited(named.gpus, resources_of(container))
    if facts.gpu_memory is not None:
        gpus = _with_memory(gpus, facts.gpu_memory)
    shared = named.shared or shared_by_resource(resource, workload)
    return Fact(Accelerator(gpus, count, resource, shared), named.source, named.may_deny)


def _with_memory(gpus: tuple[Gpu, ...], memory: int) -> tuple[Gpu, ...]:
    """What was measured wins, and chooses between products of one name."""
    near = tuple(gpu for gpu in gpus if gpu.memory * 0.97 <= memory <= gpu.memory_high * 1.01) or gpus
    if near:
        return tuple(replace(gpu, memory=memory, memory_high=memory) for gpu in near)
    anonymous = f"GPU with {quantity.human(memory)}"
    return (Gpu(anonymous, "unknown", None, None, memory, memory, None, None, None, ()),)
