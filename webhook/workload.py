"""Any Kubernetes object → the Pod templates in it, and the containers of each.

A table: kind → where its Pod templates are, and what its operator fills in later. Nothing here knows vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.path import FieldPath

JSON = Mapping[str, Any]
"""A Kubernetes object or a part of one: objects stay dicts, so that no field is lost."""


@dataclass(frozen=True)
class Container:
    """One container of a Pod template."""

    name: str
    """Its name; where the kind has no container of its own, the name the Pod's container will have."""
    path: FieldPath
    """Where it stands in the object, or the place that stands for it."""
    spec: JSON
    """The container as in a PodSpec. For kinds that have none it is made from what the kind says: `command`, `args`,
    `env`, `resources` as the operator would write them."""
    init: bool = False
    """An init container (a restartable one, `restartPolicy: Always`, is a sidecar and still True here)."""
    synthetic: bool = False
    """`spec` was made by us: its words stand at `path`, not at `path.args[i]`."""
    places: Mapping[str, FieldPath] = field(default_factory=dict)
    """For a synthetic container: field of `spec` ("args", "resources", "env", "image" …) → where it really stands."""


@dataclass(frozen=True)
class Workload:
    """One Pod template of an object."""

    object: JSON
    """The whole object, as it came."""
    path: FieldPath
    """Where the PodSpec stands (`spec` of a Pod, `spec.template.spec` of a Deployment)."""
    metadata: JSON
    """The Pod's metadata: labels and annotations of the template (of the object itself where there is no template)."""
    spec: JSON
    """The PodSpec (`volumes`, `nodeSelector` …). Its containers are in `containers`."""
    containers: tuple[Container, ...]
    completes: frozenset[str] = frozenset()
    """What this kind's operator fills in, so that its absence here says nothing: any of "shm", "startup-probe",
    "liveness-probe", "image", "args", "resources", "memory-limit"."""
    pods_per_replica: int | None = 1
    """Pods that serve one model together (LeaderWorkerSet size, Ray head + workers); None where it can't be known."""
    replicas: int | None = None
    """How many copies are asked for; None where the kind does not say."""
    owned: bool = False
    """A Pod that a controller made (`ownerReferences[].controller: true`)."""

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.object.get("kind") or "")

    @property
    def name(self) -> str:
        """The object's name, or its generateName."""
        metadata = self.object.get("metadata") or {}
        return str(metadata.get("name") or metadata.get("generateName") or "")

    @property
    def namespace(self) -> str | None:
        """The object's namespace, None where it does not say."""
        namespace = (self.object.get("metadata") or {}).get("namespace")
        return str(namespace) if namespace else None

    @property
    def annotations(self) -> Mapping[str, str]:
        """The Pod's annotations over the object's own."""
        own = (self.object.get("metadata") or {}).get("annotations") or {}
        return {**own, **(self.metadata.get("annotations") or {})}


def find(obj: JSON) -> list[Workload]:
    """Every Pod template of `obj`; empty for kinds that make no Pods. Never raises on odd shapes."""
    raise NotImplementedError
