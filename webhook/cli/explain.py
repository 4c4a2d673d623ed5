"""`podfit explain RULE`: a rule's documentation."""

from __future__ import annotations

import argparse
import difflib

from webhook.cli.edge import UnusableError
from webhook.report import rule_page
from webhook.rules import all_rules


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "explain", help="a rule's documentation", description="Prints what a rule is about; without one, lists all."
    )
    parser.add_argument("rule", nargs="?", metavar="RULE")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints one rule's page, or the list."""
    rules = all_rules()
    if args.rule is None:
        width = max(map(len, rules))
        for rule_id, rule in rules.items():
            print(f"{rule_id:<{width}}  {rule.mode:<6} {rule.title()}")
        return 0
    if args.rule not in rules:
        near = difflib.get_close_matches(args.rule, rules, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `podfit explain` lists all"
        raise UnusableError(f"there is no rule {args.rule!r}{hint}")
    print(rule_page.text(rules[args.rule]))
    return 0
