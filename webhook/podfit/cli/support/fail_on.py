"""`--fail-on`: the lowest level of a finding that ends a command with exit code 1."""

from __future__ import annotations

import argparse

from podfit.evaluation.denial import LEVELS
from podfit.rules.rule import Level

NAMES = "|".join(LEVELS)
_FORMER: dict[str, Level] = {"deny": "denied", "warn": "advice"}
"""Names of before the levels, which pipelines may have."""


def level(name: str) -> Level:
    """The level of that name, or of that former name; raises ArgumentTypeError for another name."""
    levels: dict[str, Level] = {**{level: level for level in LEVELS}, **_FORMER}
    if name not in levels:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(LEVELS)}")
    return levels[name]


def level_or_never(name: str) -> Level | None:
    """The level of that name, None for `never`."""
    return None if name == "never" else level(name)


def covers(lowest: Level, level: Level) -> bool:
    """True if `level` ends the command with exit code 1: it is `lowest` or a more serious one."""
    order = list(LEVELS)  # the most serious one first
    return order.index(level) <= order.index(lowest)
