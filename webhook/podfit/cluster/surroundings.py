"""The surroundings of a cluster's workloads, listed once: nodes, claims, classes, namespaces, and models in ConfigMaps.

They are the kinds that a server watches, so that a command decides by what the webhook knows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from kubernetes.dynamic import Resource

from podfit.cluster.access import Client, StatusError, UnreachableError
from podfit.cluster.listing import Key, group_resource, pages
from podfit.kube import snapshot
from podfit.kube.snapshot import WATCHED_KINDS, Snapshot, WatchedKind
from podfit.kube.workload import JSON
from podfit.vllm.facts import Facts, GivenModel
from podfit.vllm.model import given

LISTED_KINDS = tuple(kind for kind in WATCHED_KINDS if kind.name != "policies" and not kind.aside)
"""Policy objects are read with the policy; earlier revisions matter only to updates."""
GROUPS = frozenset(kind.group for kind in LISTED_KINDS)
"""The API groups of these kinds."""


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of the workloads, from one reading of a cluster."""

    snapshot: Snapshot
    models: Mapping[str, GivenModel]
    """Name → model, of the ConfigMaps of an admin."""
    problems: tuple[str, ...]
    """ConfigMaps that can't be read as models, each in one line."""

    def facts(self, base: Facts) -> Facts:
        """`base` with the snapshot and the models. Models of `base` override those of ConfigMaps."""
        return replace(base, cluster=self.snapshot, models=given.joined(base.models, self.models))


def read(
    client: Client,
    resources: Mapping[Key, Resource],
    unread: Callable[[str, Exception], None],
    *,
    namespaces: Collection[str] = (),
    without: Collection[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Surroundings:
    """List the objects of LISTED_KINDS, each kind if the API server has it (`resources`).

    `unread` gets each kind that can't be read ("nodes"), with the reason; such a kind is unknown. `namespaces`: of
    kinds in namespaces, only objects of these are listed; none: all. `without`: names of kinds that are not listed.
    `tell` gets the name of each kind before it is listed, as progress. Raises OSError or ValueError as `pages` does."""
    objects: dict[str, dict[snapshot.Key, JSON]] = {}
    for kind in LISTED_KINDS:
        resource = resources.get((kind.group, kind.kind))
        if resource is None or kind.name in without:
            continue
        tell(group_resource(resource))
        try:
            objects[kind.name] = {
                snapshot.key(item): kind.keep({"kind": kind.kind, **item})
                for namespace in _namespaces(client, kind, namespaces)
                for page in pages(client, resource.path(namespace=namespace), _query(kind))
                for item in page
            }
        except (StatusError, UnreachableError) as error:
            unread(group_resource(resource), error)
    models: dict[str, GivenModel] = {}
    problems: list[str] = []
    for config_map in objects.get("configmaps", {}).values():
        models_of_map, errors = given.of_config_map(config_map)
        models |= models_of_map
        problems += errors
    return Surroundings(Snapshot(objects, version="listed"), models, tuple(problems))


def _namespaces(client: Client, kind: WatchedKind, namespaces: Collection[str]) -> Collection[str | None]:
    """The namespaces in which objects of a kind are listed; None is all of them.

    A kind of podfit's own namespace is listed there if podfit runs in a Pod. The namespace of a user's context is
    another one, so for a user all are listed. `namespaces`: the ones to list other kinds in; empty: all."""
    if kind.own_namespace:
        return [client.namespace if client.in_pod else None]
    return sorted(namespaces) if kind.namespaced and namespaces else [None]


def _query(kind: WatchedKind) -> dict[str, str]:
    """The query of a list that returns only objects with the kind's label, or all if it has none."""
    return {"labelSelector": kind.label} if kind.label else {}
