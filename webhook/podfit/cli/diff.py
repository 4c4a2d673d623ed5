"""`podfit diff OLD NEW`: what changes between two versions of manifests, for a merge request and for an upgrade."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from podfit.cli.support import cluster_surroundings, edge, fleet, policies, project, terminal, user_cluster
from podfit.evaluation.compare import ContainerComparison, Placed, compare
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy
from podfit.report import comparison, paint
from podfit.report.files import ManifestFile


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "diff",
        help="show what changes between two versions of manifests",
        description="Compares the vLLM containers of two files or folders. Shows changes of the release, arguments, "
        "defaults,\nmemory tables, KV cache and start-up, and the findings that appear or go away.\nMatches workloads "
        "by kind, namespace and name. Exits with 1 if something is newly denied.",
        epilog="examples: podfit diff old.yaml new.yaml\n"
        "          podfit diff <(git show HEAD:deploy/llama.yaml) deploy/llama.yaml\n"
        "          kubectl get deploy llama -o yaml | podfit diff - deploy/llama.yaml\n"
        "          podfit diff --format markdown main/deploy/ deploy/ >> comment.md\n"
        "another release under the same command line:\n"
        "          podfit plan --vllm-version 0.19.0 --vllm-version 0.27.1 -- vllm serve …",
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


@dataclass(frozen=True)
class Folder:
    """One side: what is compared, and the folder that its files are named by."""

    names: Sequence[str]
    root: str

    def file(self, name: str) -> str:
        """The name of a file, relative to the folder; "" of standard input."""
        return "" if name == "-" else os.path.relpath(name, self.root)


@dataclass(frozen=True)
class Compared:
    """The changes, and the problems in reading either side."""

    changes: list[ContainerComparison]
    problems: list[str]
    unread: frozenset[str]
    """The files, relative to their folders. A container that only the other side has in one of them may be in both."""
    has_empty_side: bool
    """Nothing of a side could be read."""


def run(args: argparse.Namespace) -> int:
    """Prints what changes; 1 if something is newly denied, 3 if a side can't be read."""
    if args.old == args.new == "-":
        raise edge.UnusableError("only one of OLD and NEW can be standard input")
    compared = compared_folders(args, *(Folder([name], _folder(name)) for name in (args.old, args.new)))
    for problem in compared.problems:
        edge.tell(f"error: {problem}")
    if compared.has_empty_side:
        return 3  # a side that can't be read is not one where everything is gone
    sentence = comparison.FORMATS[args.format](compared.changes)
    terminal.show(sentence, paint.highlighted if args.format == "text" else None)
    if compared.problems:
        return 3
    return int(any(change.newly_denied for change in compared.changes))


def _folder(name: str) -> str:
    return name if Path(name).is_dir() else str(Path(name).parent)


def compared_folders(args: argparse.Namespace, folder: Folder, new_folder: Folder) -> Compared:
    """Compares both sides by the policies and the project file that the options name."""
    project.announce(project.apply(args, with_nodes=True))
    policy, facts = policies.in_force(args)
    (old_sources, old_problems), (new_sources, new_problems) = (
        edge.read(side.names, facts, excluded=args.exclude) for side in (folder, new_folder)
    )
    sources, notes = cluster_surroundings.joined([*old_sources, *new_sources], args)
    for note in notes:
        edge.tell(f"note: {note}")
    before, wrong, lost = _reports(folder, sources[: len(old_sources)], old_problems, policy)
    after, also, missing = _reports(new_folder, sources[len(old_sources) :], new_problems, policy)
    return Compared(
        changes=compare(before, after),
        problems=[*wrong, *also],
        unread=frozenset((*lost, *missing)),
        has_empty_side=bool((wrong and not before) or (also and not after)),
    )


def _reports(
    side: Folder, sources: list[ManifestFile], problems: list[str], policy: Policy
) -> tuple[list[Placed], list[str], list[str]]:
    """The report of every object of one side, checked together with the other objects of that side; the problems, and
    the files that can't be read."""
    problems = [*problems, *(str(error) for source in sources for error in source.manifests.errors)]
    placed = [
        Placed(side.file(source.name), lint(document.object, policy, source.facts, where="check"))
        for source in sources
        for document in source.manifests.documents
    ]
    problems += [f"internal error in {error.rule}: {error.error}" for each in placed for error in each.report.errors]
    return placed, problems, [side.file(source.name) for source in sources if source.manifests.errors]
