"""`podfit lsp`: a language server for editors over standard input and output."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.cli.support import edge, patches, policies, project
from podfit.evaluation.policy import Policy
from podfit.report.files import ManifestFile
from podfit.vllm.facts import Facts

if TYPE_CHECKING:
    from podfit.lsp.document import Reader, Settings


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "lsp",
        help="show findings in an editor (Language Server Protocol)",
        description="Serves one editor over standard input and output: findings while you type, the memory of a "
        "container at its arguments, and quick fixes. It respects podfit.yaml and writes nothing.",
        epilog=edge.examples("podfit lsp    # docs/editors.md has the settings of editors"),
        formatter_class=edge.Examples,
    )
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Serves until the editor ends it; 0 then."""
    from podfit.lsp import server

    server.create(reader()).start_io()
    return 0


def reader() -> Reader:
    """How `podfit check FILE` reads."""
    from podfit.lsp.document import Reader

    return Reader(edge.MANIFEST_SUFFIXES, _settings_of, _read)


def _settings_of(path: str) -> Settings:
    from podfit.lsp.document import Settings

    config = project.nearest_file(Path(path).parent)
    try:
        return Settings(*_in_force("--config", str(config)) if config else _in_force("--no-config"))
    except edge.UnusableError as error:
        return Settings(*_in_force("--no-config"), problem="; ".join(error.lines))


def _in_force(*options: str) -> tuple[Policy, Facts]:
    """The policy and the facts of `podfit check` with these options. Raises UnusableError."""
    from podfit import cli

    args = cli.parser(("check",)).parse_args(["check", *options])
    project.apply(args, with_nodes=True)
    return policies.in_force(args)


def _read(path: str, text: str, facts: Facts) -> ManifestFile:
    (source,), _ = edge.read([], facts, [(path, text.encode(errors="replace"))])
    whole, notes = patches.parted(path, source.manifests, patches.Kustomizations())
    return replace(source, manifests=whole, patches=notes)
