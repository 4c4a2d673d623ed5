"""The argument parser of every command: one line for an error, with what was probably meant, and `--color`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from podfit.base.lazy import regex
from podfit.base.near import nearest
from podfit.base.secret import Secrets
from podfit.cli.support import edge, terminal

_CHOICE = regex(r"(?P<about>.*)invalid choice: '(?P<given>.*)' \(choose from (?P<choices>.*)\)", re.DOTALL)
"""argparse's message; since Python 3.12 without quotes around the choices."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors read as podfit's own; parsers of its commands are of this class, too.

    The namespace has the parser of the command, or of its action, as `parser`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # argparse makes a formatter per argument, and one without a width imports shutil and three compressors.
        width = terminal.width() if terminal.is_terminal() else terminal.HELP_WIDTH
        kwargs["formatter_class"] = partial(edge.Examples, width=width - 2)
        super().__init__(*args, **kwargs)
        self.set_defaults(parser=self)  # of the command that runs, or of its action
        self.add_argument(
            "--color",
            choices=terminal.CHOICES,
            default=argparse.SUPPRESS,  # a command's default would replace what is given before the command
            help="color the text; auto, the default: on a terminal, or as NO_COLOR and FORCE_COLOR say",
        )

    def error(self, message: str) -> NoReturn:
        """Ends with exit code 2 and one line; the usage of a command with many options hides it."""
        edge.tell(f"error: {_with_hint(message)}")
        edge.tell(f"note: {self.prog} --help shows the usage")
        self.exit(2)

    def unknown(self, words: Sequence[str], hint: str = "") -> NoReturn:
        """Ends with exit code 2 for options and operands that are not known; `hint` may replace "did you mean"."""
        text = Secrets.of(words).line(" ".join(words))
        if not hint:
            hint = _did_you_mean(self._flags_near(words))
        self.error(f"unrecognized arguments: {text}{hint}")

    def _flags_near(self, words: Sequence[str]) -> list[str]:
        """The flags of the help that are similar to the first long flag of the words; empty without one."""
        for word in words:
            if word.startswith("--"):
                flag = word.partition("=")[0]
                known = set(re.findall(r"--[a-z][\w-]+", self.format_help()))
                return nearest(flag, known - {flag})
        return []


def _with_hint(message: str) -> str:
    """argparse's message; of a wrong choice with the nearest one, and "unknown command" for a command."""
    match = _CHOICE.fullmatch(message)
    if not match:
        return message
    known = re.findall(r"[\w.|-]+", match["choices"])
    near = _did_you_mean(nearest(match["given"], known))
    about = match["about"].removeprefix("argument ").removesuffix(": ")
    if about in ("COMMAND", "ACTION"):
        return f"unknown {about.lower()} '{match['given']}'{near or '. Allowed: ' + ', '.join(known)}"
    return f"{about}: '{match['given']}' is not one of {', '.join(known)}{near}"


def _did_you_mean(near: Sequence[str]) -> str:
    """A sentence with the first of the names; "" if there is none."""
    return f". Did you mean {near[0]}?" if near else ""
