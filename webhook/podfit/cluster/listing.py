"""A cluster, read once from end to end: which kinds its API server has, and the objects of one, page by page."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from kubernetes.dynamic import Resource

from podfit.cluster.access import Client, StatusError, UnreachableError
from podfit.kube.path import mapping

PAGE = 250
"""Objects of a page: with some 20 KB each, what is in memory at a moment stays far below 50 MB."""
MAX_TRIES = 4
"""Attempts for a request that breaks, or for which the API server is too busy."""
LONGEST = 10.0
"""Seconds that are waited before another try, whatever `Retry-After` says."""

Key = tuple[str, str]
"""(API group, kind)."""


def group_resource(resource: Resource) -> str:
    """The plural with its group, as RBAC and kubectl name it: "deployments.apps"."""
    return f"{resource.name}.{resource.group}" if resource.group else str(resource.name)


def with_kind(resource: Resource, item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of a list, which names neither version nor kind, as an object of its own."""
    return {"apiVersion": resource.group_version, "kind": resource.kind, **item}


def groups(client: Client) -> dict[str, list[str]]:
    """API group → its versions ("apps/v1"), the preferred one first; in the order of the server."""
    return {"": ["v1"]} | {
        str(item["name"]): [item["preferredVersion"]["groupVersion"], *(v["groupVersion"] for v in item["versions"])]
        for item in client.get_unreduced("/apis").get("groups") or ()
    }


def kinds(client: Client, version: str) -> Iterator[Resource]:
    """The kinds of a version that can be listed."""
    group, _, number = version.rpartition("/")
    prefix = "apis" if group else "api"
    for item in client.get_unreduced(f"/{prefix}/{version}").get("resources") or ():
        if "/" not in item["name"] and "list" in (item.get("verbs") or ()):
            yield Resource(**{**item, "prefix": prefix, "group": group, "api_version": number})


def served(client: Client, names: Collection[str]) -> tuple[dict[Key, Resource], dict[str, Exception]]:
    """The kinds of these API groups that can be listed, each in the preferred version that has it. Also
    the versions ("apps/v1") that could not be read (an aggregated API that is down), each with the reason."""
    entries: dict[Key, Resource] = {}
    silent: dict[str, Exception] = {}
    versions = groups(client)
    for group in sorted(names):
        for version in dict.fromkeys(versions.get(group, ())):
            try:
                for kind in kinds(client, version):
                    entries.setdefault((group, kind.kind), kind)
            except (StatusError, UnreachableError, ValueError) as error:  # an AccessError ends it
                silent[version] = error
    return entries, silent


def pages(
    client: Client, path: str, query: Mapping[str, str] | None = None, wait: Callable[[float], object] = time.sleep
) -> Iterator[list[dict[str, Any]]]:
    """All objects of a list, a page at a time; raises StatusError if the API server forbids it, OSError or ValueError
    where it stays away.

    If its place in the history is gone (410: a list of more than some five minutes), the list continues from
    the same name with the token of that answer. Without a token it starts again and leaves out what was seen.
    """
    entries = {**(query or {}), "limit": str(PAGE)}
    page_names: set[str] | None = None
    names: set[str] = set()
    while True:
        try:
            page = get(client, path, entries, wait)
        except StatusError as error:
            if error.code != 410 or "continue" not in entries:
                raise
            if error.resume and error.resume != entries["continue"]:
                entries["continue"] = error.resume
            elif page_names is None:
                del entries["continue"]
                page_names = set(names)
            else:
                raise
            continue
        items = [item for item in page.get("items") or () if isinstance(item, dict)]
        names |= {_identity(item) for item in items}
        if page_names is not None:
            items = [item for item in items if _identity(item) not in page_names]
        yield items
        more = mapping(page.get("metadata")).get("continue")
        if not more:
            return
        entries["continue"] = str(more)


def _identity(obj: Mapping[str, Any]) -> str:
    metadata = mapping(obj.get("metadata"))
    return str(metadata.get("uid") or f"{metadata.get('namespace')}/{metadata.get('name')}")


def get(
    client: Client, path: str, query: Mapping[str, str], wait: Callable[[float], object] = time.sleep
) -> dict[str, Any]:
    """One page, or one object; a busy or restarting API server is asked again, at most MAX_TRIES times in all, with
    pauses in seconds by `wait`. Raises as `pages`."""
    for attempt in range(1, MAX_TRIES + 1):
        pause = 0.5 * 2 ** (attempt - 1)
        try:
            return client.get(path, query)
        except StatusError as error:
            if error.code not in (429, 500, 502, 503, 504) or attempt == MAX_TRIES:
                raise
            pause = error.retry_after or pause
        except UnreachableError:
            if attempt == MAX_TRIES:
                raise
        wait(min(pause, LONGEST))
    raise AssertionError("unreachable")


SERVING_API = "serving.kserve.io/v1alpha1"
"""The only version of ServingRuntime and ClusterServingRuntime (KServe pkg/apis/serving/v1alpha1)."""


def serving_runtime(client: Client, namespace: str, name: str) -> dict[str, Any] | None:
    """The runtime that an InferenceService of the namespace gets by this name; None if the cluster has none.

    The namespace's own comes first (KServe pkg/controller/v1beta1/inferenceservice/utils: `GetServingRuntime`). Raises
    StatusError, OSError or ValueError."""
    for kind, path in (
        ("ServingRuntime", f"/apis/{SERVING_API}/namespaces/{namespace}/servingruntimes/{name}"),
        ("ClusterServingRuntime", f"/apis/{SERVING_API}/clusterservingruntimes/{name}"),
    ):
        try:
            return {**get(client, path, {}), "apiVersion": SERVING_API, "kind": kind}
        except StatusError as error:
            if error.code != 404:
                raise
    return None
