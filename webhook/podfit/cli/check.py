"""`podfit check`: the webhook's findings and decisions for manifests, without a cluster."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path

from podfit.cli.support import (
    baseline,
    charts,
    cluster_runtimes,
    cluster_surroundings,
    edge,
    fail_on,
    fleet,
    hub_cache,
    patches,
    policies,
    project,
    rendered,
    rule_filter,
    terminal,
    user_cluster,
)
from podfit.cli.support.format_option import FormatOption, Output
from podfit.evaluation import denial
from podfit.evaluation.policy import Policy
from podfit.report import files, text
from podfit.report.baseline import content as baseline_content
from podfit.report.checked import Checked, FileProblem
from podfit.report.paint import coloured, plain
from podfit.vllm.facts import Facts

FORMATS = FormatOption(("text", "json", "sarif", "junit", "github", "gitlab", "markdown"))
"""Each but text is a module of podfit.report with `render`."""
FEW_FILES = 3
"""Files that a line names at most. A choice: more do not fit. The next command names instead of more the folders and
patterns given."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "check",
        help="check manifests with the webhook's rules",
        description="Checks every vLLM container in the manifests with the webhook's rules, without a cluster.",
        epilog="examples: podfit check deploy/\n"
        "          podfit check --format text --format sarif=podfit.sarif 'overlays/**/*.yaml'\n"
        "          podfit check deploy/llama -n prod\n"
        "          podfit check --helm charts/llm --values prod.yaml --fail-on likely\n"
        "          helm template llm charts/llm | podfit check -\n"
        "a comment `# podfit: ignore RULE -- why` on a line, or above it, accepts the rule's findings there",
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE|DIR|GLOB|KIND/NAME|-",
        help="YAML or JSON; ** goes into folders; KIND/NAME is asked of the cluster; - is standard input",
    )
    rendered.add_arguments(parser)
    user_cluster.add_arguments(parser)
    edge.add_gpu(parser)
    fleet.add_argument(parser)
    edge.add_models(parser)
    hub_cache.add_arguments(parser, cache=False)
    policies.add_argument(parser, cluster=True)
    FORMATS.add_argument(parser)
    parser.add_argument(
        "--fail-on",
        type=fail_on.level,
        metavar=fail_on.NAMES,
        help="the lowest level that ends with exit code 1; default: denied",
    )
    parser.add_argument(
        "--fail-on-nothing", action="store_true", help="exit with code 1 if the input has no vLLM container"
    )
    parser.add_argument(
        "--fail-on-skipped",
        action="store_true",
        help="exit with code 1 if a file or a part of one is skipped: a template, a patch, not an object",
    )
    parser.add_argument("--audit", action="store_true", help="report findings that are only audited, too (mode audit)")
    rule_filter.add_arguments(parser)
    parser.add_argument("--show-source", action="store_true", help="show the line of the file with each finding")
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show source lines, all advice, and each accepted finding with its reason",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="show only findings at or above --fail-on, and errors, as text"
    )
    parser.add_argument(
        "--docs-url",
        default=os.environ.get("PODFIT_DOCS_URL"),
        metavar="URL",
        help="base URL of the rule pages, or a URL with {rule} for the rule's name. Text, SARIF and GitLab link to it. "
        "Default: $PODFIT_DOCS_URL, or podfit's site for SARIF and GitLab",
    )
    baseline.add_argument(parser)
    parser.add_argument(
        "--write-baseline",
        type=Path,
        metavar="FILE",
        help="accept what is found now; exit 0; no report unless --format asks for one",
    )
    parser.add_argument("--mask-secrets", action="store_true", help=argparse.SUPPRESS)  # the default
    edge.add_show_secrets(parser)
    project.add_arguments(parser)
    parser.set_defaults(formats=FORMATS)


def run(args: argparse.Namespace) -> int:
    """Check the files and print the result in each format. Returns the exit code, the same for all formats: 1 also if
    `--fail-on-nothing` is set and no container was found."""
    options = _fix_options(args)  # of the command line, before the project file adds its own
    config = project.apply(args, with_nodes=True)
    outputs = FORMATS.chosen(args, "sarif")
    if not (args.files or args.helm or args.kustomize):
        raise edge.UnusableError("check needs a FILE, a DIR, a GLOB or -, or --helm CHART, or -k DIR")
    policy, facts = policies.in_force(args)
    outcome = _checked(args, policy, facts)
    gone = 0
    if args.baseline is not None:
        outcome, gone = baseline.applied(outcome, args.baseline)
        if args.rule or args.ignore:
            gone = 0  # the other rules' findings only were not looked for
    has_next_command = any(output.format in ("text", "json") for output in outputs)
    if has_next_command and not args.quiet:
        outcome = _with_repairs(outcome, args, options)
    if args.format or args.write_baseline is None:
        for output in outputs:
            _write(output, outcome, args)
    if not args.quiet:
        _print_notes(outcome, config, args, gone)
    github_has_problems = outputs[0].format == "github" and outputs[0].file is None  # as its annotations
    if not github_has_problems:
        for problem in outcome.problems:
            edge.tell(f"error: {problem}")
    if args.write_baseline is not None:
        _write_baseline(outcome, args.write_baseline)
        return 3 if outcome.problems else 0
    return outcome.code or int(args.fail_on_nothing and not outcome.containers)


def _print_notes(outcome: Checked, config: Path | None, args: argparse.Namespace, gone: int) -> None:
    """Print the project file's path, the run's notes, and how many findings of the baseline are gone, if any."""
    project.announce(config)
    for note in outcome.notes:
        edge.tell(f"note: {note}")
    if gone:
        edge.tell(
            f"note: {args.baseline}: {denial.many(gone, 'finding')} no longer present; update it with --write-baseline"
        )


def _write_baseline(outcome: Checked, path: Path) -> None:
    """Replace the baseline file by one that accepts all findings of the run."""
    from podfit.cli.support import replacement  # a plain check need not wait for it

    content = baseline_content(outcome.items)
    replacement.replace(path, f"{json.dumps(content, indent=1)}\n".encode())
    edge.tell(f"note: {path}: {denial.many(len(content['findings']), 'finding')} accepted")


def _fix_options(args: argparse.Namespace) -> list[str]:
    """The options of the command line that change what is found, as `podfit fix` takes them."""
    options = []
    for name in ("policy", "gpu", "nodes", "models", "rule", "ignore", "namespace", "context", "baseline", "config"):
        value = getattr(args, name)
        for single in value if isinstance(value, list) else [value]:  # a list: an option that may be repeated
            options += [] if single is None else [f"--{name}", str(single)]
    return [*options, "--no-config"] if args.no_config else options


def _with_repairs(outcome: Checked, args: argparse.Namespace, options: list[str]) -> Checked:
    """The run with the number of findings that `podfit fix` can repair in their files, and with the arguments for it.
    Unchanged if there are none. `options`: those of `_fix_options`."""
    repaired = [item.file for item in outcome.open if item.finding.applies and item.file not in outcome.printed]
    names = list(dict.fromkeys(repaired))
    if len(names) > FEW_FILES:  # then the folders and patterns of the command line instead
        names = [name for name in dict.fromkeys(args.files) if edge.names_any(name, names)]
    return outcome._replace(repairable=len(repaired), fix=(*options, *names)) if names else outcome


def _checked(args: argparse.Namespace, policy: Policy, facts: Facts) -> Checked:
    """All findings, problems and notes about the given files and objects."""
    cluster_objects = [name for name in args.files if user_cluster.names_object(name)]
    names = [name for name in args.files if name not in cluster_objects]
    printed = [*rendered.manifests(args), *user_cluster.manifests(args, cluster_objects)]
    inputs, unreadable = edge.read(names, facts, printed, args.exclude)
    inputs, cluster_notes = cluster_surroundings.joined(inputs, args)
    inputs, runtime_notes = cluster_runtimes.joined(inputs, args, args.files)
    rules = rule_filter.chosen(args)
    checked_files = [
        files.check(source, policy, rules=rules, namespace=args.namespace, audit=args.audit) for source in inputs
    ]
    problems = [FileProblem.of(None, None, message) for message in unreadable]
    problems += [problem for checked_file in checked_files for problem in checked_file.problems]
    containers = [container for checked_file in checked_files for container in checked_file.containers]
    notes = [*cluster_notes, *runtime_notes, *(note for checked_file in checked_files for note in checked_file.notes)]
    notes += patches.notes(note for manifest_file in inputs for note in manifest_file.merged_notes)
    notes += charts.notes(inputs)
    names_read = tuple(source.name for source in inputs)
    if not problems:
        notes += _without_container(args.files, {container.file for container in containers})
    return Checked(
        names_read,
        tuple(containers),
        tuple(problems),
        tuple(notes),
        fail_on=args.fail_on or "denied",
        skips=tuple(note for manifest_file in inputs for note in manifest_file.skips),
        fail_on_skipped=args.fail_on_skipped,
        printed=frozenset(name for name, _ in printed),
        audit=args.audit,
        namespace=args.namespace,
        docs=args.docs_url,
        when=edge.now(),
    )


def _without_container(inputs: Sequence[str], files_with_vllm: Collection[str]) -> list[str]:
    """Notes on inputs without a vLLM container, since a wrong path must not count as success. It is one for the whole
    run if no input has any, else one for each folder without one. `inputs`: as in the command line; empty if all of
    them are rendered."""
    names = list(dict.fromkeys(inputs))
    if not files_with_vllm:
        first_names = [*names[:FEW_FILES], "…"] if len(names) > FEW_FILES else names
        where = ", ".join(first_names) or "what was rendered"
        return [f"nothing was checked: no vLLM container in {where}"]
    return [
        f"{name}: nothing was checked in it: no vLLM container"
        for name in names
        if Path(name).is_dir() and not any(Path(name) in Path(file).parents for file in files_with_vllm)
    ]


def _write(output: Output, outcome: Checked, args: argparse.Namespace) -> None:
    """Write one format of the result to its file or to standard output."""
    if output.format == "text":
        output.write(_text(outcome, args, colored=output.file is None and terminal.colors()))
    else:
        output.write(import_module(f"podfit.report.{output.format}").render(outcome))


def _text(outcome: Checked, args: argparse.Namespace, *, colored: bool) -> str:
    """The text of the containers, a blank line, and the last lines, which `--quiet` leaves out."""
    paint = coloured if colored else plain
    detail: text.Detail = "quiet" if args.quiet else "all" if args.verbose else "normal"
    source = args.show_source or args.verbose
    containers = text.check(outcome, paint, terminal.width(), detail, source=source)
    if args.quiet:
        return containers
    closing = "\n".join(text.closing(outcome)) + "\n"
    return f"{containers}\n{closing}" if containers else closing
