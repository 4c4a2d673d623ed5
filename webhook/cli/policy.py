"""`podfit policy lint`: is a policy file usable?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from webhook.cli import edge
from webhook.policy import PolicyError, load


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser("policy", help="check policy files", description="Works on policy files.")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    lint = actions.add_parser("lint", help="report what is wrong in policy files as FILE:LINE: path: message")
    lint.add_argument("files", nargs="+", metavar="FILE")
    lint.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 where every file is usable, else 1 with a line a problem on standard error."""
    code = 0
    for name in args.files:
        try:
            load([(name, edge.read_text(Path(name)))])
        except PolicyError as error:
            print("\n".join(error.problems), file=sys.stderr)
            code = 1
    return code
