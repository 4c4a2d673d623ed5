"""A Pod's requirements for its node: nodeSelector and required node affinity, as the scheduler reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from podfit.kube.path import mapping, mappings
from podfit.kube.workload import JSON, Workload, as_list

NAME = "metadata.name"
"""The one field that `matchFields` may name (k8s.io/kubernetes pkg/apis/core/validation)."""


class NodeRequirement(NamedTuple):
    """One requirement for a node: `key In values`, `key Gt value` …"""

    key: str
    operator: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        text = ", ".join(self.values)
        return f"{self.key}: {text}" if self.operator == "In" else f"{self.key} {self.operator} {text}".rstrip()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels meets it (k8s.io/apimachinery labels.Requirement.Matches)."""
        value = labels.get(self.key)
        if self.operator == "In":
            return value in self.values
        if self.operator == "NotIn":
            return value not in self.values
        if self.operator == "Exists":
            return value is not None
        if self.operator == "DoesNotExist":
            return value is None
        return value is not None and self.compares(value)

    def compares(self, value: str | float) -> bool:
        """True if `value` is above (`Gt`) or below (`Lt`) the required integer; False if one of them is not an
        integer."""
        there, than = _as_number(value), _as_number(self.values[0] if self.values else "")
        if there is None or than is None:
            return False
        return there > than if self.operator == "Gt" else self.operator == "Lt" and there < than


def _as_number(value: str | float) -> float | None:
    """An integer that Kubernetes compares by; None for a text that is not one."""
    if isinstance(value, str):
        return int(value) if value.lstrip("+-").isdecimal() and value.isascii() and len(value) < 20 else None
    return value


Demands = tuple[NodeRequirement, ...]


class NodeDemand(NamedTuple):
    """A Pod's requirements for its node. A preferred affinity and a toleration choose no node and are left out.

    The two parts are kept separate, because an object may have tens of thousands of both.
    """

    always: Demands
    """The node selector: a node must meet all of it."""
    terms: tuple[Demands, ...]
    """The required affinity: a node must also meet all requirements of one of these terms. Empty: there is none."""

    def alternatives(self, tells: Callable[[NodeRequirement], bool]) -> list[Demands]:
        """The requirements that must be met together, one tuple per different term; only those that `tells` accepts."""
        always = tuple([requirement for requirement in self.always if tells(requirement)])
        terms = dict.fromkeys(
            [tuple([requirement for requirement in term if tells(requirement)]) for term in self.terms]
        )
        return [(*always, *term) for term in terms] if terms else [always]

    def holds(self, labels: Mapping[str, str], name: str) -> bool:
        """True if a node with these labels and this name may run the Pod."""
        return _meets_all(self.always, labels, name) and (
            not self.terms or any(_meets_all(term, labels, name) for term in self.terms)
        )

    @property
    def size(self) -> int:
        """Number of requirements."""
        return len(self.always) + sum(len(term) for term in self.terms)


def _meets_all(demands: Demands, labels: Mapping[str, str], name: str) -> bool:
    """True if the node meets every requirement; `name` is its `metadata.name`, which is not a label."""
    return all(requirement.holds({NAME: name} if requirement.key == NAME else labels) for requirement in demands)


def node_demand(workload: Workload) -> NodeDemand:
    """The Pod's requirements, read once."""
    return workload.once(_of_workload)


def _of_workload(workload: Workload) -> NodeDemand:
    """The requirements of the workload's Pod, for `Workload.once`."""
    return of_spec(workload.spec)


def of_spec(spec: JSON) -> NodeDemand:
    """The requirements of a PodSpec."""
    return NodeDemand(tuple(_selector_requirements(spec.get("nodeSelector"))), tuple(_affinity_terms(spec)))


def _selector_requirements(value: object) -> Iterator[NodeRequirement]:
    """One requirement per entry of a nodeSelector."""
    for key, item in mapping(value).items():
        yield NodeRequirement(str(key), "In", (str(item),))


def affinity(spec: JSON) -> Iterator[NodeRequirement]:
    """The requirements of the required affinity, one term after the other."""
    return (requirement for term in _affinity_terms(spec) for requirement in term)


def _affinity_terms(spec: JSON) -> Iterator[Demands]:
    """The required node affinity's terms, each as its requirements."""
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    for term in mappings(required.get("nodeSelectorTerms")):
        if demands := tuple(_term_requirements(term)):  # an empty term matches no node
            yield demands


def _term_requirements(term: JSON) -> Iterator[NodeRequirement]:
    """The requirements of a node selector term."""
    for field in ("matchExpressions", "matchFields"):
        for item in mappings(term.get(field)):
            values = tuple(map(str, as_list(item.get("values"))))
            yield NodeRequirement(str(item.get("key")), str(item.get("operator")), values)
