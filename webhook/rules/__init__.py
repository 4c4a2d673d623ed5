"""The rules. Adding a file here adds the rule: there is no list to keep."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from webhook.rule import Rule


@cache
def all_rules() -> dict[str, type[Rule]]:
    """Rule id → class, in the order of the ids. Each module holds exactly one class that is a Rule."""
    found: dict[str, type[Rule]] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        if info.name.startswith("_"):
            continue
        module = import_module(f"{__name__}.{info.name}")
        (rule,) = (
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__
        )
        found[rule.id()] = rule
    return found
