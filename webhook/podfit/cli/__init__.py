"""The command `podfit`: one module per subcommand, each with `add_parser` and a `run` that returns the exit code.

`support/` has the code that several commands share.

Exit codes, the same for every format:

- 0: nothing denied (warnings allowed)
- 1: something denied
- 2: wrong usage, an unknown name of a command, model, GPU, policy, rule or release, or an invalid policy or project
  file
- 3: an unreadable file or an internal error
- 141: the reader of the output ended first
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from podfit.cli.support.parser import Parser

COMMANDS = (
    "check",
    "fix",
    "diff",
    "plan",
    "ui",
    "explain",
    "scan",
    "diagnose",
    "report",
    "calibrate",
    "review",
    "models",
    "policy",
    "releases",
    "serve",
    "doctor",
    "off",
    "on",
    "certs",
    "lsp",
    "mcp",
    "completion",
    "version",
)


def parser(commands: Sequence[str] = COMMANDS) -> Parser:
    """The command line with these commands: a run imports only the one it needs, so that `podfit check` starts fast."""
    from importlib import import_module
    from pathlib import Path

    from podfit import __version__
    from podfit.cli.support.parser import Parser

    called = Path(sys.argv[0]).name
    top = Parser(
        prog="kubectl podfit" if called.startswith("kubectl-podfit") else "podfit",
        description="Checks before a vLLM Pod uses a GPU whether it will start and stay up.",
        epilog="examples:\n"
        "  podfit check deploy/                                        find problems before a deployment\n"
        "  podfit plan Qwen/Qwen3-14B --context 16384 --users 20       find the GPUs that a model needs\n"
        "  podfit explain deploy/llama.yaml                            show what uses the memory\n"
        "  podfit diagnose llama-0 -n prod                             find the cause of a failure\n"
        "exit codes: 0 clean (warnings allowed), 1 something denied, 2 usage, 3 unreadable input or an internal error",
    )
    top.add_argument("--version", action="version", version=f"podfit {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in commands:
        import_module(f"podfit.cli.{name}").add_parser(subparsers)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Ctrl-C ends it without a traceback, also while modules are imported: this one imports none."""
    try:
        return _main(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return 130


def _main(argv: Sequence[str]) -> int:
    """Runs one command; an error that a user can fix is one line on standard error, never a traceback."""
    import gc
    import os
    from importlib import import_module

    if argv[:1] == ["check"]:
        # A run is short, mostly imports, and makes few cycles: an eighth less of its time, no more memory.
        gc.set_threshold(100_000, 20, 20)
    from podfit.cli.support import extras, terminal
    from podfit.cli.support.edge import UnusableError, tell

    top = parser(argv[:1] if argv[:1] and argv[0] in COMMANDS else () if argv == ["--version"] else COMMANDS)
    args, unknown = top.parse_known_args(argv)
    if unknown:
        hint = import_module("podfit.cli.plan").hint(args.argv, unknown) if args.command == "plan" else ""
        args.parser.unknown(unknown, hint)
    if line := extras.missing(args.command):
        tell(f"error: {line}")
        return 2
    color = terminal.CHOICE.set(getattr(args, "color", "auto"))
    try:
        run = getattr(args, "run", None) or import_module(f"podfit.cli.{args.command}").run  # of an action, else
        code: int = run(args)
        sys.stdout.flush()
    except UnusableError as error:
        for line in error.lines:
            tell(f"error: {line}")
        return error.code
    except BrokenPipeError:  # `podfit check … | head`: not all findings were printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13  # the exit code of a shell for SIGPIPE
    except Exception as error:  # Python would exit with 1, which means "denied"
        if line := extras.missing_for(args.command, error):
            tell(f"error: {line}")
            return 2
        if os.environ.get("PODFIT_DEBUG"):
            raise
        tell(f"error: internal error: {type(error).__name__}: {error} (PODFIT_DEBUG=1 shows where)")
        return 3
    finally:
        terminal.CHOICE.reset(color)
    return code
