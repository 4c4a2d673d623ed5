"""`podfit fix`: what the policy would repair, as a diff, or written back with comments and order kept."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from webhook.cli import edge
from webhook.lint import lint
from webhook.patch import Edit
from webhook.report import rewrite


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "fix",
        help="show (or write) the repairs that the policy allows",
        description="Shows the repairs that the policy allows as a diff; --write makes them. Comments and order stay.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE|DIR")
    edge.add_gpu(parser)
    edge.add_policy(parser)
    parser.add_argument("--write", action="store_true", help="change the files")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the diffs; 0 also where there is nothing to repair, 3 where a file can't be read."""
    policy, facts = edge.policy(args.policy), edge.facts(args)
    code = 0
    for name in edge.files(args.files):
        manifests = edge.read_manifests(name)
        for error in manifests.errors:
            print(f"error: {error}", file=sys.stderr)
            code = 3
        with_maps = replace(facts, config_maps=edge.config_maps(manifests.documents))
        edits: list[tuple[int, tuple[Edit, ...]]] = []
        for document in manifests.documents:
            report = lint(document.object, policy, with_maps, where="check")
            if report.edits:
                rooted = (replace(edit, path=document.root.join(*edit.path.parts)) for edit in report.edits)
                edits.append((document.index, tuple(rooted)))
        if not edits:
            continue
        before = edge.read_text(Path(name))
        after = rewrite.yaml(before, edits)
        sys.stdout.write(rewrite.diff(before, after, name))
        if args.write:
            Path(name).write_text(after, encoding="utf-8")
    return code
