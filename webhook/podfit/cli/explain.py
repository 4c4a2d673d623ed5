"""`podfit explain WHAT`: a manifest's or a live object's ledgers as waterfalls, with where every number came from; or a
rule's documentation, and with `--policy` which line of a policy decided."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import indent

from podfit.base.near import nearest
from podfit.base.printable import one_line
from podfit.cli.support import (
    cluster_runtimes,
    cluster_surroundings,
    edge,
    fleet,
    hub_cache,
    policies,
    project,
    terminal,
    user_cluster,
)
from podfit.cli.support.edge import UnusableError
from podfit.report import paint, rule_page
from podfit.report.files import ManifestFile
from podfit.rules import all_rules
from podfit.rules.rule import Rule
from podfit.vllm.facts import Facts

FORMATS = ("text", "json", "markdown", "html", "svg")
"""Formats for a manifest; each is a module of podfit.report.explained."""
RULE_FORMATS = ("text", "json", "markdown")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "explain",
        help="a manifest's numbers, or a rule's documentation",
        description="Of a manifest or a live object: both memory tables as waterfalls, where every number came from, "
        "what limits it,\nand what would change it. Of a rule: what it is about. Without either, lists the rules.",
        epilog="examples: podfit explain deploy/llama.yaml\n"
        "          podfit explain deploy/llama -n prod --format html > llama.html\n"
        "          podfit explain kv-cache-too-small\n"
        "          podfit explain shm-missing --policy ours.yaml --on deploy/llama.yaml\n"
        "          podfit explain kv-cache-too-small --on deploy/llama -n chat",
    )
    parser.add_argument("rule", nargs="?", metavar="FILE|KIND/NAME|RULE|-")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="html is one page that needs nothing else, svg the waterfalls alone, both of a manifest; default: text",
    )
    user_cluster.add_arguments(parser)
    edge.add_gpu(parser)
    fleet.add_argument(parser)
    edge.add_models(parser)
    hub_cache.add_arguments(parser, cache=True)
    policies.add_argument(parser, cluster=True)
    edge.add_show_secrets(parser)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show intervals, the arithmetic, and where every number came from"
    )
    project.add_arguments(parser)
    parser.add_argument(
        "--on",
        metavar="FILE|KIND/NAME",
        help="of a rule: which line of a policy decides for the objects in this file, or this object of the cluster. "
        "Also what the rule finds there. For an object of the cluster, --policy is `cluster` by default",
    )


def run(args: argparse.Namespace) -> int:
    """Prints a manifest's numbers; one rule's page, or the list; with policies, what they make of it and where."""
    rules = all_rules()
    if args.rule is not None and args.rule not in rules and _is_manifest(args.rule):
        return _manifest(args)
    if args.format not in RULE_FORMATS or (args.format != "text" and (args.policy or args.on)):
        raise UnusableError(f"--format {args.format} is for a manifest: a FILE, KIND/NAME or -")
    if args.policy or args.on:
        return _decided(args)
    if args.format != "text":
        chosen = list(rules.values()) if args.rule is None else [_rule(args.rule)]
        print(
            _as_json(chosen)
            if args.format == "json"
            else "\n".join(rule_page.markdown(rule_type, []) for rule_type in chosen)
        )
        return 0
    if args.rule is None:
        width = max(map(len, rules))
        for rule_id, rule in rules.items():
            terminal.show(f"{rule_id:<{width}}  {rule.mode:<6} {rule.title()}\n")
        return 0
    terminal.show(rule_page.text(_rule(args.rule)) + "\n")
    return 0


def _as_json(rules: Sequence[type[Rule]]) -> str:
    return json.dumps([rule_page.tree(rule) for rule in rules], indent=1)


def _is_manifest(name: str) -> bool:
    """A file, a folder, standard input, or an object of the cluster, rather than a rule's name."""
    return name == "-" or name.endswith(edge.MANIFEST_SUFFIXES) or "/" in name or Path(name).exists()


def _manifest(args: argparse.Namespace) -> int:
    """Explains each vLLM container; 3 if something can't be read."""
    from importlib import import_module

    from podfit.evaluation.lint import lint
    from podfit.report import explained

    project.announce(project.apply(args, with_nodes=True))
    policy, facts = policies.in_force(args)
    sources, problems = _sources(args, args.rule, facts)
    problems += [str(error) for source in sources for error in source.manifests.errors]
    reports = [
        lint(document.object, policy, source.facts, where="check", namespace=args.namespace)
        for source in sources
        for document in source.manifests.documents
    ]
    problems += [f"internal error in {error.rule}: {error.error}" for report in reports for error in report.errors]
    explanations = [explained.explain(report, result) for report in reports for result in report.results]
    for problem in problems:
        edge.tell(f"error: {problem}")
    if not explanations:
        if problems:
            return 3
        raise UnusableError(f"{args.rule}: no container in it runs vLLM")
    module = import_module(f"podfit.report.explained.{args.format}")
    if args.format == "text":
        draw = partial(module.render, width=terminal.width(), ascii_only=not _draws(), verbose=args.verbose)
        terminal.show("\n".join(draw(explanation) for explanation in explanations), paint.highlighted)
    else:
        terminal.write(module.render(explanations).removesuffix("\n"))
    return 3 if problems else 0


def _draws() -> bool:
    """The output takes more than ASCII."""
    return (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")


def _rule(name: str) -> type[Rule]:
    """The rule of this id; raises UnusableError with the nearest ids."""
    rules = all_rules()
    if name not in rules:
        near = nearest(name, rules, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `podfit explain` lists all"
        raise UnusableError(f"there is no rule {name!r}{hint}")
    return rules[name]


def _sources(args: argparse.Namespace, name: str, facts: Facts) -> tuple[list[ManifestFile], list[str]]:
    """The objects in a file, or the object of the cluster with this name, and what can't be read."""
    live = [name] if user_cluster.names_object(name) else []
    printed = user_cluster.manifests(args, live)
    sources, problems = edge.read([] if live else [name], facts, printed, getattr(args, "exclude", None))
    sources, notes = cluster_surroundings.joined(sources, args)
    sources, runtime_notes = cluster_runtimes.joined(sources, args, [name])
    for note in (*notes, *runtime_notes):
        edge.tell(f"note: {note}")
    return sources, problems


def _decided(args: argparse.Namespace) -> int:
    """Print the policy line that decided, and the rule's findings, for an object that all policies select, or for each
    object of a file or of the cluster. Returns the exit code."""
    from podfit.evaluation import subject
    from podfit.evaluation.lint import lint
    from podfit.evaluation.policy import Subject
    from podfit.report import decided

    rules = [_rule(args.rule)] if args.rule else list(all_rules().values())
    if args.on and not args.policy and user_cluster.names_object(args.on):
        args.policy = [policies.CLUSTER]
    policy, facts = policies.in_force(args)
    if not args.on:
        print(decided.text(policy, rules, None, every=bool(args.rule)))
        return 0
    sources, errors = _sources(args, args.on, facts)
    errors += [str(error) for source in sources for error in source.manifests.errors]
    if errors:
        raise UnusableError(errors, 3)
    for source in sources:
        for document in source.manifests.documents:
            selected = Subject.of(document.object, source.facts, args.namespace)
            terminal.write(one_line(f"{subject.describe_object(document.object)} ({source.name})"))
            terminal.write(indent(decided.text(policy, rules, selected, every=bool(args.rule)), "  "))
            if args.rule:
                report = lint(document.object, policy, source.facts, where="check", namespace=args.namespace)
                terminal.write(indent(decided.findings(report, args.rule), "  "))
    return 0
