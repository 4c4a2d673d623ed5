"""`podfit completion SHELL`: what Tab offers, made of the command line itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from podfit.cli.support import policies
from podfit.cli.support.format_option import FormatOption
from podfit.rules import all_rules

SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "DIR", "CHART", "OLD", "NEW", "LOG")
"""Words in an argument's name for which a shell offers files."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "completion",
        help="a shell's completion of commands and options",
        description="Prints the completion script of a shell. Open a new shell after installing it.",
        epilog="examples: podfit completion bash > ~/.local/share/bash-completion/completions/podfit\n"
        "          podfit completion zsh > ~/.zfunc/_podfit    # a folder of your fpath\n"
        "          podfit completion fish > ~/.config/fish/completions/podfit.fish",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS))


def run(args: argparse.Namespace) -> int:
    """Prints the script."""
    import shtab  # imported here, so that other commands do not wait for it

    from podfit.cli import parser

    command_parser = parser()
    for argument_parser in _parsers(command_parser):
        for action in argument_parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for named in action._choices_actions:  # Tab shows one line with each name
                    action.choices[named.dest].description = named.help
        for action in argument_parser._actions:
            if words := _words(action):
                action.complete = _offering(words)  # type: ignore[attr-defined]
            elif any(word in str(action.metavar or "") for word in _FILES) and not action.choices:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    sys.stdout.write(shtab.complete(command_parser, args.shell))
    return 0


def _words(action: argparse.Action) -> Sequence[str]:
    """The values that complete an argument that also takes a file: a rule's name, a policy's, one of several
    formats."""
    metavar = str(action.metavar or "")
    if "RULE" in metavar.split("|"):
        return tuple(all_rules())
    if {"FILE", "DIR", "NAME"}.issubset(metavar.split("|")) or action.help == ", ".join(policies.SHIPPED):
        return tuple(policies.SHIPPED)
    return action.type.names if isinstance(action.type, FormatOption) else ()


def _offering(words: Sequence[str]) -> dict[str, Any]:
    """The words and files, as shtab takes it: a function a shell."""
    from hashlib import sha256

    word_list = " ".join(words)
    name = f"_podfit_words_{sha256(word_list.encode()).hexdigest()[:8]}"
    return {
        "bash": name,
        "zsh": name,
        "fish": f"({name})",
        "preamble": {
            "bash": f'{name}() {{ compgen -W "{word_list}" -- "$1"; compgen -f -- "$1"; }}\n',
            "zsh": f"{name}() {{ compadd -- {word_list}; _files }}\n",
            "fish": f"function {name}\n  printf '%s\\n' {word_list}\n  __fish_complete_path (commandline -ct)\nend\n",
        },
    }


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parser, and those of its commands."""
    argument_parsers = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            argument_parsers += [
                argument_parser for child in action.choices.values() for argument_parser in _parsers(child)
            ]
    return argument_parsers
