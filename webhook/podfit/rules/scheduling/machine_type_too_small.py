from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.quantity import human
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.gpu import instances, requirement

COUNTED = (".com/gpu", "/neuron", "/neurondevice")
"""Resources of whole devices, as the table of machine types counts them. A Neuron device has several neuroncores."""


class MachineTypeTooSmall(Rule):
    """The selected machine type has fewer GPUs or less memory than the Pod requests.

    A node label such as `node.kubernetes.io/instance-type: g5.xlarge` leaves one kind of machine. If that has one GPU
    and the container requests four, or more memory than the machine has, the Pod stays Pending forever:

        0/3 nodes are available: 3 Insufficient nvidia.com/gpu.

    It is a warning, since a device plugin that shares a GPU in time offers it several times.
    """

    plane = "cluster"
    event = "the Pod stays Pending"
    of_vllm = False
    never_denies = "the table of machine types is not the cloud's own"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely if even the largest of the selected machine types is too small. None if the object selects no types,
        or the size of one of them is unknown."""
        types = _selected_types(engine)
        sizes = [size for name in types if (size := instances.size_of(name)) is not None]
        if not sizes or len(sizes) < len(types):
            return
        gpus = max(size.gpus for size in sizes)
        memory = max(size.memory for size in sizes) if all(size.memory for size in sizes) else 0  # 0: unknown
        what = _names(types)
        resource, count = engine.requested or ("", None)
        if count is not None and resource.endswith(COUNTED) and count > gpus:
            yield self._too_small(engine, f"{count} × {resource} requested, {what} has {gpus}")
        requested = engine.memory_request
        if memory and requested is not None and requested > memory:
            yield self._too_small(engine, f"{human(requested)} of memory requested, {what} has {human(memory)}")

    def _too_small(self, engine: Engine, message: str) -> Finding:
        """The finding with this message on the container's resources."""
        return Finding(
            path=engine.at("resources"),
            message=message,
            details=("the Pod stays Pending: Insufficient resources on every node of that type",),
            certainty="likely",
            suggestions=("a larger machine type, or smaller requests",),
        )


def _selected_types(engine: Engine) -> list[str]:
    """The machine types that nodeSelector and required affinity allow. Empty if they, or one of the affinity's
    alternatives, allow machines of any type."""
    types: list[str] = []
    alternatives = requirement.node_demand(engine.workload).alternatives(lambda demand: demand.key in instances.TYPE)
    for demands in alternatives:
        allowed = [demand.values for demand in demands if demand.key in instances.TYPE and demand.operator == "In"]
        if not allowed:
            return []
        types += allowed[0]  # a further requirement on the type can only leave fewer
    return types


NAMES = 3
"""Machine types that a message names."""


def _names(types: list[str]) -> str:
    """The machine types for people: "g5.xlarge", or "the largest of g5.xlarge, g6.xlarge"."""
    if len(types) == 1:
        return types[0]
    return f"the largest of {', '.join(types[:NAMES])}{' …' if len(types) > NAMES else ''}"
