"""`podfit check`: the webhook's verdicts on manifests, without a cluster."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from webhook.cli import edge
from webhook.lint import lint
from webhook.report import text


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "check",
        help="judge manifests as the webhook would",
        description="Judges every vLLM container in the manifests as the webhook would, without a cluster.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE|DIR|-", help="YAML or JSON; - is standard input")
    edge.add_gpu(parser)
    edge.add_models(parser)
    edge.add_policy(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Checks and prints; the exit code of the module's head."""
    from webhook.report import json as as_json

    policy, facts = edge.policy(args.policy), edge.facts(args)
    results: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    containers = denied = warned = checked = 0
    inputs, problems = edge.read(args.files, facts)
    errors += [{"file": None, "message": problem} for problem in problems]
    for source in inputs:
        name, manifests = source.name, source.manifests
        checked += 1
        errors += [{"file": name, "message": str(error)} for error in manifests.errors]
        notes = [str(note) for document in manifests.documents for note in document.notes]
        for document in manifests.documents:
            report = lint(document.object, policy, source.facts, where="check")
            errors += [
                {"file": name, "message": f"{name}:{document.line}: internal error in {error.rule}: {error.error}"}
                for error in report.errors
            ]
            containers += len(report.results)
            denied += sum(one.denied for one in report.results)
            warned += sum(not one.denied and any(f.mode == "warn" for f in one.findings) for one in report.results)
            if args.format == "json":
                results += [as_json.result(name, report, one) for one in report.results]
            elif report.results:
                print(text.check(name, report))
        for note in (*notes, *(str(note) for note in manifests.notes)):
            print(f"note: {text.one_line(note)}", file=sys.stderr)
    if args.format == "json":
        print(json.dumps({"results": results, "errors": errors}, indent=1, default=str))
    else:
        clean = containers - denied - warned
        print(
            f"{_many(checked, 'file')}, {_many(containers, 'vLLM container')}: "
            f"{denied} denied, {warned} with warnings, {clean} clean"
            + (f"; {_many(len(errors), 'error')}" if errors else "")
        )
    for error in errors:
        print(f"error: {text.one_line(error['message'])}", file=sys.stderr)
    return 3 if errors else 1 if denied else 0


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
