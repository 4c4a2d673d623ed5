"""The objects that belong to a workload: Service, HorizontalPodAutoscaler, PersistentVolumeClaim and others.

They are from the same files, or from the cluster. An absent object is unknown, not missing, unless `is_complete` is
set.
`holds_release` shows whether the files probably contain all objects of a workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from podfit.kube.path import FieldPath, group_and_kind, mapping
from podfit.kube.selector import of_object
from podfit.kube.snapshot import Snapshot
from podfit.kube.workload import JSON, Workload, kserve_runtime

Key = tuple[str, str]
"""(API group, kind)."""

_SERVICE: Key = ("", "Service")
_CLAIM: Key = ("", "PersistentVolumeClaim")
_CONFIG_MAP: Key = ("", "ConfigMap")
_HPA: Key = ("autoscaling", "HorizontalPodAutoscaler")
_SCALED_OBJECT: Key = ("keda.sh", "ScaledObject")
_KSERVE = "serving.kserve.io"
_BUDGET: Key = ("policy", "PodDisruptionBudget")


@dataclass(frozen=True)
class Companions:
    """The objects of one input: a directory's files, standard input, or all of a cluster's."""

    objects: tuple[JSON, ...] = ()
    is_complete: bool = False
    """True if all objects of the namespace are here, so that an absent object does not exist."""
    around: Snapshot = field(default_factory=Snapshot)
    """The cluster's objects (nodes, namespaces, classes) from elsewhere in the input."""

    @cached_property
    def config_maps(self) -> Mapping[str, JSON]:
        """Name → ConfigMap."""
        return {_name(item): item for item in self._by_kind.get(_CONFIG_MAP, ())}

    def services(self, workload: Workload) -> list[JSON]:
        """The Services that select the workload's Pods. One without a selector selects none."""
        labels = mapping(workload.metadata.get("labels"))
        services: list[JSON] = []
        for service in self._in_namespace_of(_SERVICE, workload):
            selector = mapping(FieldPath(("spec", "selector")).get(service))
            if selector and all(labels.get(key) == value for key, value in selector.items()):
                services.append(service)
        return services

    def addresses(self, workload: Workload) -> list[tuple[str, JSON]]:
        """(name, Service) of each with an address: Kubernetes sets variables for them in the namespace's containers.

        kubernetes pkg/kubelet/envvars: a headless Service and an ExternalName have none.
        """
        return [
            (_name(item), item)
            for item in self._in_namespace_of(_SERVICE, workload)
            if FieldPath(("spec", "clusterIP")).get(item) != "None"
            and FieldPath(("spec", "type")).get(item) != "ExternalName"
        ]

    def autoscalers(self, workload: Workload) -> list[JSON]:
        """The HorizontalPodAutoscalers and KEDA ScaledObjects whose target the workload is; none if it has no name."""
        if not workload.name:
            return []
        return [
            item
            for kind in (_HPA, _SCALED_OBJECT)
            for item in self._in_namespace_of(kind, workload)
            if _is_scale_target(item, workload)
        ]

    def disruption_budgets(self, workload: Workload) -> list[JSON]:
        """The PodDisruptionBudgets that select the workload's Pods."""
        labels = mapping(workload.metadata.get("labels"))
        return [
            item
            for item in self._in_namespace_of(_BUDGET, workload)
            if _selects_labels(mapping(FieldPath(("spec", "selector")).get(item)), labels)
        ]

    def claim(self, workload: Workload, name: str) -> JSON | None:
        """The PersistentVolumeClaim of that name that the workload's Pods mount, None if it is not here."""
        if not self.objects:
            return None
        return next((item for item in self._in_namespace_of(_CLAIM, workload) if _name(item) == name), None)

    def is_new_claim(self, workload: Workload, name: str) -> bool:
        """True if the claim is one of these objects, starts empty, and nothing else here can fill it. False if the
        objects are those of a live namespace (`is_complete`), where the claim may be filled already."""
        claim = self.claim(workload, name)
        if claim is None or self.is_complete:
            return False
        spec = mapping(claim.get("spec"))
        if any(spec.get(key) for key in ("dataSource", "dataSourceRef", "volumeName")):  # it starts with their data
            return False
        others = (item for item in self.objects if item is not workload.object and item is not claim)
        return not any(_names_claim(other, name) for other in others)

    def serving_runtime(self, workload: Workload, name: str) -> JSON | None:
        """The KServe runtime of that name that the workload may use; a namespace's own comes first. None if there is
        none here."""
        of_namespace = self._in_namespace_of((_KSERVE, "ServingRuntime"), workload)
        of_cluster = self._by_kind.get((_KSERVE, "ClusterServingRuntime"), ())
        return next((runtime for runtime in (*of_namespace, *of_cluster) if _name(runtime) == name), None)

    def services_of_runtime(self, workload: Workload) -> list[str]:
        """The names of the InferenceServices that name the runtime: of its namespace, or of all for a
        ClusterServingRuntime."""
        kind = (_KSERVE, "InferenceService")
        is_of_namespace = workload.kind == "ServingRuntime"
        services = self._in_namespace_of(kind, workload) if is_of_namespace else self._by_kind.get(kind, ())
        return [_name(service) for service in services if kserve_runtime.runtime_name(service) == workload.name]

    def holds_release(self, workload: Workload) -> bool:
        """True if all objects of the workload are certainly here, or probably, since one that addresses or scales it
        is."""
        return self.is_complete or bool(self.services(workload) or self.autoscalers(workload))

    @cached_property
    def _by_kind(self) -> Mapping[Key, list[JSON]]:
        """(API group, kind) → the objects of that kind."""
        entries: dict[Key, list[JSON]] = {}
        for item in self.objects:
            entries.setdefault(group_and_kind(item), []).append(item)
        return entries

    def _in_namespace_of(self, kind: Key, workload: Workload) -> Iterator[JSON]:
        """The objects of a kind in the workload's namespace, where both say one (what applies them may add it)."""
        for item in self._by_kind.get(kind, ()):
            namespace = mapping(item.get("metadata")).get("namespace")
            if not namespace or not workload.namespace or namespace == workload.namespace:
                yield item


def can_be_one_release(objects: Iterable[JSON]) -> bool:
    """True if the objects can be one release: no two with a name have the same kind, namespace and name, so that none
    would overwrite another one."""
    named = [item for item in objects if _name(item)]
    keys = {(*group_and_kind(item), mapping(item.get("metadata")).get("namespace"), _name(item)) for item in named}
    return len(keys) == len(named)


def config_map_names(obj: Any, collected: set[str] | None = None) -> set[str]:
    """The names of the ConfigMaps that an object's Pods refer to, wherever in it. `collected`: for the calls of the
    function itself, the set to which it adds."""
    collected = set() if collected is None else collected
    if isinstance(obj, Mapping):
        for key, value in obj.items():
            if key in ("configMapRef", "configMapKeyRef", "configMap") and isinstance(value, Mapping):
                if isinstance(value.get("name"), str):
                    collected.add(value["name"])
            else:
                config_map_names(value, collected)
    elif isinstance(obj, list):
        for item in obj:
            config_map_names(item, collected)
    return collected


def _names_claim(value: Any, name: str) -> bool:
    """True if an object refers to the claim, wherever in it."""
    if isinstance(value, Mapping):
        return value.get("claimName") == name or any(_names_claim(child, name) for child in value.values())
    return isinstance(value, list) and any(_names_claim(item, name) for item in value)


def describe(obj: JSON) -> str:
    """ "HorizontalPodAutoscaler llama-70b", as messages name a companion."""
    return f"{obj.get('kind')} {_name(obj)}"


def replicas(obj: JSON) -> tuple[int | None, int | None]:
    """(minimum, maximum) of the replicas that an autoscaler sets. None if it does not say: the defaults are 1 for a
    HorizontalPodAutoscaler's minimum, 0 and 100 for a ScaledObject."""
    spec = mapping(obj.get("spec"))
    if group_and_kind(obj) == _SCALED_OBJECT:
        minimum, maximum = spec.get("minReplicaCount"), spec.get("maxReplicaCount")
    else:
        minimum, maximum = spec.get("minReplicas"), spec.get("maxReplicas")
    return minimum if isinstance(minimum, int) else None, maximum if isinstance(maximum, int) else None


def _name(obj: JSON) -> str:
    """The object's name, empty without one."""
    return str(mapping(obj.get("metadata")).get("name") or "")


def _is_scale_target(obj: JSON, workload: Workload) -> bool:
    """True if `scaleTargetRef` names the workload, or the Deployment that KServe makes of it. KEDA's default kind is
    Deployment (keda.sh ScaledObject specification)."""
    ref = mapping(FieldPath(("spec", "scaleTargetRef")).get(obj))
    target = (ref.get("kind", "Deployment"), ref.get("name"))
    if target == (workload.kind, workload.name):
        return True
    suffix = _DEPLOYMENT_SUFFIXES.get(workload.kind)
    return suffix is not None and target == ("Deployment", workload.name + suffix)


_DEPLOYMENT_SUFFIXES = {"InferenceService": "-predictor", "LLMInferenceService": "-kserve"}
"""Kind → what its operator adds to the name for the Deployment (KServe pkg/constants, llmisvc workload_single_node)."""


def _selects_labels(selector: JSON, labels: JSON) -> bool:
    """True if the selector certainly selects the labels; an empty one selects everything (policy/v1
    PodDisruptionBudgetSpec). False if it is not valid."""
    parsed = of_object(selector)
    return parsed is not None and parsed.selects({str(key): str(value) for key, value in labels.items()}) is True
