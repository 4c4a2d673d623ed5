"""The rules, a folder per subject. Adding a file adds the rule; there is no list.

A rule is a class in a module of its name. Its docstring is its documentation: the title, then the reason with vLLM's
or Kubernetes' own error text, so that a search finds it. Its attributes are data (`plane`, `threatens`, `mode`,
`fix`, `where`, `needs`, `mute_for`: see `rule`), its fields are what a policy may set, and `check(engine)`
yields findings. `tests/rules/<id>/` has its examples, which are its tests; `make docs` generates its page, its golden
output and its line in the default policy.

A repair is proved by its example: applied, the finding is gone, nothing new appears, and a second pass changes
nothing. `fix` says who applies it: `true` the webhook and `podfit fix`, `certain` the webhook only if the finding is
certain, `manual` (the default) `podfit fix` alone, `false` none of them.

Here: rules, `rule` (what a rule is), `engine` (one container as rules see it). Not here: input, output, clocks, and
decisions about modes (`evaluation`). Imports `base`, `kube`, `vllm`.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from podfit.rules.rule import Rule


@cache
def all_rules() -> dict[str, type[Rule]]:
    """Rule id → class, in the order of the ids. The module of a rule has the rule's name and no other rule in it."""
    rules: dict[str, type[Rule]] = {}
    for info in pkgutil.walk_packages(__path__, f"{__name__}."):
        is_helper = "._" in info.name or info.name == Rule.__module__
        if info.ispkg or is_helper:
            continue
        module = import_module(info.name)
        for value in vars(module).values():
            is_imported = getattr(value, "__module__", None) != info.name
            if isinstance(value, type) and issubclass(value, Rule) and not is_imported:
                rules[value.id()] = value
    return dict(sorted(rules.items()))
