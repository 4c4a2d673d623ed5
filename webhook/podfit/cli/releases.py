"""`podfit releases`: the vLLM releases that are known, and how a newer one is taught."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from pkgutil import get_data
from typing import Any

from podfit.cli.support import edge, policies, replacement
from podfit.kube.patch import Edit
from podfit.kube.path import FieldPath
from podfit.report import rewrite
from podfit.vllm import release
from podfit.vllm.args import taught


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "releases",
        help="the vLLM releases whose command line is known; teach a newer one",
        description="Which vLLM releases podfit knows, and how to teach it one that is newer (docs/releases.md).",
        epilog=edge.examples("podfit releases list"),
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    argument_parser = actions.add_parser("list", help="the releases that are known, oldest first")
    policies.add_argument(argument_parser)
    argument_parser.set_defaults(run=run_list)
    script = actions.add_parser("script", help="print a Python script that reads the parser out, inside vLLM's image")
    script.set_defaults(run=run_script)
    add = actions.add_parser("add", help="write what the script printed as spec.releases of a policy")
    add.add_argument("file", metavar="FILE", help="what the script printed; - is standard input")
    add.add_argument("--into", type=Path, metavar="POLICY", help="change this policy file instead of printing one")
    policies.add_argument(add)
    add.set_defaults(run=run_add)


def run_list(args: argparse.Namespace) -> int:
    """One line a release."""
    table = policies.load(args.policy).releases.table
    for known in table.releases:
        print(f"{known!s:12} {len(table.rows(known))} options")
    return 0


def run_script(args: argparse.Namespace) -> int:
    """The reader's own text."""
    print((get_data("podfit.cli.support", "read_parser.py") or b"").decode(), end="")
    return 0


def run_add(args: argparse.Namespace) -> int:
    """The release as a policy says it: by what it has not in common with the newest one before it."""
    version, options = _read(args.file)
    table = policies.load(args.policy).releases.table
    like = taught.newest_before(table, version)
    gone, changed = taught.options_difference(taught.rows(options), table.rows(like))
    entries: dict[str, Any] = {"like": str(like)}
    if gone:
        entries["removed"] = gone
    if changed:
        entries["options"] = [_option(dest, row) for dest, row in changed.items()]
    if args.into is not None and args.into.exists():
        place = FieldPath(("spec", "releases", "known", str(version)))
        try:
            text = rewrite.rewrite(edge.read_text(args.into), [(0, [Edit(place, entries)])])
        except (ValueError, IndexError) as error:
            raise edge.UnusableError(f"{args.into}: {error}", 3) from error
    else:
        text = _new({"releases": {"known": {str(version): entries}}})
    if args.into is None:
        print(text, end="")
    else:
        replacement.replace(args.into, text.encode())
    return 0


def _new(spec: dict[str, Any]) -> str:
    """A policy that says this and nothing else."""
    import yaml

    head = {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "releases"}}
    return str(yaml.safe_dump({**head, "spec": spec}, sort_keys=False, width=120))


def _option(dest: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its dest, where that is not what the first long flag says."""
    long = next((flag for flag in row.get("flags", ()) if flag.startswith("--")), "")
    return dict(row) if long[2:].replace("-", "_") == dest else {"dest": dest, **row}


def _read(name: str) -> tuple[release.Release, list[dict[str, Any]]]:
    """The release and the options in the file; raises UnusableError."""
    try:
        value = json.loads(edge.read_input(name))
    except ValueError as error:
        raise edge.UnusableError(f"{name}: not JSON: {error}", 3) from error
    version = release.parse(str(value.get("version"))) if isinstance(value, dict) else None
    if version is None:
        raise edge.UnusableError(f"{name}: version: expected a vLLM release such as 0.34.0", 3)
    options = value.get("options")
    if not isinstance(options, list) or not all(isinstance(option, dict) and option.get("dest") for option in options):
        raise edge.UnusableError(f"{name}: options: expected a list of options, each with its dest", 3)
    return version, options
