"""How the parts of a script end: the statuses and exceptions that the modules of the shell share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Status = Literal["yes", "no", "likely", "maybe"]
"""How a command ends: "yes" or "no" is certain success or failure, "likely" is an ordinary command's success, "maybe"
is unknown."""


class Exit(Exception):  # noqa: N818 - a way out of the walk, not an error
    """The script ends here."""

    def __init__(self, *, failed: bool = False) -> None:
        self.failed = failed
        """Whether the exit status is a failure."""


class Return(Exception):  # noqa: N818
    """The function ends here."""

    def __init__(self, status: Status = "likely") -> None:
        self.status: Status = status
        """The status of the function."""


class Break(Exception):  # noqa: N818
    """The loop's body ends here: either the whole loop (`break`), or only this round (`continue`)."""

    def __init__(self, levels: int = 1, *, goes_on: bool = False) -> None:
        self.levels = levels
        """How many nested loops end (`break 2`)."""
        self.goes_on = goes_on
        """Whether the outermost of these loops continues with its next round."""


def either_of(statuses: Iterable[Status]) -> Status:
    """The status of one of several commands, if it is unknown which one runs."""
    found = set(statuses)
    return found.pop() if len(found) == 1 else "likely" if found == {"yes", "likely"} else "maybe"


def negate(status: Status) -> Status:
    """`! command`."""
    return "no" if status == "yes" else "yes" if status == "no" else "maybe"


def status_of(answer: bool | None) -> Status:
    """The status of a test; None if unknown."""
    return "maybe" if answer is None else "yes" if answer else "no"
