"""A cluster, read once from end to end: which kinds its API server has, and the objects of one, page by page."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from kubernetes.dynamic import Resource

from podfit.cluster.access import Client, StatusError, UnreachableError
from podfit.kube.path import mapping

PAGE = 250
"""Objects of a page: with some 20 KB each, what is in memory at a moment stays far below 50 MB."""
MAX_TRIES = 4
"""Attempts for a request that breaks, or for which the API server is too busy. A choice: if the server names no pause,
a user waits 0.5 + 1 + 2 seconds for the error."""
FIRST_PAUSE = 0.5
"""Seconds before the second attempt, if the server names none; doubled before each further one."""
LONGEST_PAUSE = 10.0
"""Seconds before another attempt at most, whatever `Retry-After` says. A choice: a user waits for the command."""
BUSY = (429, 500, 502, 503, 504)
"""HTTP codes after which a request is sent again: too many requests, or a server or load balancer in trouble."""

Key = tuple[str, str]
"""(API group, kind)."""


class Served(NamedTuple):
    """The kinds of some API groups that an API server can list."""

    kinds: dict[Key, Resource]
    """Each in the preferred version of its group that has it."""
    silent: dict[str, Exception]
    """Version ("apps/v1") whose kinds could not be read (an aggregated API that is down) → the reason."""


def group_resource(resource: Resource) -> str:
    """The plural with its group, as RBAC and kubectl name it: "deployments.apps"."""
    return f"{resource.name}.{resource.group}" if resource.group else str(resource.name)


def with_kind(resource: Resource, item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of a list, which names neither version nor kind, as an object of its own."""
    return {"apiVersion": resource.group_version, "kind": resource.kind, **item}


def groups(client: Client) -> dict[str, list[str]]:
    """API group → its versions ("apps/v1"), the preferred one first and once more at its place; in the order of the
    server. The core group "" comes first, since `/apis` does not list it. Raises as `Client.get`."""
    versions_of = {"": ["v1"]}
    for group in client.get_unreduced("/apis").get("groups") or ():
        versions = [version["groupVersion"] for version in group["versions"]]
        versions_of[str(group["name"])] = [group["preferredVersion"]["groupVersion"], *versions]
    return versions_of


def kinds(client: Client, version: str) -> Iterator[Resource]:
    """The kinds of a version ("apps/v1", "v1") that can be listed, without subresources (`pods/log`). Raises as
    `Client.get`."""
    group, _, number = version.rpartition("/")
    prefix = "apis" if group else "api"
    for item in client.get_unreduced(f"/{prefix}/{version}").get("resources") or ():
        is_subresource = "/" in item["name"]
        if not is_subresource and "list" in (item.get("verbs") or ()):
            yield Resource(**{**item, "prefix": prefix, "group": group, "api_version": number})


def served(client: Client, names: Collection[str]) -> Served:
    """The kinds of these API groups that can be listed; a group that the API server lacks has none.

    Raises as `Client.get` if the groups can't be read. A version that can't be read is recorded instead."""
    found_kinds: dict[Key, Resource] = {}
    silent: dict[str, Exception] = {}
    versions = groups(client)
    for group in sorted(names):
        for version in dict.fromkeys(versions.get(group, ())):
            try:
                for kind in kinds(client, version):
                    found_kinds.setdefault((group, kind.kind), kind)
            except (StatusError, UnreachableError, ValueError) as error:  # another AccessError concerns all versions
                silent[version] = error
    return Served(found_kinds, silent)


def pages(
    client: Client, path: str, query: Mapping[str, str] | None = None, wait: Callable[[float], object] = time.sleep
) -> Iterator[list[dict[str, Any]]]:
    """All objects of a list, a page at a time; a page may be empty. Raises StatusError if the API server forbids it,
    OSError or ValueError if the server does not answer.

    If its place in the history is gone (410: a list of more than some five minutes), the list continues from
    the same name with the token of that answer. Without a token it starts again, once, and leaves out the objects
    that were returned before.
    """
    request_query = {**(query or {}), "limit": str(PAGE)}
    returned: set[str] = set()
    before_restart: set[str] | None = None  # None: the list has not been started again
    while True:
        try:
            page = get(client, path, request_query, wait)
        except StatusError as error:
            if error.code != 410 or "continue" not in request_query:
                raise
            if error.resume and error.resume != request_query["continue"]:
                request_query["continue"] = error.resume
            elif before_restart is None:
                del request_query["continue"]
                before_restart = set(returned)
            else:
                raise
            continue
        items = [item for item in page.get("items") or () if isinstance(item, dict)]
        returned |= {_identity(item) for item in items}
        if before_restart is not None:
            items = [item for item in items if _identity(item) not in before_restart]
        yield items
        next_page = mapping(page.get("metadata")).get("continue")
        if not next_page:
            return
        request_query["continue"] = str(next_page)


def _identity(obj: Mapping[str, Any]) -> str:
    """The uid of an object, or "namespace/name" if it has none: two objects of one list differ in it."""
    metadata = mapping(obj.get("metadata"))
    return str(metadata.get("uid") or f"{metadata.get('namespace')}/{metadata.get('name')}")


def get(
    client: Client, path: str, query: Mapping[str, str], wait: Callable[[float], object] = time.sleep
) -> dict[str, Any]:
    """One page, or one object; a busy or restarting API server is asked again, at most MAX_TRIES times in all, with
    pauses in seconds by `wait`. Raises as `pages`."""
    for attempt in range(1, MAX_TRIES + 1):
        pause = FIRST_PAUSE * 2 ** (attempt - 1)
        try:
            return client.get(path, query)
        except StatusError as error:
            if error.code not in BUSY or attempt == MAX_TRIES:
                raise
            pause = error.retry_after or pause
        except UnreachableError:
            if attempt == MAX_TRIES:
                raise
        wait(min(pause, LONGEST_PAUSE))
    raise AssertionError("unreachable")  # the last attempt returns or raises


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
