"""`podfit report`: what a bug report needs, in one file without secrets, which podfit can check again."""

from __future__ import annotations

import argparse
import json
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podfit import __version__
from podfit.base import data
from podfit.cli.support import edge, policies, project, terminal, user_cluster
from podfit.cli.support.edge import UnusableError
from podfit.diagnose import diagnose, is_object
from podfit.report import bug_report


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report",
        help="write a file for a bug report: object, versions, decision, memory tables",
        description="Writes one JSON file for a bug report, for example about a wrong denial. The file has the "
        "objects, the versions of podfit and its facts, the policies, the decision, and both memory tables. Of the "
        "objects it has names, kinds, numbers, images, paths, models and vLLM's options; every other text is `…`. The "
        "same input makes the same file, and `podfit check` reads it as a manifest.",
        epilog=edge.examples(
            "podfit report deploy/llama.yaml > report.json",
            "podfit report deploy/llama -n prod --policy strict > report.json",
            "podfit check report.json",
        ),
    )
    parser.add_argument("files", nargs="+", metavar="FILE|DIR|KIND/NAME|-", help="the object, and what is around it")
    user_cluster.add_arguments(parser)
    edge.add_gpu(parser)
    edge.add_models(parser)
    policies.add_argument(parser)
    project.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the report; 2 if no container runs vLLM, 3 if something can't be read."""
    project.announce(project.apply(args))
    policy = policies.load(args.policy)
    live = [name for name in args.files if user_cluster.names_object(name)]
    names = [name for name in args.files if name not in live]
    items = user_cluster.manifests(args, live)
    _refuse_logs(names)
    sources, problems = edge.read(names, edge.facts(args), items, args.exclude)
    problems += [str(error) for source in sources for error in source.manifests.errors]
    if problems:
        raise UnusableError(problems, 3)
    objects = [(document.object, source.facts) for source in sources for document in source.manifests.documents]
    about = {
        "podfit": __version__,
        "facts": data.age(),
        "python": platform.python_version(),
        "options": _options(args),
        "policies": [{"name": name, "text": text} for name, text in policies.texts(args.policy)],
    }
    entries = bug_report.tree(objects, policy, args.namespace)
    if not entries["podfit"]["decisions"]:
        raise UnusableError(f"{', '.join(args.files)}: no container in it runs vLLM")
    entries["podfit"] = {**about, **entries["podfit"]}
    terminal.write(json.dumps(entries, indent=1, ensure_ascii=False, default=str))
    edge.tell(
        "note: every text but names, images, paths, models and vLLM's numbers is …: read the file before you send it"
    )
    return 0


def _refuse_logs(names: Sequence[str]) -> None:
    """Raises UnusableError for a log, which has no objects to report."""
    for path in (Path(name) for name in names if Path(name).is_file()):
        text = edge.log_text(path.read_bytes())
        if not is_object(text) and not all(diagnosis.foreign for diagnosis in diagnose(text)):
            raise UnusableError(
                f"{path}: a log, not a manifest. Fix: `podfit diagnose {shlex.quote(str(path))}` names the cause of "
                "the failure; give `podfit report` the manifest of the Pod"
            )


def _options(args: argparse.Namespace) -> Mapping[str, Any]:
    """Options that change the result."""
    return {name: value for name in ("gpu", "namespace") if (value := getattr(args, name)) is not None}
