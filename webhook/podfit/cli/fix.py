"""`podfit fix`: every repair that there is for what podfit finds, as a diff, or written back."""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from podfit.cli.support import baseline, edge, patches, policies, project, rule_filter, terminal
from podfit.evaluation import subject
from podfit.evaluation.denial import LEVELS, many, quoted_rules
from podfit.evaluation.policy import Policy
from podfit.evaluation.repair import Repaired
from podfit.kube.manifest import encoding
from podfit.report import files, repairs, text
from podfit.report.checked import Checked
from podfit.report.files import ManifestFile
from podfit.report.repairs import Accepted
from podfit.report.rewrite import diff, rewrite


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers the command."""
    parser = commands.add_parser(
        "fix",
        help="show (or write) the repairs of what podfit finds",
        description="Shows the repairs of what podfit finds as a diff; --write makes them. Repairs what `podfit check` "
        "shows, with --audit also what it only audits. Standard error has a line for each repair, with its rule, and "
        "one for each finding that is left. Comments, order and every other line stay. What a policy says `fix: false` "
        "of, and what an exception or a comment accepts, is left alone.",
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
    policies.add_argument(parser)
    rule_filter.add_arguments(parser)
    parser.add_argument("-n", "--namespace", metavar="NAME", help="default for manifests that set none")
    parser.add_argument("--audit", action="store_true", help="repair findings that are only audited, too (mode audit)")
    parser.add_argument("--write", action="store_true", help="change the files")
    baseline.add_argument(parser)
    project.add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the diffs; returns 0 also if nothing can be repaired or something else is denied, 3 if a file can't be
    read or rewritten. Nothing is written before every file has been worked out."""
    project.announce(project.apply(args))
    policy, facts = policies.load(args.policy), edge.facts(args)
    rules = rule_filter.chosen(args)
    changed: list[tuple[str, str]] = []
    code = 0
    outcomes: list[tuple[str, Repaired, str]] = []
    inputs, problems = edge.read(args.files, facts, excluded=args.exclude)
    for problem_ in problems:
        edge.tell(f"error: {problem_}")
        code = 3
    accepted = _accepted(inputs, policy, args)
    for source in inputs:
        name = source.name
        for problem in source.manifests.errors:
            edge.tell(f"error: {problem}")
            code = 3
        if not source.manifests.documents:
            continue
        before = source.manifests.documents[0].text
        repaired = repairs.repaired(
            source,
            policy,
            rules,
            audited=args.audit or bool(args.rule),
            namespace=args.namespace,
            accepted=accepted,
        )
        try:
            after = rewrite(before, repairs.edits(repaired))
        except ValueError as error:
            edge.tell(f"error: {name}: can't be rewritten: {error}")
            code = 3
            continue
        made = "repaired" if args.write or name == "-" else "would repair"
        for document, one in repaired:
            whose = f"{subject.describe_object(document.object)}: " if len(repaired) > 1 else ""
            outcomes.append((name, one, whose))
            _tell_repairs(name, one, made, whose)
        if name == "-":
            sys.stdout.write(after)
        elif after != before:
            shown = diff(before, after, _from_here(name))
            sys.stdout.write(text.highlighted_diff(shown) if terminal.colors() else shown)
            changed.append((name, after))
    for note in patches.unchecked((one.name, one.patches) for one in inputs)[1]:
        edge.tell(f"note: {note}")
    if args.write:
        for name, after in changed:
            path = Path(name)
            path.write_text(after, encoding=encoding.codec_of(path.read_bytes()), newline="")
    if not code or outcomes:
        sys.stdout.flush()  # the diff comes before what is said of it
        _tell_rest(outcomes, args, bool(changed))
    return code


def _accepted(inputs: Sequence[ManifestFile], policy: Policy, args: argparse.Namespace) -> Accepted:
    """The findings that the baseline accepts. Raises UnusableError."""
    found: Accepted = defaultdict(list)
    if args.baseline is None:
        return found
    containers = [one for source in inputs for one in files.check(source, policy, namespace=args.namespace).containers]
    run = Checked(tuple(source.name for source in inputs), tuple(containers), (), ())
    for item in baseline.applied(run, args.baseline)[0].items:
        if item.accepted is not None:
            found[id(item.document)].append((item.result, item.judged))
    return found


def _from_here(name: str) -> str:
    """The file's name as a patch has it: relative to the working directory if the file is below it."""
    path = Path(os.path.normpath(name))
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_posix()


def _tell_repairs(name: str, one: Repaired, made: str, whose: str) -> None:
    """A line per repair, on standard error: the diff is alone on standard output."""
    for judged, settled in zip(one.made, one.settled, strict=True):
        also = f"; also fixes {', '.join(quoted_rules(*settled))}" if settled else ""
        edge.tell(f"{name}: {made}: {whose}{judged.rule}: {judged.finding.message}{also}")


def _tell_rest(outcomes: Sequence[tuple[str, Repaired, str]], args: argparse.Namespace, unwritten: bool) -> None:
    """The findings that are left, the most important first, and how many of both there are."""
    left = [(judged, name, whose) for name, one, whose in outcomes for judged in one.left]
    for judged, name, whose in sorted(left, key=lambda one: list(LEVELS).index(one[0].level)):
        edge.tell(f"{name}: not repaired ({LEVELS[judged.level]}): {whose}{judged.rule}: {judged.finding.message}")
    repairs = sum(len(one.made) for _, one, _ in outcomes)
    fixed = sum(one.fixed for _, one, _ in outcomes)
    done = many(repairs, "repair") if repairs else "no repair applies"
    done += f" for {many(fixed, 'finding')}" if fixed > repairs else ""
    of = f" of {', '.join(args.rule)}" if args.rule else ""
    edge.tell(f"note: {done}{of}; {many(len(left), 'finding') if left else 'no finding'} left")
    if unwritten and not args.write:
        edge.tell("note: nothing is changed yet; --write changes the files")
