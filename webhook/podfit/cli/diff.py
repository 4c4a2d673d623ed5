"""`podfit diff OLD NEW`: what changes between two versions of manifests, for a merge request and for an upgrade."""

from __future__ import annotations

import argparse

from podfit.cli.support import edge, fleet, policies, project, terminal, user_cluster
from podfit.evaluation.compare import compare
from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import Policy
from podfit.report import comparison, text
from podfit.vllm.facts import Facts


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "diff",
        help="show what changes between two versions of manifests",
        description="Compares the vLLM containers of two files or folders. Shows changes of the release, arguments, "
        "defaults,\nmemory ledgers, KV cache and start-up, and the findings that appear or go away.\nMatches workloads "
        "by kind, namespace and name. Exits with 1 if something is newly denied.",
        epilog="examples: podfit diff old.yaml new.yaml\n"
        "          podfit diff <(git show HEAD:deploy/llama.yaml) deploy/llama.yaml\n"
        "          kubectl get deploy llama -o yaml | podfit diff - deploy/llama.yaml\n"
        "          podfit diff --format markdown main/deploy/ deploy/ >> comment.md\n"
        "another release under the same command line:\n"
        "          podfit plan --vllm-version 0.19.0 --vllm-version 0.27.1 -- vllm serve …",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD", help="a file, a folder, or - for standard input")
    parser.add_argument("new", metavar="NEW", help="the same, as it would be")
    edge.add_gpu(parser)
    fleet.add_argument(parser)
    edge.add_models(parser)
    policies.add_argument(parser, cluster=True)
    user_cluster.add_context(parser)
    edge.add_show_secrets(parser)
    project.add_arguments(parser)
    parser.add_argument("--format", choices=tuple(comparison.FORMATS), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints what changes; 1 if something is newly denied, 3 if a side can't be read."""
    if args.old == args.new == "-":
        raise edge.UnusableError("only one of OLD and NEW can be standard input")
    project.announce(project.apply(args, with_nodes=True))
    policy, facts = policies.in_force(args)
    (old, wrong), (new, also) = (_reports(name, args, policy, facts) for name in (args.old, args.new))
    for problem in (*wrong, *also):
        edge.tell(f"error: {problem}")
    if (wrong and not old) or (also and not new):
        return 3  # a side that can't be read is not one where everything is gone
    changes = compare(old, new)
    terminal.show(comparison.FORMATS[args.format](changes), text.highlighted if args.format == "text" else None)
    if wrong or also:
        return 3
    return int(any(one.newly_denied for one in changes))


def _reports(name: str, args: argparse.Namespace, policy: Policy, facts: Facts) -> tuple[list[Report], list[str]]:
    """The report of every object of one side, checked together with the other objects of that side."""
    sources, problems = edge.read([name], facts, excluded=args.exclude)
    problems += [str(error) for source in sources for error in source.manifests.errors]
    reports = [
        lint(document.object, policy, source.facts, where="check")
        for source in sources
        for document in source.manifests.documents
    ]
    problems += [f"internal error in {error.rule}: {error.error}" for report in reports for error in report.errors]
    return reports, problems
