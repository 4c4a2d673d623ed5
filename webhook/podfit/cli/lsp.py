"""`podfit lsp`: a language server for editors over standard input and output."""

from __future__ import annotations

import argparse
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.cli.support import edge, fleet, patches, policies, project
from podfit.cli.support.fleet import ReadFleet
from podfit.report.files import ManifestFile
from podfit.vllm.facts import Facts

if TYPE_CHECKING:
    from podfit.lsp.document import Reader, Settings


NODES_LIFETIME, RETRY = 300.0, 15.0
"""Seconds for which the nodes of a cluster, and the reason why they can't be read, are used."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands.add_parser(
        "lsp",
        help="show findings in an editor (Language Server Protocol)",
        description="Serves one editor over standard input and output: findings while you type, the memory of a "
        "container at its arguments, and quick fixes. It respects podfit.yaml and writes nothing.",
        epilog=edge.examples("podfit lsp    # docs/editors.md has the settings of editors"),
    )


def run(namespace: argparse.Namespace) -> int:
    """Serves until the editor ends it; 0 then."""
    from podfit.lsp import server

    server.create(reader()).start_io()
    return 0


def reader() -> Reader:
    """How `podfit check FILE` reads."""
    from podfit.lsp.document import Reader

    return Reader(edge.MANIFEST_SUFFIXES, partial(_settings_of, ClusterNodes()), _read)


@dataclass
class ClusterNodes:
    """The nodes of the user's cluster. All folders share one reading of them."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _outcome: ReadFleet | str | None = None
    _expires: float = 0.0

    @property
    def recent(self) -> ReadFleet | str | None:
        """The nodes, or why they can't be read; None if they are to be read."""
        return self._outcome if time.monotonic() < self._expires else None

    def read(self) -> ReadFleet | str:
        """Return the fleet, or why it is unknown; read it from the cluster if necessary, which may take a minute."""
        with self._lock:
            outcome = self.recent
            if outcome is None:
                try:
                    outcome, lifetime = fleet.read(fleet.CLUSTER), NODES_LIFETIME
                except edge.UnusableError as error:
                    outcome, lifetime = "; ".join(error.lines), RETRY
                self._outcome, self._expires = outcome, time.monotonic() + lifetime
            return outcome


def _settings_of(nodes: ClusterNodes, path: str) -> Settings:
    """The settings of the project file nearest to a manifest; without it, and with `problem`, if it is not usable."""
    config = project.nearest_file(Path(path).parent)
    try:
        return _settings(nodes, *(("--config", str(config)) if config else ("--no-config",)))
    except edge.UnusableError as error:
        return replace(_settings(nodes, "--no-config"), problem="; ".join(error.lines))


def _settings(nodes: ClusterNodes, *options: str) -> Settings:
    """The policy and the facts of `podfit check` with these options; the cluster is not asked. Raises UnusableError."""
    from podfit import cli
    from podfit.lsp.document import Settings

    args = cli.parser(("check",)).parse_args(["check", *options])
    project.apply(args, with_nodes=True)
    of_cluster = args.nodes == fleet.CLUSTER
    if of_cluster:
        args.nodes = None
    settings = Settings(*policies.in_force(args))
    if not of_cluster:
        return settings
    recent = nodes.recent
    if recent is not None:
        return _with_nodes(settings, recent)
    return replace(settings, complete=lambda: _with_nodes(settings, nodes.read()))


def _with_nodes(settings: Settings, nodes: ReadFleet | str) -> Settings:
    """The settings with the cluster's nodes. `nodes` as a text is the reason why they are unknown: a note."""
    if isinstance(nodes, str):
        reason = nodes.removeprefix(f"--nodes {fleet.CLUSTER}: ").rstrip(".")
        return replace(settings, note=f"`nodes: cluster` in {project.NAME}: {reason}. Findings are without these nodes")
    return replace(settings, facts=fleet.with_nodes(settings.facts, nodes))


def _read(path: str, text: str, facts: Facts) -> ManifestFile:
    (source,), _ = edge.read([], facts, [(path, text.encode(errors="replace"))])
    manifests, notes = patches.parted(path, source.manifests, patches.Kustomizations())
    return source._replace(manifests=manifests, patches=notes)
