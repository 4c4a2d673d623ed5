"""What the terminal can show: colors, and how long its lines are."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from contextvars import ContextVar
from typing import TextIO

CHOICES = ("auto", "always", "never")
CHOICE: ContextVar[str] = ContextVar("--color", default="auto")
"""`--color` of the command that runs."""
WIDTH = 100
"""Characters in a line where there is no terminal."""


def colors(stream: TextIO | None = None) -> bool:
    """Whether to color: as `--color` says; else not with NO_COLOR (no-color.org); else with FORCE_COLOR
    (force-color.org), or on a terminal that shows colors. `stream`: standard output if None."""
    choice = CHOICE.get()
    if choice != "auto" or os.environ.get("NO_COLOR"):
        return choice == "always"
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a person reads the stream (standard output if None); not if it is closed."""
    with suppress(ValueError, AttributeError):  # AttributeError: pythonw and some containers have no streams at all
        return (stream or sys.stdout).isatty()
    return False


def width() -> int:
    """Characters in a line of the terminal; WIDTH where there is none."""
    if not is_terminal():
        return WIDTH
    from shutil import get_terminal_size  # only a terminal needs it, and a start would wait for it

    return get_terminal_size((WIDTH, 24)).columns
