"""`podfit version`: the version, and how new the facts in it are."""

from __future__ import annotations

import argparse

from podfit import __version__
from podfit.base import data
from podfit.cli.support import edge


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands.add_parser(
        "version",
        help="the version, the newest vLLM release known, the dates of the facts",
        description="Prints the version of podfit, the newest vLLM release that it knows, and the dates of its facts.",
        epilog=edge.examples("podfit version"),
    )


def run(args: argparse.Namespace) -> int:
    """Print podfit's version and the age of its facts; returns the exit code."""
    print(f"podfit {__version__}")
    print(data.age())
    return 0
