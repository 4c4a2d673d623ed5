"""Facts of an engine that rules need (`podfit.rules.rule.FACTS`)."""

from __future__ import annotations

from operator import attrgetter

from podfit.rules.engine import Engine
from podfit.rules.rule import FACTS

GETTERS = {name: attrgetter(name) for name in FACTS}
"""The name of a fact → a function that returns the fact of an engine."""


def unknown_facts(engine: Engine) -> frozenset[str]:
    """Return the names of the facts that are unknown."""
    return frozenset([name for name, get in GETTERS.items() if get(engine) is None])
