"""The command `podfit`: one module a subcommand, each with `add_parser` and a `run` that returns the exit code.

Exit codes, the same for every format: 0 clean (warnings allowed), 1 something denied, 2 usage, 3 something unreadable
or an internal error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from webhook.cli import certs, check, explain, fix, plan, policy, review, serve
from webhook.cli.edge import UnusableError

VERSION = "0.1.0"


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="podfit",
        description="Will this vLLM pod start, and will it stay up? Asked before it costs anybody a GPU hour.",
        epilog="exit codes: 0 clean (warnings allowed), 1 something denied, 2 usage, 3 unreadable input",
    )
    top.add_argument("--version", action="version", version=f"podfit {VERSION}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (check, fix, plan, explain, review, policy, serve, certs):
        module.add_parser(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; what a user can mend is one line on standard error, never a traceback."""
    args = parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except UnusableError as error:
        for line in error.lines:
            print(f"podfit: {line}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # `podfit check … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code
