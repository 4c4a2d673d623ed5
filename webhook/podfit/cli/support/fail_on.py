"""`--fail-on`: the lowest level of a finding that ends a command with exit code 1."""

from __future__ import annotations

import argparse

from podfit.evaluation.denial import LEVELS
from podfit.rules.rule import Level

NAMES = "|".join(LEVELS)
_FORMER: dict[str, Level] = {"deny": "denied", "warn": "advice"}
"""Names of before the levels, which pipelines may have."""


def level(name: str) -> Level:
    """The level of a name; raises ArgumentTypeError."""
    entries: dict[str, Level] = {**{level: level for level in LEVELS}, **_FORMER}
    if name not in entries:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(LEVELS)}")
    return entries[name]


def level_or_never(name: str) -> Level | None:
    """The level of that name, None for `never`."""
    return None if name == "never" else level(name)


def covers(lowest: Level, level: Level) -> bool:
    """A finding of the level `level` ends the command with exit code 1."""
    order = list(LEVELS)
    return order.index(level) <= order.index(lowest)
