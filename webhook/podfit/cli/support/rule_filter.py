"""`--rule RULE` and `--ignore RULE`: the rules whose findings a command shows or repairs."""

from __future__ import annotations

import argparse

from podfit.base.near import nearest
from podfit.cli.support import edge
from podfit.rules import all_rules


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Registers both options."""
    parser.add_argument("--rule", action="append", default=[], metavar="RULE", help="only findings of this rule")
    parser.add_argument("--ignore", action="append", default=[], metavar="RULE", help="no findings of this rule")


def chosen(args: argparse.Namespace) -> frozenset[str]:
    """The rules whose findings count: those of `--rule`, else all, without those of `--ignore`. Raises UnusableError
    for an unknown name."""
    for option, names in (("--rule", args.rule), ("--ignore", args.ignore)):
        for name in names:
            if name not in all_rules():
                near = next(iter(nearest(name, all_rules())), None)
                hint = f"did you mean {near}?" if near else "`podfit explain` lists them"
                raise edge.UnusableError(f"{option} {name}: there is no such rule; {hint}")
    return frozenset(args.rule or all_rules()) - frozenset(args.ignore)
