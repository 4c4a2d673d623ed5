"""An API server in memory: what it serves, in pages, and what it forbids. No network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from podfit.cluster.access import Client, StatusError
from tests.conftest import GOOD_POD

JSONDict = dict[str, Any]
PLURALS = {"NetworkPolicy": "networkpolicies"}
CORE = ("Pod", "Service", "ConfigMap", "Namespace", "Node", "PersistentVolumeClaim", "ReplicationController")
BUILT_IN = {
    "v1": CORE,
    "apps/v1": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "batch/v1": ("Job", "CronJob"),
    "policy/v1": ("PodDisruptionBudget",),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "storage.k8s.io/v1": ("StorageClass",),
}
UNSCOPED = {"Namespace", "Node", "StorageClass", "ClusterServingRuntime", "Policy"}


class Api(Client):
    """Objects in, answers out. `refuse`: plurals that no user may list. `size`: objects of a page."""

    def __init__(
        self,
        *objects: JSONDict,
        refuse: Iterable[str] = (),
        size: int = 2,
        kinds: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.objects = list(objects)
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.written: list[tuple[str, JSONDict]] = []
        self.deleted: list[str] = []
        self.refuse = set(refuse)
        self.size = size
        self.fault: Callable[[str, Mapping[str, str]], None] = lambda *_: None
        """May raise instead of an answer."""
        extra = {one["apiVersion"]: {one["kind"]} for one in objects if one["apiVersion"] not in BUILT_IN}
        self.kinds: dict[str, tuple[str, ...]] = {
            **BUILT_IN, **{version: tuple(found) for version, found in extra.items()}, **(kinds or {}),
        }  # fmt: skip

    @property
    def namespace(self) -> str:
        """podfit's own."""
        return "podfit-system"

    @property
    def in_pod(self) -> bool:
        """Whether its own account asks."""
        return True

    def get_unreduced(self, path: str, query: Mapping[str, str] | None = None) -> JSONDict:
        """Discovery."""
        if path == "/version":
            return {"major": "1"}
        if path == "/apis":
            groups: dict[str, list[JSONDict]] = {}
            for version in self.kinds:
                if "/" in version:
                    groups.setdefault(version.partition("/")[0], []).append({"groupVersion": version})
            return {
                "groups": [
                    {"name": name, "preferredVersion": found[0], "versions": found} for name, found in groups.items()
                ]
            }
        version = path.removeprefix("/apis/").removeprefix("/api/")
        self.fault(path, {})
        return {
            "resources": [
                {"name": _plural(kind), "kind": kind, "namespaced": kind not in UNSCOPED, "verbs": ["list", "get"]}
                for kind in self.kinds[version]
            ]
        }

    def get(self, path: str, query: Mapping[str, str]) -> JSONDict:
        """A page of a list, or an object."""
        self.asked.append((path, dict(query)))
        self.fault(path, query)
        words = path.strip("/").split("/")
        version, rest = (words[1], words[2:]) if words[0] == "api" else ("/".join(words[1:3]), words[3:])
        namespace = None
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        if rest[0] in self.refuse:
            raise StatusError(403, f'{rest[0]} is forbidden: User "u" cannot list resource "{rest[0]}"')
        if not any(_plural(kind) == rest[0] for kind in self.kinds.get(version, ())):
            raise StatusError(404, "the server could not find the requested resource")
        found = [
            one for one in self.objects
            if one["apiVersion"] == version and _plural(one["kind"]) == rest[0]
            and (namespace is None or one["metadata"].get("namespace") == namespace)
            and _selected(one, query.get("labelSelector"))
        ]  # fmt: skip
        if len(rest) > 1:
            match = [one for one in found if one["metadata"]["name"] == rest[1]]
            if not match:
                raise StatusError(404, "not found")
            return match[0]
        start = int(query.get("continue") or 0)
        page = [{key: value for key, value in one.items() if key not in ("apiVersion", "kind")}
                for one in found[start : start + self.size]]  # fmt: skip
        more = str(start + self.size) if start + self.size < len(found) else ""
        return deepcopy({"metadata": {"continue": more}, "items": page})

    def apply(self, path: str, obj: Mapping[str, Any], dry_run: str | None = None) -> None:
        """Remembers it."""
        self.fault(path, {})
        self.written.append((path, dict(obj)))

    def delete(self, path: str) -> None:
        """Remembers it."""
        self.deleted.append(path)

    def close(self) -> None:
        """There is nothing to close."""


def _plural(kind: str) -> str:
    return PLURALS.get(kind, f"{kind.lower()}{'es' if kind.endswith('Class') else 's'}").replace("policys", "policies")


def _selected(obj: JSONDict, selector: str | None) -> bool:
    if not selector:
        return True
    key, sign, value = selector.partition("=")
    labels = obj["metadata"].get("labels") or {}
    return key in labels and (not sign or labels[key] == value)


def pod(name: str, namespace: str = "chat", owner: JSONDict | None = None, **spec: Any) -> JSONDict:
    """A Pod that podfit has nothing to say about; `spec` is laid over its own."""
    made = deepcopy(GOOD_POD)
    made["metadata"] = meta(name, namespace, owner)
    made["spec"] |= spec
    return made


def workload(kind: str, name: str, namespace: str = "chat", owner: JSONDict | None = None, **fields: Any) -> JSONDict:
    """A Deployment or another kind with `spec.template`; `args` are vLLM's, `labels` its own."""
    inner = pod(name)["spec"]
    inner["containers"][0] |= {key: fields[key] for key in ("args", "image") if key in fields}
    made = {
        "apiVersion": fields.get("version", "apps/v1"), "kind": kind, "metadata": meta(name, namespace, owner),
        "spec": {
            "replicas": fields.get("replicas", 2),
            "template": {"metadata": {"labels": {"app": name}}, "spec": inner},
        },
    }  # fmt: skip
    made["metadata"]["labels"] = fields.get("labels", {"app": name})
    return made


def meta(name: str, namespace: str, owner: JSONDict | None) -> JSONDict:
    """Metadata with a uid, and the owner's reference."""
    made: JSONDict = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    if owner is not None:
        made["ownerReferences"] = [
            {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
             "uid": owner["metadata"]["uid"], "controller": True}
        ]  # fmt: skip
    return made


DOOMED = ["--model", "unsloth/Llama-3.1-8B-Instruct", "--max-model-len", "8192", "--no-such-flag"]
"""Arguments that vLLM rejects."""
