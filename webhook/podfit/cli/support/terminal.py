"""Capabilities of the terminal: colors, and the length of its lines."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import TextIO

from podfit.base.lazy import regex

CHOICES = ("auto", "always", "never")
CHOICE: ContextVar[str] = ContextVar("--color", default="auto")
"""`--color` of the command that runs."""
WIDTH, LEAST = 100, 40
"""Characters in a line where there is no terminal, and the fewest."""
HELP_WIDTH = 80
"""Characters per line of `--help` without a terminal, as argparse has it."""


def colors(stream: TextIO | None = None) -> bool:
    """True if to color: as `--color` says; else not with NO_COLOR (no-color.org); else with FORCE_COLOR
    (force-color.org), or on a terminal that shows colors. `stream`: standard output if None."""
    choice = CHOICE.get()
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None = None) -> bool:
    """True if a person reads the stream (standard output if None); not if it is closed."""
    with suppress(ValueError, AttributeError):  # AttributeError: pythonw and some containers have no streams at all
        return (stream or sys.stdout).isatty()
    return False


def show(rendered: str, paint: Callable[[str], str] | None = None) -> None:
    """Prints text: on a terminal without longer lines than it has, and painted if it is colored."""
    text = without_commands(wrapped(rendered, width()) if is_terminal() else rendered)
    print(paint(text) if paint and colors() else text, end="", flush=True)


def write(text: str) -> None:
    """Prints text that no terminal may change, such as JSON, and a line break."""
    print(without_commands(text))


_COMMAND = regex(r"^(\s*:)(?=:)|##(?=\[)", re.MULTILINE)
"""A workflow command for GitHub's runner in the output of a step: `::` at the beginning of a line, and `##[` anywhere
(actions/runner ActionCommand.cs)."""


def without_commands(text: str) -> str:
    """The text; on a GitHub runner with a space in each workflow command, which a name or a log could contain."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return text
    return _COMMAND.sub(lambda match: f"{match[1]} " if match[1] else "# #", text)


_ROW = regex(r"\S {2,}\S.* {2,}\S")
"""Two gaps between words: a row of a table."""


def wrapped(rendered: str, columns: int) -> str:
    """The text with longer lines broken between words; the rest of a line is indented by four more.

    Rows of a table stay whole: broken, they can't be read."""
    columns = max(LEAST, columns)
    return "\n".join(part for line in rendered.split("\n") for part in _broken(line, columns))


def _broken(line: str, columns: int) -> Iterator[str]:
    """The line in pieces of at most `columns`, indented by 4 more; rows of a table and long words stay."""
    if _ROW.search(line):
        yield line
        return
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > columns:
        end = line.rfind(" ", len(indent) + 1, columns + 1)
        if end < 0:
            break
        yield line[:end].rstrip()
        line = indent + line[end:].lstrip()
    yield line


_PREFIXES = {"error:": "1;31", "warning:": "1;33", "note:": "36"}
"""The ANSI code (ECMA-48, SGR) of each prefix: bold red, bold yellow, cyan."""


def message(line: str) -> str:
    """A line for standard error: with a colored prefix, and on a terminal broken between words."""
    if is_terminal(sys.stderr):
        line = wrapped(line, width(sys.stderr))
    line = without_commands(line)
    prefix = line.partition(" ")[0]
    if prefix not in _PREFIXES or not colors(sys.stderr):
        return line
    return f"\x1b[{_PREFIXES[prefix]}m{prefix}\x1b[0m{line.removeprefix(prefix)}"


def width(stream: TextIO | None = None) -> int:
    """Characters in a line of the terminal; WIDTH if there is none. `stream`: standard output if None."""
    if not is_terminal(stream):
        return WIDTH
    if (text := os.environ.get("COLUMNS", "")).isdigit() and int(text):
        return int(text)
    with suppress(OSError, ValueError):
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or WIDTH
    return WIDTH
