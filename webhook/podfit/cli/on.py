"""`podfit on`: undoes `podfit off`."""

from __future__ import annotations

import argparse

from podfit.cli import off
from podfit.cli.support import edge
from podfit.server import registration


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "on",
        help="let the API server ask podfit again, after `podfit off`",
        description="Takes the match condition away that `podfit off` has given to podfit's own two configurations.",
        epilog=edge.examples("podfit on"),
    )
    off.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Exit 0: on; 3: a configuration can't be read or changed."""
    return off.switch(args, "on", registration.on)
