"""Writes PolicyReports into a cluster, and removes those that are no longer true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from kubernetes.dynamic import Resource

from podfit.cluster.access import Client, StatusError
from podfit.cluster.listing import group_resource, pages, served
from podfit.evaluation.scan import Scan
from podfit.kube.path import mapping
from podfit.report import policy_report
from podfit.report.policy_report import APIS, LABEL


class Key(NamedTuple):
    """The place of a report in the cluster."""

    namespace: str
    """Empty for a report about an object without a namespace."""
    name: str


@dataclass
class Written:
    """The outcome of writing reports: how many were written and removed, and the first error."""

    apis: tuple[str, ...] = ()
    """The report APIs that the API server has; empty: no report can be written."""
    reports: int = 0
    """Number of reports that were written."""
    removed: int = 0
    """Number of stale reports that were removed, with those that were gone already."""
    refused: str = ""
    """Why some could not be written: the first error; empty without one."""


def write(
    client: Client, scan: Scan, now: datetime, *, namespace: str | None, is_full: bool, tell: Callable[[str], None]
) -> Written:
    """Writes a report for each workload, in every API of the two that is served, and removes stale reports.

    `namespace`: the one that was scanned; None: all. `is_full`: the scan was of every workload there, so that a report
    of podfit's without a workload in the scan is stale. The API server deletes the report of a deleted workload, which
    owns it. `tell` gets a line of progress per report. Raises StatusError or OSError if the server can't be asked; a
    report that it denies is noted in the result.
    """
    kinds = served(client, {api.group for api in APIS}).kinds
    served_apis = [api for api in APIS if (api.group, api.kind) in kinds]
    done = Written(tuple(api.api_version for api in served_apis))
    for api in served_apis:
        current: set[Key] = set()
        for report in policy_report.reports(scan, api, now):
            key = _key(report)
            current.add(key)
            resource = kinds.get((api.group, report["kind"]))
            if resource is None:  # the API server lacks the cluster-wide kind of the API
                continue
            try:
                client.apply(resource.path(key.name, key.namespace or None), report)
                done.reports += 1
            except StatusError as error:
                if not _lost_namespace(error):
                    done.refused = done.refused or f"{group_resource(resource)} in {key.namespace}: {error}"
            tell(f"{api.kind}s: {done.reports:,} written")
        # After an incomplete scan, a workload of an existing report may merely not have been read.
        if is_full and not scan.errors and not scan.kinds_missed:
            for kind in (api.kind,) if namespace is not None else (api.kind, api.cluster_kind):
                resource = kinds.get((api.group, kind))
                if resource is not None:
                    done.removed += _remove(client, resource, current, namespace)
    return done


def _key(report: Mapping[str, Any]) -> Key:
    """The namespace and name of a report."""
    metadata = mapping(report.get("metadata"))
    return Key(str(metadata.get("namespace") or ""), str(metadata.get("name")))


def _lost_namespace(error: StatusError) -> bool:
    """True if the namespace is being deleted, or is gone, so that it needs no report (Kubernetes' admission plugin
    NamespaceLifecycle)."""
    return error.code == 404 or (error.code == 403 and "because it is being terminated" in str(error))


def _remove(client: Client, resource: Resource, current: set[Key], namespace: str | None) -> int:
    """Deletes podfit's reports of a kind that are not among the `current` ones; returns their number, with those that
    were gone already. `namespace`: only of this one; None: of all. Raises StatusError or OSError."""
    query = {"labelSelector": "=".join(LABEL)}
    keys = [_key(item) for page in pages(client, resource.path(namespace=namespace), query) for item in page]
    stale = [key for key in keys if key not in current]
    for key in stale:
        try:
            client.delete(resource.path(key.name, key.namespace or None))
        except StatusError as error:
            if error.code != 404:
                raise
    return len(stale)
