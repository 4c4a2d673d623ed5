"""`podfit mcp`: a server for agents over standard input and output (the Model Context Protocol)."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from podfit.cli.support import edge


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "mcp",
        help="answer agents over the Model Context Protocol",
        description="Serves check, fix, plan, explain, diagnose and models to one agent over standard input and "
        "output. It reads files below --root only, writes nothing, and uses no network and no cluster.",
        epilog=edge.examples("podfit mcp --root deploy/", "claude mcp add podfit -- podfit mcp"),
    )
    parser.add_argument(
        "--root", type=Path, default=Path(), metavar="DIR", help="the only folder that is read; default: this one"
    )


def run(args: argparse.Namespace) -> int:
    """Serves until standard input ends; 0 then."""
    from podfit import cli
    from podfit.mcp import server
    from podfit.mcp.confine import confine
    from podfit.mcp.tools import CommandLine

    if not args.root.is_dir():
        raise edge.UnusableError(f"--root {args.root}: no such folder", 3)
    os.chdir(args.root)
    confine(Path.cwd())
    server.serve(CommandLine(cli.main, _files))
    return 0


def _files(name: str) -> list[Path]:
    """The manifests of a file, folder or pattern; raises ToolError if there are none."""
    from podfit.mcp.tools import ToolError

    try:
        return [Path(file) for file in edge.files([name])]
    except edge.UnusableError as error:
        raise ToolError(str(error)) from error
