"""`podfit fix`: every repair that there is for what podfit finds, as a diff, or written back."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from webhook.cli.support import edge, patches
from webhook.evaluation import subject
from webhook.evaluation.lint import lint
from webhook.evaluation.policy import Policy
from webhook.evaluation.repair import Repaired, repair
from webhook.kube.manifest import Document, encoding
from webhook.kube.patch import Edit
from webhook.report import checked
from webhook.report.rewrite import diff, rewrite
from webhook.rules import all_rules


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "fix",
        help="show (or write) the repairs of what podfit finds",
        description="Shows the repairs of what podfit finds as a diff; --write makes them. Advice that `podfit check` "
        "keeps to itself (mode audit) is repaired, too. Standard error has a line for each repair, with its rule, and "
        "one for what stays denied. Comments, order and every other line stay. What a policy says `fix: false` of, "
        "and what an exception or a comment accepts, is left alone.",
        epilog=edge.examples(
            "podfit fix deploy/ | git apply    # or --write",
            "podfit fix --write --rule shm-missing deploy/llama.yaml",
            "kubectl get deploy llama -o yaml | podfit fix - | kubectl apply -f -",
        ),
        formatter_class=edge.Examples,
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE|DIR|-", help="- is standard input, its repair standard output"
    )
    edge.add_gpu(parser)
    edge.add_models(parser)
    edge.add_policy(parser)
    parser.add_argument("--rule", action="append", default=[], metavar="RULE", help="only what this rule finds")
    parser.add_argument("--write", action="store_true", help="change the files")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the diffs; 0 also where there is nothing to repair or something else is denied, 3 where a file can't be
    read or rewritten. Nothing is written before every file has been worked out."""
    policy, facts = edge.policy(args.policy), edge.facts(args)
    if unknown := [rule for rule in args.rule if rule not in all_rules()]:
        raise edge.UnusableError(f"--rule {unknown[0]}: there is no such rule; `podfit explain` lists them")
    changed: list[tuple[str, str]] = []
    code = repairs = 0
    inputs, problems = edge.read(args.files, facts)
    for problem_ in problems:
        edge.tell(f"error: {problem_}")
        code = 3
    for source in inputs:
        name = source.name
        for problem in source.manifests.errors:
            edge.tell(f"error: {problem}")
            code = 3
        if not source.manifests.documents:
            continue
        before = source.manifests.documents[0].text
        repaired = _repaired(source, policy, args.rule)
        try:
            after = rewrite(before, _edits(repaired))
        except ValueError as error:
            edge.tell(f"error: {name}: can't be rewritten: {error}")
            code = 3
            continue
        made = "repaired" if args.write or name == "-" else "would repair"
        repairs += _tell(name, repaired, made)
        if name == "-":
            sys.stdout.write(after)
        elif after != before:
            sys.stdout.write(diff(before, after, _from_here(name)))
            changed.append((name, after))
    for note in patches.unchecked((one.name, one.patches) for one in inputs)[1]:
        edge.tell(f"note: {note}")
    if args.write:
        for name, after in changed:
            path = Path(name)
            path.write_text(after, encoding=encoding.codec_of(path.read_bytes()), newline="")
    elif changed:
        edge.tell("nothing is changed yet: --write does it")
    if not repairs and not code:
        edge.tell("no repair applies" + (f" of {', '.join(args.rule)}" if args.rule else ""))
    return code


def _from_here(name: str) -> str:
    """The file's name as a patch has it: relative to the working directory if the file is below it."""
    path = Path(os.path.normpath(name))
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_posix()


def _repaired(source: edge.ManifestFile, policy: Policy, rules: list[str]) -> list[tuple[Document, Repaired]]:
    """Each document with what its repair changes."""

    def of(one: Document) -> Repaired:
        report = lint(one.object, policy, source.facts, where="check") if "podfit:" in one.text else None
        accepted = checked.commented(one, report) if report is not None else ()
        return repair(one.object, policy, source.facts, rules=rules, accepted=accepted)

    return [(one, of(one)) for one in source.manifests.documents]


def _tell(name: str, repaired: list[tuple[Document, Repaired]], made: str) -> int:
    """A line a repair, and a line for what stays denied: on standard error, the diff stands alone; how many repairs.
    The object is named where the file has several."""
    for document, one in repaired:
        whose = f"{subject.describe_object(document.object)}: " if len(repaired) > 1 else ""
        for word, findings in ((made, one.made), ("still denied", one.left)):
            for judged in findings:
                edge.tell(f"{name}: {word}: {whose}{judged.rule}: {judged.finding.message}")
    return sum(len(one.made) for _, one in repaired)


def _edits(repaired: list[tuple[Document, Repaired]]) -> list[tuple[int, tuple[Edit, ...]]]:
    """The repairs of each document, their paths from the document's root (an item of a List is below `items`)."""
    found: dict[int, tuple[Edit, ...]] = {}
    for document, one in repaired:
        rooted = tuple(Edit(document.root.join(*edit.path.parts), edit.value, edit.op) for edit in one.edits)
        if rooted:
            found[document.index] = (*found.get(document.index, ()), *rooted)
    return list(found.items())
