"""Nodes, claims, classes, namespaces and models of the cluster next to the input, for `--policy cluster`.

The webhook knows them, so a command that shows what the webhook decides needs them, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

from podfit.base.printable import one_line
from podfit.cli.support import policies, user_cluster
from podfit.kube import workload
from podfit.kube.snapshot import Snapshot
from podfit.report.files import ManifestFile
from podfit.vllm.model import given

MAX_NAMESPACES = 8
"""Namespaces whose objects are listed one by one; of an input with more, all namespaces are listed."""


def joined(sources: list[ManifestFile], args: argparse.Namespace) -> tuple[list[ManifestFile], list[str]]:
    """The files with the cluster's objects around theirs, if the policy is the cluster's; and a note on what can't be
    read. An object of the input overrides the cluster's of the same name.

    Raises UnusableError if the cluster can't be reached."""
    if policies.CLUSTER not in args.policy:
        return sources, []
    namespaces = {*_namespaces(sources, getattr(args, "namespace", None))}
    if not namespaces:
        return sources, []
    from podfit.cluster import surroundings
    from podfit.cluster.listing import served

    unread: dict[str, Exception] = {}
    # The user's own nodes, or GPU, are instead of the cluster's.
    has_nodes = any("nodes" in source.facts.companions.around.objects for source in sources)
    without = ["nodes"] if args.nodes or args.gpu or has_nodes else []
    with user_cluster.client(args) as client, user_cluster.errors_reported(f"--policy {policies.CLUSTER}"):
        resources, silent = served(client, surroundings.GROUPS)
        named = {namespace or client.namespace for namespace in namespaces}
        unread |= silent
        around = surroundings.read(
            client, resources, unread.__setitem__, without=without,
            namespaces=named if len(named) <= MAX_NAMESPACES else [],
        )  # fmt: skip
    joined_snapshots: dict[int, Snapshot] = {}  # the files of one input share what is around them

    def with_cluster(source: ManifestFile) -> ManifestFile:
        """The file with the cluster's objects and models behind its own."""
        companions = source.facts.companions
        near = companions.around
        if id(near) not in joined_snapshots:
            joined_snapshots[id(near)] = near.joined(around.snapshot)
        facts = replace(
            source.facts,
            companions=replace(companions, around=joined_snapshots[id(near)]),
            models=given.joined(source.facts.models, around.models),
        )
        return source._replace(facts=facts)

    return [with_cluster(source) for source in sources], [*around.problems, *_notes(unread)]


def _namespaces(sources: Sequence[ManifestFile], namespace: str | None) -> Iterator[str]:
    """The namespaces of the workloads; empty for one that sets none, which kubectl applies to that of the context."""
    for source in sources:
        for document in source.manifests.documents:
            for each in workload.find(document.object):
                yield each.namespace or namespace or ""


def _notes(unread: dict[str, Exception]) -> list[str]:
    """One line for all kinds that can't be read."""
    if not unread:
        return []
    reason = one_line(str(next(iter(unread.values()))))
    return [f"{', '.join(unread)}: not read: {reason}; the findings are without them, unlike the webhook's"]
