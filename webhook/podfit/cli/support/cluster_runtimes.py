"""The KServe runtimes that InferenceServices name and the input lacks, from the cluster that a command reads anyway."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from podfit.base.lazy import regex
from podfit.base.printable import one_line
from podfit.cli.support import fleet, policies, user_cluster
from podfit.kube import workload
from podfit.kube.workload import JSON, kserve_runtime
from podfit.report.files import ManifestFile

_NAME = regex(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""Names that can be a part of a request's path (DNS subdomain, RFC 1123)."""
MAX_RUNTIMES = 100
"""Runtimes that one command reads: an input may name any number, and each is up to two requests to the API server."""
Reference = tuple[str, str]
"""Namespace ("" for that of the context) and name of a runtime."""


def joined(
    sources: list[ManifestFile], args: argparse.Namespace, names: Sequence[str]
) -> tuple[list[ManifestFile], list[str]]:
    """The files with the runtimes of the cluster next to their InferenceServices, if the command reads a cluster; and
    notes on the runtimes that can't be read.

    `names`: the files and objects of the command line. Raises UnusableError if there is no cluster."""
    if not _reads_cluster(args, names):
        return sources, []
    namespace = getattr(args, "namespace", None)
    missing = [sorted({*_missing_runtimes(source, namespace)}) for source in sources]
    references = sorted({reference for references in missing for reference in references})
    runtimes, notes = _read(args, references[:MAX_RUNTIMES]) if references else ({}, [])
    if (left := len(references) - MAX_RUNTIMES) > 0:
        notes.append(f"KServe runtimes: {left:,} more than the {MAX_RUNTIMES} that one command reads are not read")
    files = [
        _with_runtimes(source, tuple(runtimes[reference] for reference in references if reference in runtimes))
        for source, references in zip(sources, missing, strict=True)
    ]
    return files, notes


def _reads_cluster(args: argparse.Namespace, names: Sequence[str]) -> bool:
    """The user asks for the cluster: its nodes, its policy, or one of its objects."""
    return (
        args.nodes == fleet.CLUSTER
        or policies.CLUSTER in args.policy
        or any(user_cluster.names_object(name) for name in names)
    )


def _missing_runtimes(source: ManifestFile, namespace: str | None) -> Iterator[Reference]:
    """The runtimes that InferenceServices of the file name, and that are not next to them."""
    for document in source.manifests.documents:
        for service in workload.find(document.object):
            name = kserve_runtime.runtime_name(service.object)
            if name is None or _NAME.fullmatch(name) is None:
                continue
            if source.facts.companions.serving_runtime(service, name) is None:
                yield service.namespace or namespace or "", name


def _read(args: argparse.Namespace, references: Sequence[Reference]) -> tuple[Mapping[Reference, JSON], list[str]]:
    """The runtimes that the user may read, and a note on each of the others."""
    from podfit.cluster import listing
    from podfit.cluster.access import StatusError

    runtimes, notes = dict[Reference, JSON](), list[str]()
    with user_cluster.client(args) as client:
        for namespace, name in references:
            try:
                runtime = listing.serving_runtime(client, namespace or client.namespace, name)
                problem = "not in the input, and the cluster has no runtime of this name"
            except (StatusError, OSError, ValueError) as error:
                runtime, problem = None, f"not read: {one_line(str(error))}"
            if runtime is None:
                notes.append(f"KServe runtime {name}: {problem}; its InferenceServices are checked without it")
            else:
                runtimes[namespace, name] = runtime
    return runtimes, notes


def _with_runtimes(source: ManifestFile, runtimes: tuple[JSON, ...]) -> ManifestFile:
    """The file with the runtimes among its companions."""
    if not runtimes:
        return source
    companions = source.facts.companions
    objects = (*companions.objects, *runtimes)
    return source._replace(facts=replace(source.facts, companions=replace(companions, objects=objects)))
