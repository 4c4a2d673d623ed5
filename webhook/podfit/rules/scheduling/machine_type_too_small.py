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
        """Likely: the largest of the machine types that every alternative of the selectors leaves."""
        terms = requirement.node_demand(engine.workload).alternatives(lambda demand: demand.key in instances.TYPE)
        types: list[str] = []
        for term in terms:
            named = [demand.values for demand in term if demand.key in instances.TYPE and demand.operator == "In"]
            if not named:
                return
            types += named[0]
        sizes = [instances.size_of(name) for name in types]
        known = [size for size in sizes if size is not None]
        if not known or len(known) < len(sizes):
            return
        gpus = max(size.gpus for size in known)
        memory = max(size.memory for size in known) if all(size.memory for size in known) else 0
        what = types[0] if len(types) == 1 else f"the largest of {', '.join(types[:3])}{' …' if len(types) > 3 else ''}"
        resource, count = engine.requested or ("", None)
        if count is not None and resource.endswith(COUNTED) and count > gpus:
            yield self._too_small(engine, f"{count} × {resource} requested, {what} has {gpus}")
        requested = engine.memory_request
        if memory and requested is not None and requested > memory:
            yield self._too_small(engine, f"{human(requested)} of memory requested, {what} has {human(memory)}")

    def _too_small(self, engine: Engine, message: str) -> Finding:
        """The finding: `message`, and what follows from it."""
        return Finding(
            path=engine.at("resources"),
            message=message,
            details=("the Pod stays Pending: Insufficient resources on every node of that type",),
            certainty="likely",
            suggestions=("a larger machine type, or smaller requests",),
        )
