"""What a Pod demands of its node: nodeSelector and required node affinity, as the scheduler reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.base.frozen import frozen
from webhook.kube.path import is_object, mapping
from webhook.kube.workload import JSON

NAME = "metadata.name"
"""The one field that `matchFields` may name (k8s.io/kubernetes pkg/apis/core/validation)."""


@frozen
class Requirement:
    """One thing a node must have: `key In values`, `key Gt value` …"""

    key: str
    operator: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        said = ", ".join(self.values)
        return f"{self.key}: {said}" if self.operator == "In" else f"{self.key} {self.operator} {said}".rstrip()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels has it (k8s.io/apimachinery labels.Requirement.Matches)."""
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
        """`Gt` and `Lt`: integers, and False where one is none."""
        there, than = _number(value), _number(self.values[0] if self.values else "")
        if there is None or than is None:
            return False
        return there > than if self.operator == "Gt" else self.operator == "Lt" and there < than


def _number(value: str | float) -> float | None:
    if isinstance(value, str):
        return int(value) if value.lstrip("+-").isdecimal() and value.isascii() and len(value) < 20 else None
    return value


Demands = tuple[Requirement, ...]


def alternatives(spec: JSON) -> list[Demands]:
    """What must all hold together, once for each term of the required affinity: any one of them is enough.

    A preferred affinity and a toleration choose no node and are not in it.
    """
    always = tuple(_selector(spec.get("nodeSelector")))
    terms = [(*always, *term) for term in _terms(spec)]
    return terms or [always]


def _selector(value: object) -> Iterator[Requirement]:
    for key, wanted in mapping(value).items():
        yield Requirement(str(key), "In", (str(wanted),))


def _terms(spec: JSON) -> Iterator[Demands]:
    found: Any = spec
    for key in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"):
        if found is None:
            return
        found = found.get(key) if is_object(found) else None
    for term in found if isinstance(found, list) else ():
        if isinstance(term, Mapping) and (demands := tuple(_expressions(term))):  # an empty term matches no node
            yield demands


def _expressions(term: JSON) -> Iterator[Requirement]:
    for field in ("matchExpressions", "matchFields"):
        for one in listed if isinstance(listed := term.get(field), list) else ():
            if isinstance(one, Mapping):
                values = one.get("values")
                yield Requirement(
                    str(one.get("key")),
                    str(one.get("operator")),
                    tuple(str(value) for value in values) if isinstance(values, list) else (),
                )
