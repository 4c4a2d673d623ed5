"""`podfit fix`: every repair that there is for what podfit finds, as a diff, or written back."""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from podfit.cli.support import (
    baseline,
    cluster_runtimes,
    cluster_surroundings,
    edge,
    fleet,
    hub_cache,
    patches,
    policies,
    project,
    replacement,
    rule_filter,
    terminal,
    user_cluster,
)
from podfit.evaluation import subject
from podfit.evaluation.denial import HEADINGS, many, quoted_rules
from podfit.evaluation.policy import Policy
from podfit.evaluation.repair import Repaired
from podfit.kube.manifest import Document, encoding
from podfit.report import files, paint, repairs
from podfit.report.checked import Checked
from podfit.report.files import ManifestFile
from podfit.report.repairs import Accepted
from podfit.report.rewrite import diff, rewrite


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE|DIR|-", help="- is standard input, its repair standard output"
    )
    edge.add_gpu(parser)
    fleet.add_argument(parser)
    edge.add_models(parser)
    hub_cache.add_arguments(parser, cache=False)
    policies.add_argument(parser, cluster=True)
    rule_filter.add_arguments(parser)
    parser.add_argument("-n", "--namespace", metavar="NAME", help="default for manifests that set none")
    user_cluster.add_context(parser)
    parser.add_argument("--audit", action="store_true", help="repair findings that are only audited, too (mode audit)")
    parser.add_argument("--write", action="store_true", help="change the files")
    baseline.add_argument(parser)
    project.add_arguments(parser)


@dataclass(frozen=True)
class FixedFile:
    """A file with its repairs, and what is left of its findings."""

    source: ManifestFile
    documents: Sequence[tuple[Document, Repaired]]
    before: str
    after: str

    @property
    def name(self) -> str:
        """The file's name as given."""
        return self.source.name

    @property
    def is_changed(self) -> bool:
        """A repair changes the file's text."""
        return self.after != self.before


def run(args: argparse.Namespace) -> int:
    """Prints the diffs; returns 0 also if nothing can be repaired or something else is denied, 3 if a file can't be
    read or rewritten. Nothing is written before every file has been worked out."""
    project.announce(project.apply(args, with_nodes=True))
    policy, facts = policies.in_force(args)
    links: list[str] = []
    inputs, problems = edge.read(args.files, facts, excluded=_excluding(args, links))
    links += [
        f"{name}: skipped: a link that leads to no file"
        for name in dict.fromkeys(edge.links_to_no_file(args.files))
        if not (args.exclude and args.exclude(name))
    ]
    inputs, cluster_notes = cluster_surroundings.joined(inputs, args)
    inputs, runtime_notes = cluster_runtimes.joined(inputs, args, args.files)
    problems += [str(error) for source in inputs for error in source.manifests.errors]
    fixed, unwritable = _fixed(inputs, policy, args)
    problems += unwritable
    written: set[str] = set()
    for file in fixed if args.write else ():
        if file.is_changed and file.name != "-":
            try:
                _write(file)
                written.add(file.name)
            except edge.UnusableError as error:
                problems += error.lines
    for file in fixed:
        _tell_repairs(file, "repaired" if file.name in written or file.name == "-" else "would repair")
        _print(file)
    for problem in problems:
        edge.tell(f"error: {problem}")
    for note in (
        *links,
        *cluster_notes,
        *runtime_notes,
        *patches.notes(note for manifest_file in inputs for note in manifest_file.patches),
    ):
        edge.tell(f"note: {note}")
    if not problems or fixed:
        sys.stdout.flush()  # the diff comes before the lines about it
        _tell_rest(fixed, args)
    return 3 if problems else 0


def _excluding(args: argparse.Namespace, links: list[str]) -> Callable[[str], bool]:
    """True if a found file is left out: as the project file says, or for a link that leads out of the given folders,
    which is noted in `links`. A repair must not change what is elsewhere."""
    roots = [tree.resolve() for tree in edge.trees(args.files)]

    def excluded(name: str) -> bool:
        """True if an option excludes the file, or it links out of the given folders, which is added to `links`."""
        if args.exclude and args.exclude(name):
            return True
        target = os.path.realpath(name)
        if any(Path(target).is_relative_to(root) for root in roots):
            return False
        links.append(f"{name}: skipped: a link to {target}, which is not in the given folder. Name it to repair it")
        return True

    return excluded


def _fixed(
    inputs: Sequence[ManifestFile], policy: Policy, args: argparse.Namespace
) -> tuple[list[FixedFile], list[str]]:
    """Every file with its repairs made, and the problems of those that can't be rewritten."""
    rules, accepted = rule_filter.chosen(args), _accepted(inputs, policy, args)
    fixed, problems = [], []
    for source in inputs:
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
            fixed.append(FixedFile(source, repaired, before, rewrite(before, repairs.edits(repaired))))
        except ValueError as error:
            problems.append(f"{source.name}: can't be rewritten: {error}")
    return fixed, problems


def _write(file: FixedFile) -> None:
    """Replace the file; raises UnusableError, and the file is as before then."""
    path = Path(file.name)
    data = edge.read_bytes(path)
    present = encoding.decode(data, "replace").removeprefix("\ufeff")
    if present == file.after:  # two names of one file
        return
    if present != file.before:
        raise edge.UnusableError(
            f"{path}: not written: the file has changed since it was read. Fix: run podfit again", 3
        )
    replacement.replace(path, file.after.encode(encoding.codec_of(data)))


def _accepted(inputs: Sequence[ManifestFile], policy: Policy, args: argparse.Namespace) -> Accepted:
    """The findings that the baseline accepts. Raises UnusableError."""
    entries: Accepted = defaultdict(list)
    if args.baseline is None:
        return entries
    containers = [
        container for source in inputs for container in files.check(source, policy, namespace=args.namespace).containers
    ]
    run = Checked(tuple(source.name for source in inputs), tuple(containers), (), ())
    for item in baseline.applied(run, args.baseline).checked.items:
        if item.accepted is not None:
            entries[id(item.document)].append((item.result, item.finding))
    return entries


def _from_here(name: str) -> str:
    """The file's name as a patch has it: relative to the working directory if the file is below it."""
    path = Path(os.path.normpath(name))
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_posix()


def _print(file: FixedFile) -> None:
    """The diff, or of standard input the repaired text, on standard output."""
    if file.name == "-":
        sys.stdout.write(file.after)
    elif file.is_changed:
        sentence = diff(file.before, file.after, _from_here(file.name))
        sys.stdout.write(paint.highlighted_diff(sentence) if terminal.colors() else sentence)


def _outcomes(file: FixedFile) -> Iterator[tuple[str, Repaired]]:
    """Per object: the prefix that names it in a message (empty if the file has only one), and its repairs."""
    for document, repaired in file.documents:
        yield f"{subject.describe_object(document.object)}: " if len(file.documents) > 1 else "", repaired


def _tell_repairs(file: FixedFile, sentence: str) -> None:
    """A line per repair, on standard error: the diff is alone on standard output."""
    for whose, repaired in _outcomes(file):
        for finding, settled in zip(repaired.repairs, repaired.settled, strict=True):
            also = f"; also fixes {', '.join(quoted_rules(*settled))}" if settled else ""
            edge.tell(f"{file.name}: {sentence}: {whose}{finding.rule}: {finding.finding.message}{also}")


def _tell_rest(fixed: Sequence[FixedFile], args: argparse.Namespace) -> None:
    """The findings that are left, the most important first, and how many of both there are."""
    outcomes = [(file.name, place, repaired) for file in fixed for place, repaired in _outcomes(file)]
    left = [(graded, name, place) for name, place, repaired in outcomes for graded in repaired.left]
    for graded, name, place in sorted(left, key=lambda row: list(HEADINGS).index(row[0].heading)):
        message = f"{place}{graded.rule}: {graded.finding.message}"
        edge.tell(f"{name}: not repaired ({HEADINGS[graded.heading]}): {message}")
    repair_count = sum(len(repaired.repairs) for _, _, repaired in outcomes)
    repaired_count = sum(repaired.fixed for _, _, repaired in outcomes)
    repairs = many(repair_count, "repair") if repair_count else "no repair applies"
    findings = f" for {many(repaired_count, 'finding')}" if repaired_count > repair_count else ""
    rules = f" of {', '.join(args.rule)}" if args.rule else ""
    edge.tell(f"note: {repairs}{findings}{rules}; {many(len(left), 'finding') if left else 'no finding'} left")
    if not args.write and any(file.is_changed and file.name != "-" for file in fixed):
        edge.tell("note: nothing is changed yet; --write changes the files")
