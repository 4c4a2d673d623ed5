"""`podfit fix`: what the policy would repair, as a diff, or written back with comments and order kept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from webhook.cli import edge
from webhook.facts import Facts
from webhook.lint import lint
from webhook.manifest import Manifests
from webhook.patch import Edit, apply, json_patch
from webhook.policy import Policy
from webhook.report.rewrite import diff, rewrite

_PASSES = 4
"""Repairs settle after the second pass; more would be a fault of a rule."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "fix",
        help="show (or write) the repairs that the policy allows",
        description="Shows the repairs that the policy allows as a diff; --write makes them. Comments and order stay.",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE|DIR|-", help="- is standard input, its repair standard output"
    )
    edge.add_gpu(parser)
    edge.add_models(parser)
    edge.add_policy(parser)
    parser.add_argument("--write", action="store_true", help="change the files")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the diffs; 0 also where there is nothing to repair or something else is denied, 3 where a file can't be
    read or rewritten. Nothing is written before every file has been worked out."""
    policy, facts = edge.policy(args.policy), edge.facts(args)
    changed: list[tuple[str, str]] = []
    code = 0
    inputs = [(name, edge.read_manifests(name)) for name in edge.files(args.files)]
    facts, problems = edge.with_config_maps(facts, [one for _, read in inputs for one in read.documents])
    for text in problems:
        print(f"error: {text}", file=sys.stderr)
        code = 3
    for name, manifests in inputs:
        for problem in manifests.errors:
            print(f"error: {problem}", file=sys.stderr)
            code = 3
        before = next((document.text for document in manifests.documents), "")
        try:
            after = rewrite(before, _edits(manifests, policy, facts))
        except ValueError as error:
            print(f"error: {name}: can't be rewritten: {error}", file=sys.stderr)
            code = 3
            continue
        if name == "-":
            sys.stdout.write(after)
        elif after != before:
            sys.stdout.write(diff(before, after, name))
            changed.append((name, after))
    if args.write:
        for name, after in changed:
            Path(name).write_text(after, encoding="utf-8")
    return code


def _edits(manifests: Manifests, policy: Policy, facts: Facts) -> list[tuple[int, tuple[Edit, ...]]]:
    """The repairs of each document, their paths from the document's root (an item of a List is below `items`)."""
    with_maps = replace(facts, config_maps=edge.config_maps(manifests.documents))
    found: dict[int, tuple[Edit, ...]] = {}
    for document in manifests.documents:
        edits = _of_object(document.object, policy, with_maps)
        rooted = tuple(replace(edit, path=document.root.join(*edit.path.parts)) for edit in edits)
        if rooted:
            found[document.index] = (*found.get(document.index, ()), *rooted)
    return list(found.items())


def _of_object(obj: Mapping[str, Any], policy: Policy, facts: Facts) -> tuple[Edit, ...]:
    """All repairs of an object: what one leaves for another (a limit, now that /dev/shm has a size) is made too."""
    edits: tuple[Edit, ...] = ()
    patch: list[dict[str, Any]] = []
    for _ in range(_PASSES):
        longer = (*edits, *lint(apply(obj, patch), policy, facts, where="check").edits)
        before, patch = patch, json_patch(obj, longer)
        if patch == before:
            break
        edits = longer
    return edits
