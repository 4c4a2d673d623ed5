"""Single objects of a cluster as a person names them (`deploy/llama`), with their Pods and logs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kubernetes.dynamic import Resource

from podfit.cluster.access import Client, StatusError
from podfit.cluster.listing import groups, kinds

JSONDict = dict[str, Any]


def resource(client: Client, word: str) -> Resource:
    """The kind that kubectl takes `word` for: plural, singular, short name or kind, with or without the API group
    (`isvc`, `inferenceservices.serving.kserve.io`, `deployments.v1.apps`). The first API group that has one wins.

    Raises ValueError if there is none, or as `Client.get` if the groups can't be read."""
    name, _, suffix = word.lower().partition(".")  # suffix: empty, "apps" or "v1.apps"
    for group, versions in groups(client).items():
        for version in dict.fromkeys(versions):
            number = version.rpartition("/")[2]
            if suffix not in ("", group, f"{number}.{group}"):
                continue
            with suppress(StatusError):  # the search goes on after an aggregated API that is down
                for kind in kinds(client, version):
                    if name in (kind.name, kind.singular_name, kind.kind.lower(), *(kind.short_names or ())):
                        return kind
    raise ValueError(f"this cluster has no kind '{word}'")


def get(client: Client, word: str, name: str, namespace: str | None = None) -> JSONDict:
    """An object as `kubectl get` shows it, without managedFields. `word`: its kind, as for `resource`; `namespace`:
    None is the client's. Raises ValueError if the cluster lacks the kind, or as `Client.get`."""
    kind = resource(client, word)
    obj = client.get_unreduced(kind.path(name, namespace or client.namespace))
    obj.get("metadata", {}).pop("managedFields", None)
    return obj


def pods(client: Client, workload: Mapping[str, Any]) -> list[JSONDict]:
    """The Pods of a workload's namespace that its `matchLabels` select, one at least. Raises ValueError if the workload
    has no such selector or no Pod, or as `Client.get`."""
    labels = workload.get("spec", {}).get("selector", {}).get("matchLabels") or {}
    if not labels:
        raise ValueError(f"{workload.get('kind')} has no selector by labels. Fix: name one of its Pods")
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    path = f"/api/v1/namespaces/{workload['metadata']['namespace']}/pods"
    items: list[JSONDict] = client.get_unreduced(path, {"labelSelector": selector}).get("items") or []
    if not items:
        raise ValueError(f"no Pod has the labels {selector}")
    return [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in items]


def events(client: Client, pod: Mapping[str, Any]) -> list[JSONDict]:
    """The Events about objects of a Pod's name in its namespace; raises as `Client.get`."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/events"
    items: list[JSONDict] = client.get_unreduced(path, {"fieldSelector": f"involvedObject.name={metadata['name']}"})[
        "items"
    ]
    return items


def log(client: Client, pod: Mapping[str, Any], container: str, most: int, *, previous: bool = False) -> str:
    """The first `most` bytes of a container's log, decoded; `previous`: of the log of the run before the current one.
    Raises as `Client.get`."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
    query = {"container": container, "limitBytes": str(most)} | ({"previous": "true"} if previous else {})
    return client.text(path, query, most)


def is_ready(pod: Mapping[str, Any]) -> bool:
    """True if all containers of a Pod are ready; False if it has no status of containers yet."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return bool(statuses) and all(status.get("ready") for status in statuses)
