"""The rules, a folder per subject. Adding a file adds the rule: there is no list to keep."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from webhook.rules.rule import Rule


@cache
def all_rules() -> dict[str, type[Rule]]:
    """Rule id → class, in the order of the ids. The module of a rule has the rule's name and no other rule in it."""
    found: dict[str, type[Rule]] = {}
    for info in pkgutil.walk_packages(__path__, f"{__name__}."):
        if info.ispkg or "._" in info.name:
            continue
        module = import_module(info.name)
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == info.name != Rule.__module__:
                found[value.id()] = value
    return dict(sorted(found.items()))
