"""How the parts of a script end."""

from __future__ import annotations

from typing import Literal

Status = Literal["yes", "no", "likely", "maybe"]
"""How a command ends: "yes" or "no" is certain success or failure, "likely" is an ordinary command's success, "maybe"
is unknown."""


class Exit(Exception):  # noqa: N818 - a way out of the walk, not an error
    """The script ends here."""

    def __init__(self, *, failed: bool = False) -> None:
        self.failed = failed
        """True if the exit status is a failure."""
