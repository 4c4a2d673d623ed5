"""`podfit review`: answers one AdmissionReview from a file as the server would."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from podfit.cli.support import edge, policies, terminal
from podfit.evaluation import review


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "review",
        help="answer one AdmissionReview from a file",
        description="Answers one AdmissionReview (JSON) as the server would, and prints the answer.",
        epilog=edge.examples("podfit review review.json", "podfit review --mutate --policy ours.yaml - < review.json"),
    )
    parser.add_argument("file", metavar="FILE|-")
    parser.add_argument("--mutate", action="store_true", help="as the mutating webhook (default: the validating one)")
    edge.add_gpu(parser)
    edge.add_models(parser)
    policies.add_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the decision; returns 1 if it is a denial, 3 if the file is not an AdmissionReview."""
    policy, facts = policies.load(args.policy), edge.webhook_facts(args)
    try:
        body = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
    except OSError as error:
        raise edge.UnusableError(f"{args.file}: {(error.strerror or 'unreadable').lower()}", 3) from error
    try:
        request = review.parse(body)
    except review.BadReview as error:
        raise edge.UnusableError(f"{args.file}: {error}", 3) from error
    answer = (review.mutate if args.mutate else review.validate)(request, policy, facts)
    terminal.write(json.dumps(answer, indent=2))
    return 0 if answer["response"]["allowed"] else 1
