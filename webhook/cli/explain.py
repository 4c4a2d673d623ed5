"""`podfit explain RULE`: a rule's documentation; with `--policy`, which line of a policy decided."""

from __future__ import annotations

import argparse
import difflib
from textwrap import indent

from webhook.cli import edge
from webhook.cli.edge import UnusableError
from webhook.facts import Facts
from webhook.lint import Report
from webhook.report import rule_page
from webhook.rule import Rule
from webhook.rules import all_rules


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "explain", help="a rule's documentation", description="Prints what a rule is about; without one, lists all."
    )
    parser.add_argument("rule", nargs="?", metavar="RULE")
    edge.add_policy(parser)
    parser.add_argument(
        "--on", metavar="FILE", help="with --policy: for the objects in this file, as the policies select them"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints one rule's page, or the list; with policies, what they make of it and where."""
    rules = all_rules()
    if args.policy or args.on:
        return _decided(args)
    if args.rule is None:
        width = max(map(len, rules))
        for rule_id, rule in rules.items():
            print(f"{rule_id:<{width}}  {rule.mode:<6} {rule.title()}")
        return 0
    print(rule_page.text(_rule(args.rule)))
    return 0


def _rule(name: str) -> type[Rule]:
    rules = all_rules()
    if name not in rules:
        near = difflib.get_close_matches(name, rules, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `podfit explain` lists all"
        raise UnusableError(f"there is no rule {name!r}{hint}")
    return rules[name]


def _decided(args: argparse.Namespace) -> int:
    """Which line decided: for an object that all policies select, or for each object of a file."""
    from webhook.policy import Subject
    from webhook.report import decided, text

    policy = edge.policy(args.policy)
    rules = [_rule(args.rule)] if args.rule else list(all_rules().values())
    if not args.on:
        print(decided.text(policy, rules, None, every=bool(args.rule)))
        return 0
    sources, errors = edge.read([args.on], Facts())
    errors += [str(error) for source in sources for error in source.manifests.errors]
    if errors:
        raise UnusableError(errors, 3)
    for source in sources:
        for document in source.manifests.documents:
            subject = Subject.of(document.object, source.facts)
            print(f"{text.subject(Report(document.object, (), ()))} ({source.name})")
            print(indent(decided.text(policy, rules, subject, every=bool(args.rule)), "  "))
    return 0
