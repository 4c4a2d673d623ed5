"""An immutable snapshot of the other objects around the checked one, reduced to the fields that podfit uses.

It has the same form for a cluster, which `podfit.cluster` watches, and for the files given to `podfit check`. This
module sends no requests: objects that were not seen are None, and callers continue without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from podfit.kube import quantity, revisions
from podfit.kube.path import mapping, mappings

JSON = Mapping[str, Any]
Key = tuple[str, str]
"""Namespace ("" if there is none) and name."""
HARDWARE = ("gpu", "accelerator", "instance", "machine", "device-type", "partition", "mps")
"""Parts of labels' names: with none of them a label says nothing of an accelerator."""
ALIKE = 64
"""Sets of labels' names whose sorts of nodes are remembered: Pods ask for few."""
MODEL_CONFIG = "podfit.dev/model-config"
"""The label of a ConfigMap that an admin filled with a model's config.json."""


class WatchedKind(NamedTuple):
    """A kind of object: its path at the API server, and the fields that are kept of each."""

    name: str
    """One word for people, values and metrics; the plural that RBAC uses."""
    kind: str
    group: str
    versions: tuple[str, ...]
    """The newest first: a server that lacks one answers 404 and is asked for the next."""
    keep: Callable[[JSON], JSON]
    """The object → what is used of it. Pure; may raise nothing on odd shapes."""
    max_object: int = 64 << 10
    """Bytes of JSON that are kept of one object; a larger one is unknown."""
    max_bytes: int = 8 << 20
    """Bytes of memory for all objects of the kind (`cluster.store`)."""
    namespaced: bool = True
    label: str = ""
    """Only objects with this label."""
    own_namespace: bool = False
    """Only those in podfit's own namespace: an admin should not grant access to every ConfigMap of a cluster."""
    aside: bool = False
    """A change of such an object can at most turn a denial into an allowance, and such denials are not cached.

    The snapshot's version therefore stays the same, so that a roll-out somewhere does not invalidate all decisions."""

    def path(self, version: str, namespace: str = "") -> str:
        """Where the API server lists it."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{self.name}" if namespace else f"{root}/{self.name}"


@dataclass(frozen=True)
class Node:
    """The properties of a node that a scheduler reads."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[JSON, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """Extended resources alone ("nvidia.com/gpu": 8)."""
    hardware: frozenset[tuple[str, str]] = frozenset()
    """The labels that may describe the accelerator: equal for equal nodes."""


class Alike(NamedTuple):
    """Nodes that differ in nothing that is asked of them."""

    node: Node
    """The first of them."""
    many: int


@dataclass(frozen=True)
class Snapshot:
    """Everything that is known at one moment; replaced whole, never changed."""

    objects: Mapping[str, Mapping[Key, JSON]] = field(default_factory=dict)
    """Kind → its objects, reduced by `WatchedKind.keep`. A kind that is absent was not read, so its objects may
    exist."""
    stale: frozenset[str] = frozenset()
    """Kinds that were seen, but not lately: what they say may have been overtaken."""
    version: str = ""
    """Equal for equal content, in every replica."""
    unknown: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Kind → namespaces ("" if the kind has none) with objects that are too large or too many to be known."""

    def get(self, kind: str, namespace: str | None, name: object) -> JSON | None:
        """One object; one without a namespace (a file's) stands in for any."""
        entries = self.objects.get(kind, {})
        return entries.get((namespace or "", str(name))) or entries.get(("", str(name)))

    def joined(self, snapshot: Snapshot) -> Snapshot:
        """The objects of both; of two with one name, this snapshot's."""
        kinds = self.objects.keys() | snapshot.objects.keys()
        objects = {kind: {**snapshot.objects.get(kind, {}), **self.objects.get(kind, {})} for kind in kinds}
        return Snapshot(objects, self.stale | snapshot.stale, self.version)

    def complete(self, kind: str) -> bool:
        """True if all objects of a kind are here and fresh, so that what is not here does not exist."""
        return kind in self.objects and kind not in self.stale and not self.unknown.get(kind)

    def has_unknown(self, kind: str, namespace: str | None) -> bool:
        """True if a namespace has objects of a kind of which nothing is known."""
        return (namespace or "") in self.unknown.get(kind, ())

    @cached_property
    def nodes(self) -> tuple[Node, ...] | None:
        """All nodes; None if they are not watched."""
        if "nodes" not in self.objects:
            return None
        return tuple(_node_of(name, kept) for (_, name), kept in self.objects["nodes"].items())

    @cached_property
    def alike(self) -> Callable[[frozenset[str]], tuple[Alike, ...]]:
        """Names of labels → all nodes in their order, grouped by these labels, hardware, resources and taints.

        A thousand nodes are mostly of a few kinds. Names that no node has are ignored, which keeps the cache small."""
        nodes = self.nodes or ()
        properties = [(node.hardware, frozenset(node.allocatable.items()), repr(node.taints)) for node in nodes]
        known = frozenset(name for node in nodes for name in node.labels)

        @lru_cache(ALIKE)
        def grouped(names: frozenset[str]) -> tuple[Alike, ...]:
            """The nodes, grouped by the values of these labels and by the other properties."""
            groups: dict[object, list[Node]] = {}
            for node, of_node in zip(nodes, properties, strict=True):
                groups.setdefault((of_node, *map(node.labels.get, names)), []).append(node)
            return tuple(Alike(group[0], len(group)) for group in groups.values())

        return lambda names: grouped(names & known)


def _node_of(name: str, kept: JSON) -> Node:
    """A node from what is kept of it."""
    labels = kept["labels"]
    hardware = frozenset((word, labels[word]) for word in kept.get("hardware", ()))
    return Node(name, labels, kept.get("taints", ()), kept.get("allocatable", {}), hardware)


def from_objects(objects: Iterable[JSON], around: Snapshot | None = None) -> Snapshot:
    """The snapshot of objects in files other than workloads: claims, device classes, volumes, and exported nodes.

    With the output of `kubectl get nodes -o yaml` next to the manifests, `podfit check` checks for that cluster.
    `around`: objects from elsewhere in the input, which `objects` override; if `objects` have nodes, only those count.
    """
    entries: dict[str, dict[Key, JSON]] = {}
    for obj in objects:
        if kind := _kind(obj):
            entries.setdefault(kind.name, {})[key(obj)] = kind.keep(obj)
    if around is None:
        return Snapshot(entries)
    if not entries:
        return around
    inherited = {name: {} if name == "nodes" else around.objects.get(name, {}) for name in entries}
    return Snapshot({**around.objects, **{name: {**inherited[name], **own} for name, own in entries.items()}})


def of_cluster(obj: JSON) -> str | None:
    """The name of the watched kind of an object ("nodes"), if its objects are in no namespace; else None."""
    kind = _kind(obj)
    return kind.name if kind is not None and not kind.namespaced else None


def _kind(obj: JSON) -> WatchedKind | None:
    """The watched kind of an object; None for other kinds, and for a Node without status, as in a file."""
    group, _, _ = str(obj.get("apiVersion") or "").rpartition("/")
    kind = _BY_KIND.get((group, str(obj.get("kind"))))
    if kind is not None and kind.name == "nodes" and not mapping(obj.get("status")).get("allocatable"):
        return None
    return kind


def key(obj: JSON) -> Key:
    """The namespace and name of an object, each "" if it has none."""
    metadata = mapping(obj.get("metadata"))
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _node(obj: JSON) -> JSON:
    """A node's labels, resources of device plugins and taints, as far as rules need them. One without a sign of an
    accelerator is only counted: its labels are never needed."""
    spec, status = mapping(obj.get("spec")), mapping(obj.get("status"))
    extended = {
        str(name): count
        for name, value in {**mapping(status.get("capacity")), **mapping(status.get("allocatable"))}.items()
        if "/" in str(name) and (count := quantity.try_parse(value))
    }
    labels = mapping(mapping(obj.get("metadata")).get("labels"))
    kept: dict[str, Any] = {"labels": {}}
    if extended or any("gpu" in name or "accelerator" in name for name in labels):  # its plugin may not be up yet
        kept["labels"] = {str(name): str(value) for name, value in labels.items()}
        kept["hardware"] = [name for name in kept["labels"] if any(word in name for word in HARDWARE)]
    if extended:
        kept["allocatable"] = extended
    if items := mappings(spec.get("taints")):
        kept["taints"] = tuple({word: item[word] for word in _TAINT if word in item} for item in items)
    return kept


def _labels(obj: JSON) -> JSON:
    labels = mapping(mapping(obj.get("metadata")).get("labels"))
    return {"labels": {str(name): str(value) for name, value in labels.items()}}


_TAINT = ("key", "value", "effect")


def _policy(obj: JSON) -> JSON:
    """The fields of a Policy that `evaluation.policy.document` reads, and those that were accepted last."""
    metadata = mapping(obj.get("metadata"))
    kept = {word: metadata[word] for word in ("name", "uid", "generation") if word in metadata}
    rest = {word: obj[word] for word in obj if word not in ("metadata", "status")}
    if accepted := mapping(obj.get("status")).get("accepted"):
        rest["status"] = {"accepted": accepted}
    return {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", **rest, "metadata": kept}


def _claim_template(obj: JSON) -> JSON:
    return {"spec": {"spec": _devices(mapping(mapping(obj.get("spec")).get("spec")))}}


def _claim(obj: JSON) -> JSON:
    return {"spec": _devices(mapping(obj.get("spec")))}


def _device_class(obj: JSON) -> JSON:
    return {"spec": _selectors(mapping(obj.get("spec")))}


def _devices(spec: JSON) -> JSON:
    """The fields of a ResourceClaimSpec that `podfit.vllm.gpu.claim` reads; a driver's own configuration may be
    large."""
    return {
        "devices": {
            "requests": [
                _request(device_request) for device_request in mappings(mapping(spec.get("devices")).get("requests"))
            ]
        }
    }


def _request(request: JSON) -> JSON:
    """A DeviceRequest, or one of its subrequests."""
    kept = {word: _scalar(request[word]) for word in _REQUEST if word in request} | _selectors(request)
    if "exactly" in request:
        kept["exactly"] = _request(mapping(request["exactly"]))
    if subrequests := mappings(request.get("firstAvailable")):
        kept["firstAvailable"] = [_request(subrequest) for subrequest in subrequests]
    return kept


def _scalar(value: object) -> object:
    """The value; None for a list or an object, of any size, where the API has none."""
    return None if isinstance(value, list | Mapping) else value


def _selectors(request: JSON) -> dict[str, Any]:
    """The CEL selectors of a DeviceRequest or a DeviceClass."""
    texts = (mapping(selector.get("cel")).get("expression") for selector in mappings(request.get("selectors")))
    selectors = [{"cel": {"expression": text}} for text in texts if isinstance(text, str)]
    return {"selectors": selectors} if selectors else {}


_REQUEST = ("name", "deviceClassName", "allocationMode", "count")


def _model_config(obj: JSON) -> JSON:
    """The fields of a ConfigMap that `podfit.vllm.model.given` reads."""
    metadata = mapping(obj.get("metadata"))
    return {
        "kind": "ConfigMap",
        "metadata": {
            word: metadata[word] for word in ("namespace", "name", "labels", "annotations") if word in metadata
        },
        "data": mapping(obj.get("data")),
    }


def _volume_claim(obj: JSON) -> JSON:
    """The fields of a PersistentVolumeClaim that are kept."""
    spec = mapping(obj.get("spec"))
    words = ("accessModes", "storageClassName", "volumeMode", "resources", "volumeName")
    return {
        "spec": {word: spec[word] for word in words if word in spec},
        "capacity": mapping(mapping(obj.get("status")).get("capacity")),
    }


def _storage_class(obj: JSON) -> JSON:
    words = ("provisioner", "volumeBindingMode", "allowVolumeExpansion")
    return {word: obj[word] for word in words if word in obj}


def _limit_range(obj: JSON) -> JSON:
    return {"limits": mapping(obj.get("spec")).get("limits")}


def _quota(obj: JSON) -> JSON:
    """The resources that a ResourceQuota counts, and its Pods. Its used amounts are left out: they change too often."""
    spec = mapping(obj.get("spec"))
    scopes, expressions = spec.get("scopes"), mapping(spec.get("scopeSelector")).get("matchExpressions")
    names = list(scopes) if isinstance(scopes, list) else []
    names += [mapping(item).get("scopeName") for item in (expressions if isinstance(expressions, list) else ())]
    return {"hard": sorted(map(str, mapping(spec.get("hard")))), "scopes": names}


def _node_pool(obj: JSON) -> JSON:
    """The fields of a NodePool that describe its nodes: their labels, and requirements on the rest (karpenter.sh/v1
    NodePool)."""
    template = mapping(mapping(obj.get("spec")).get("template"))
    return {
        **_labels(template),
        "requirements": tuple(
            {"key": str(item.get("key")), "operator": str(item.get("operator")), "values": tuple(map(str, values))}
            for item in mappings(mapping(template.get("spec")).get("requirements"))
            if isinstance(values := item.get("values") or [], list)
        ),
    }


def _compute_class(obj: JSON) -> JSON:
    """The labels that identify the machines of each priority of a ComputeClass (cloud.google.com/v1)."""
    priorities = mapping(obj.get("spec")).get("priorities")
    items = []
    for item in map(mapping, priorities if isinstance(priorities, list) else ()):
        values = {
            "node.kubernetes.io/instance-type": item.get("machineType"),
            "cloud.google.com/machine-family": item.get("machineFamily"),
            "cloud.google.com/gke-accelerator": mapping(item.get("gpu")).get("type"),
            "cloud.google.com/gke-tpu-accelerator": mapping(item.get("tpu")).get("type"),
        }
        items.append({key: str(value) for key, value in values.items() if value})
    return {"priorities": tuple(items)}


_RESOURCE_API = ("v1", "v1beta2", "v1beta1")
"""resource.k8s.io: v1 since Kubernetes 1.34, v1beta2 1.33, v1beta1 1.32."""
_OBJECT_BYTES, _KIND_BYTES = 4 << 20, 32 << 20
"""Bytes of one object, which etcd does not allow, and of a kind."""

WATCHED_KINDS: tuple[WatchedKind, ...] = (
    # A GPU node with 65 labels counts as 15 KB; two thirds of that are texts that all nodes share.
    WatchedKind("nodes", "Node", "", ("v1",), _node, namespaced=False, max_bytes=64 << 20),
    WatchedKind("namespaces", "Namespace", "", ("v1",), _labels, namespaced=False),
    # Only admins write these two; an index of a checkpoint's files may take all of a ConfigMap (1 MiB).
    WatchedKind(
        "policies",
        "Policy",
        "podfit.dev",
        ("v1alpha1",),
        _policy,
        namespaced=False,
        max_object=_OBJECT_BYTES,
        max_bytes=_KIND_BYTES,
    ),
    WatchedKind(
        "configmaps",
        "ConfigMap",
        "",
        ("v1",),
        _model_config,
        label=MODEL_CONFIG,
        own_namespace=True,
        max_object=_OBJECT_BYTES,
        max_bytes=_KIND_BYTES,
    ),
    WatchedKind("resourceclaimtemplates", "ResourceClaimTemplate", "resource.k8s.io", _RESOURCE_API, _claim_template),
    WatchedKind("resourceclaims", "ResourceClaim", "resource.k8s.io", _RESOURCE_API, _claim),
    WatchedKind("deviceclasses", "DeviceClass", "resource.k8s.io", _RESOURCE_API, _device_class, namespaced=False),
    WatchedKind("persistentvolumeclaims", "PersistentVolumeClaim", "", ("v1",), _volume_claim),
    WatchedKind("storageclasses", "StorageClass", "storage.k8s.io", ("v1",), _storage_class, namespaced=False),
    WatchedKind("limitranges", "LimitRange", "", ("v1",), _limit_range),
    WatchedKind("resourcequotas", "ResourceQuota", "", ("v1",), _quota),
    # 700 bytes of memory each: a cluster has ten for each Deployment.
    WatchedKind(
        "replicasets", "ReplicaSet", "apps", ("v1",), revisions.reduce_revision, aside=True, max_bytes=16 << 20
    ),
    WatchedKind("controllerrevisions", "ControllerRevision", "apps", ("v1",), revisions.reduce_revision, aside=True),
)
"""The watched kinds, with the fields that are kept. docs/security.md says which part needs it, and whether it is on by
default."""

WATCHED_BY_DEFAULT = tuple(kind.name for kind in WATCHED_KINDS if kind.name != "resourceclaims")
"""Kinds that are watched by default. Claims are not among them: every Pod with a claim template makes one."""

FILE_KINDS: tuple[WatchedKind, ...] = (
    WatchedKind("nodepools", "NodePool", "karpenter.sh", ("v1", "v1beta1"), _node_pool, namespaced=False),
    WatchedKind("computeclasses", "ComputeClass", "cloud.google.com", ("v1",), _compute_class, namespaced=False),
)
"""Kinds that are read from files only. In a cluster, the nodes themselves say more."""

_BY_KIND = {(kind.group, kind.kind): kind for kind in (*WATCHED_KINDS, *FILE_KINDS)}
