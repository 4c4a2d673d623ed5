"""`podfit completion SHELL`: what Tab offers, made of the command line itself."""

from __future__ import annotations

import argparse
import sys

SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "DIR", "CHART", "OLD", "NEW", "LOG")
"""Words in an argument's name for which a shell offers files."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "completion",
        help="a shell's completion of commands and options",
        description="Prints the completion script of a shell. Open a new shell after installing it.",
        epilog="examples: podfit completion bash > ~/.local/share/bash-completion/completions/podfit\n"
        "          podfit completion zsh > ~/.zfunc/_podfit    # a folder of your fpath\n"
        "          podfit completion fish > ~/.config/fish/completions/podfit.fish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the script."""
    import shtab  # nobody else waits for it

    from webhook.cli import parser

    whole = parser()
    for one in _parsers(whole):
        for action in one._actions:
            if isinstance(action, argparse._SubParsersAction):
                for named in action._choices_actions:  # what Tab shows beside a name is one line
                    action.choices[named.dest].description = named.help
        for action in one._actions:
            if any(word in str(action.metavar or "") for word in _FILES) and not action.choices:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(whole, args.shell))
    return 0


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parser, and those of its commands."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [one for child in action.choices.values() for one in _parsers(child)]
    return found
