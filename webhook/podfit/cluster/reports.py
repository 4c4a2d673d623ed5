"""Writes PolicyReports into a cluster, and removes those that are no longer true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kubernetes.dynamic import Resource

from podfit.cluster.access import Client, StatusError
from podfit.cluster.listing import group_resource, pages, served
from podfit.evaluation.scan import Scan
from podfit.kube.path import mapping
from podfit.report import policy_report
from podfit.report.policy_report import APIS, LABEL


@dataclass
class Written:
    """The outcome of writing reports: how many were written and removed, and the first error."""

    apis: tuple[str, ...] = ()
    """The report APIs that the API server has; empty: no report can be written."""
    reports: int = 0
    removed: int = 0
    refused: str = ""
    """Why some could not be written: the first error."""


def write(
    client: Client, scan: Scan, now: datetime, *, namespace: str | None, is_full: bool, tell: Callable[[str], None]
) -> Written:
    """A report for each workload, in every API of the two that is served; raises StatusError or OSError where
    the server can't be asked.

    `is_full`: the scan was of everything (in `namespace`, where one is given), so that a report of ours without a
    workload in it is stale. A deleted workload takes its own along: it owns it.
    """
    kinds, _ = served(client, {api.group for api in APIS})
    here = [api for api in APIS if (api.group, api.kind) in kinds]
    done = Written(tuple(api.api_version for api in here))
    for api in here:
        current: set[tuple[str, str]] = set()
        for report in policy_report.reports(scan, api, now):
            resource = kinds.get((api.group, report["kind"]))
            place = str(report["metadata"].get("namespace") or ""), str(report["metadata"]["name"])
            current.add(place)
            if resource is None:
                continue
            try:
                client.apply(resource.path(place[1], place[0] or None), report)
                done.reports += 1
            except StatusError as error:  # writing is not allowed; a namespace that is being deleted needs no report
                if not _going(error):
                    done.refused = done.refused or f"{group_resource(resource)} in {place[0]}: {error}"
            tell(f"{api.kind}s: {done.reports:,} written")
        if is_full and not scan.errors and not scan.kinds_missed:
            done.removed += sum(
                _remove(client, resource, current, namespace)
                for kind in (api.kind, *([api.cluster_kind] if namespace is None else []))
                if (resource := kinds.get((api.group, kind))) is not None
            )
    return done


def _going(error: StatusError) -> bool:
    """The namespace is being deleted, or is gone (Kubernetes' admission plugin NamespaceLifecycle)."""
    return error.code == 404 or (error.code == 403 and "because it is being terminated" in str(error))


def _remove(client: Client, resource: Resource, current: set[tuple[str, str]], namespace: str | None) -> int:
    """Deletes podfit's reports that are not among the current ones (namespace, name); returns their number, with those
    that were gone already."""
    query = {"labelSelector": "=".join(LABEL)}
    stale = []
    for page in pages(client, resource.path(namespace=namespace), query):
        for item in page:
            metadata = mapping(item.get("metadata"))
            place = str(metadata.get("namespace") or ""), str(metadata.get("name"))
            if place not in current:
                stale.append(place)
    for where, called in stale:
        try:
            client.delete(resource.path(called, where or None))
        except StatusError as error:
            if error.code != 404:
                raise
    return len(stale)
