"""`podfit plan`: what one vLLM command line needs, without a manifest."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from podfit import generate
from podfit.base.printable import clean
from podfit.base.secret import Secrets
from podfit.cli.support import batch, edge, fleet, hub_cache, policies, project, terminal
from podfit.evaluation import denial
from podfit.evaluation.lint import Report
from podfit.evaluation.policy import Policy
from podfit.kube import quantity
from podfit.report import command_line, paint, text
from podfit.report import plan as as_plan
from podfit.report import sweep as as_sweep
from podfit.report.command_line import is_spoken_of, judged_as
from podfit.rules.engine import Engine
from podfit.vllm import release
from podfit.vllm.args import flags
from podfit.vllm.facts import Facts, GivenModel
from podfit.vllm.memory import sweep
from podfit.vllm.model import given
from podfit.vllm.release import newest_read

FORMATS = ("text", "json", "markdown")
FIT_MOST, FIT_STEPS = 12, 5000
"""A person who asks for changes gets more of them, and waits longer (under a second) than a webhook may."""


BEFORE = (
    "all options of a command line belong to it: put `--` before it, as in podfit plan --gpu l4 -- vllm serve MODEL …"
)
EXAMPLES = """examples:
  podfit plan Qwen/Qwen3-14B --context 16384 --users 20
  podfit plan Qwen/Qwen3-14B --context 16384 --users 20 --nodes cluster -o yaml > vllm.yaml
  podfit plan --gpu l4:2 --vllm-version 0.27.1 -- vllm serve Qwen/Qwen3-14B -tp 2 --max-model-len 16k
  podfit plan --gpu l4 --fit -- vllm serve Qwen/Qwen3-14B
"""


def hint(argv: Sequence[str], unknown: Sequence[str]) -> str:
    """Advice about options that plan does not know: vLLM's belong to a command line."""
    if len(argv) < 2 and flags.builtin().beginnings.isdisjoint(word.partition("=")[0] for word in unknown):
        return ""
    return f"; {BEFORE}"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help="find the GPUs for a model, or plan the memory of one vLLM command line",
        usage="podfit plan MODEL [--context TOKENS] [--users N] [--gpu NAME[:COUNT] | --nodes FILE|cluster]\n"
        "                   [-o table|json|yaml|hpa|keda]\n"
        "       podfit plan --gpu NAME[:COUNT] [--vllm-version V] [--model-config FILE] [--fit] [--sweep]\n"
        "                   -- vllm serve MODEL …\n"
        "       podfit plan --batch FILE|-",
        description="Finds which GPUs, and how many, a model needs for a number of users. For a vLLM command line, "
        "shows whether it will start, and with how much KV cache.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--context", type=_count, metavar="TOKENS", help="of each request; default: the model's own")
    parser.add_argument(
        "--users",
        type=_count,
        metavar="N",
        help="concurrent requests; sets --max-num-seqs; default: 1 and vLLM's default",
    )
    fleet.add_argument(parser)
    parser.add_argument("--dtype", metavar="TYPE", help="as vLLM's, for MODEL")
    parser.add_argument("--quantization", metavar="METHOD", help="as vLLM's, for MODEL")
    parser.add_argument("--kv-cache-dtype", metavar="TYPE", help="as vLLM's, for MODEL")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="of the manifests that -o writes")
    edge.add_gpu(parser)
    edge.add_models(parser)
    hub_cache.add_arguments(parser, cache=True)
    policies.add_argument(parser)
    parser.add_argument(
        "--vllm-version",
        action="append",
        metavar="V",
        help="such as 0.27.1; default: the newest that podfit knows; two of them are compared",
    )
    parser.add_argument(
        "--kv-cache-memory",
        type=_size,
        metavar="SIZE",
        help="the KV cache memory that vLLM found, such as 37.5GiB, in place of the estimate",
    )
    parser.add_argument("--model-config", metavar="FILE", help="the model's config.json, if the catalog lacks it")
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", *generate.OUTPUTS),
        help="table and json as --format; the others write manifests that are ready to apply",
    )
    parser.add_argument("--fit", action="store_true", help="print every change that would fit, best first")
    parser.add_argument(
        "--sweep", action="store_true", help="print how many requests of which length fit on which accelerators"
    )
    edge.add_show_secrets(parser)
    project.add_arguments(parser)
    parser.add_argument("--batch", metavar="FILE|-", help="JSON lines in, JSON lines out (see docs/plan.md)")
    parser.add_argument("argv", nargs="*", metavar="MODEL | -- vllm serve …", help="a model's id; or a command line")


def run(args: argparse.Namespace) -> int:
    """Prints the plan; returns 0 if the input could be read, since a plan that does not fit is also a result."""
    if args.batch is not None:
        return batch.run(args.batch, policies.load(args.policy), edge.facts(args))
    if args.output in ("table", "json"):
        args.format, args.output = ("text" if args.output == "table" else "json"), None
    argv: list[str] = args.argv
    if not argv:
        raise edge.UnusableError(
            "plan needs a model, as in `podfit plan Qwen/Qwen3-8B --users 20`, or a command line after `--`, as in "
            "`podfit plan --gpu l4 -- vllm serve MODEL`"
        )
    for_model = len(argv) == 1 and not argv[0].startswith("-") and " " not in argv[0]
    project.announce(project.apply(args, with_gpu=not for_model))  # which GPUs MODEL needs is the question
    versions = args.vllm_version or [None]
    for version in versions:
        if version is not None and release.parse(version) is None:
            raise edge.UnusableError(f"--vllm-version {version}: not a version such as 0.27.1")
    if len(versions) > 2:
        raise edge.UnusableError("--vllm-version: two releases can be compared, not more")
    args.vllm_version = versions[-1]
    _tell_of_newer(filter(None, versions), policies.load(args.policy))
    facts = hub_cache.added(edge.facts(args), args)
    if args.kv_cache_memory is not None:
        facts = replace(facts, kv_cache_memory=args.kv_cache_memory)
    if args.model_config:
        facts = replace(facts, models={"*": _model_config(Path(args.model_config))})
    if for_model:
        return _plan_model(args, argv[0], versions, facts)
    _check_options_of_command_line(args, versions)
    if len(versions) == 2:
        return _side_by_side(argv, versions, facts, args)
    return _plan_command_line(args, argv, facts)


def _plan_model(args: argparse.Namespace, model: str, versions: Sequence[str | None], facts: Facts) -> int:
    """Print the GPUs for a model; returns the exit code. Raises UnusableError for options of a command line."""
    from podfit.cli.support import needs

    if len(versions) == 2:
        raise edge.UnusableError(
            "two --vllm-version compare a command line: "
            f"podfit plan --vllm-version A --vllm-version B -- vllm serve {model}"
        )
    if args.kv_cache_memory is not None:
        raise edge.UnusableError(f"--kv-cache-memory belongs to a command line; {BEFORE}")
    return needs.run(args, model, facts)


def _check_options_of_command_line(args: argparse.Namespace, versions: Sequence[str | None]) -> None:
    """Raise UnusableError for an option that only `podfit plan MODEL` or a comparison of two releases has."""
    if args.context or args.users or args.nodes:
        raise edge.UnusableError(
            "--context, --users and --nodes belong to `podfit plan MODEL`; a command line says --max-model-len itself"
        )
    if args.dtype or args.quantization or args.kv_cache_dtype:
        raise edge.UnusableError(
            f"--dtype, --quantization and --kv-cache-dtype belong to `podfit plan MODEL`; {BEFORE}"
        )
    if args.format == "markdown" and len(versions) < 2:
        raise edge.UnusableError("--format markdown shows a comparison: give --vllm-version twice")


def _plan_command_line(args: argparse.Namespace, argv: list[str], facts: Facts) -> int:
    """Print the plan of one command line, or the manifest of `-o`, and return 0. Raises UnusableError if it does not
    start vLLM, or has no manifest."""
    assumed = args.vllm_version is None
    report = judged_as(argv, args.vllm_version or str(newest_read()), facts, policies.load(args.policy), args.namespace)
    if not report.results:
        problem = report.errors[0].error if report.errors else "not a command that starts vLLM"
        sentence = Secrets.of(argv).masked(" ".join(argv[:4]))
        raise edge.UnusableError(f"{sentence} …: {problem}", 3 if report.errors else 2)
    (result,) = report.results
    engine: Engine = result.engine
    if args.output:
        try:
            print(generate.render(args.output, engine, generate.other_labels(facts.gpu)), end="")
        except ValueError as error:
            raise edge.UnusableError(f"-o {args.output}: {error}") from error
        return 0
    changes = engine.changes(most=FIT_MOST, steps=FIT_STEPS) if args.fit else []
    rows = _sweep(engine) if args.sweep else []
    if args.format == "json":
        tree = {**command_line.tree(report), "vllm_version_assumed": assumed}
        if args.fit:
            tree["alternatives"] = as_plan.alternatives(changes)
        if rows:
            tree["sweep"] = as_sweep.tree(rows)
        terminal.write(json.dumps(tree, indent=1, default=str))
        return 0
    refused = (graded.finding.message for graded in result.findings if graded.mode == "deny" and is_spoken_of(graded))
    terminal.show(as_plan.table(engine, report.secrets, next(refused, None), assumed=assumed), paint.highlighted)
    if args.fit:
        fit = as_plan.fit(engine.plan.verdict, changes, unknown=_missing_inputs(engine))
        terminal.show("\n" + clean(report.secrets.masked(fit)))
    if rows:
        terminal.show("\n" + as_sweep.table(rows))
    for finding in result.findings:
        if is_spoken_of(finding):
            sentence = denial.block(finding, f"{denial.HEADINGS[finding.heading]}  ", text.readable(terminal.width()))
            terminal.show(f"\n{sentence}\n", paint.highlighted)
    return 0


def _missing_inputs(engine: Engine) -> list[str]:
    """The inputs that the search for changes lacks, and how to set them."""
    name = engine.model.value.id if engine.model else engine.args.model or "MODEL"
    unsaid = []
    if engine.model is None:
        unsaid.append("the model's config is not known: --model-config FILE gives it")
    if engine.gpu is None:
        unsaid.append(f"no GPU is named: give --gpu, such as --gpu l4; `podfit plan {name}` lists those that fit")
    return unsaid


def _tell_of_newer(versions: Iterable[str], policy: Policy) -> None:
    """A note for each release that is newer than all that are known."""
    table = policy.releases.table.releases
    for version in versions:
        image_release = release.parse(version)
        if image_release is not None and release.neighbours(image_release, table)[1] is None:
            edge.tell(
                f"note: vLLM {version} is newer than every release that podfit knows, and is planned as {table[-1]}: "
                "`podfit releases list` shows them, docs/releases.md how to teach one"
            )


def _side_by_side(argv: list[str], versions: list[str], facts: Facts, args: argparse.Namespace) -> int:
    """Compares the same command line under two releases; returns 1 if the second newly denies it."""
    from podfit.evaluation.compare import Placed, compare
    from podfit.report import comparison

    policy = policies.load(args.policy)
    old, new = (judged_as(argv, version, facts, policy) for version in versions)
    if not (old.results and new.results):
        raise edge.UnusableError(f"{' '.join(argv[:4])} …: not a command that starts vLLM")
    changes = compare([Placed("", _speaking(old))], [Placed("", _speaking(new))])
    terminal.show(comparison.FORMATS[args.format](changes), paint.highlighted if args.format == "text" else None)
    return int(any(change.newly_denied for change in changes))


def _speaking(report: Report) -> Report:
    """The report with only the findings that apply to a command line alone."""
    kept = (result._replace(findings=tuple(filter(is_spoken_of, result.findings))) for result in report.results)
    return replace(report, results=tuple(kept))


def _count(text: str) -> int:
    """A whole number above 0, as vLLM reads `--max-model-len`: 16384, 16k (16,000) or 16K (16,384)."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)([kKmMgG]?)", text)
    factor = {"": 1, "k": 10**3, "K": 1 << 10, "m": 10**6, "M": 1 << 20, "g": 10**9, "G": 1 << 30}
    number = round(float(match[1]) * factor[match[2]]) if match else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0, such as 16384 or 16k")
    return number


def _size(text: str) -> int:
    """Bytes: 37.5GiB as vLLM logs it, 37.5Gi as Kubernetes writes it, or a number of bytes."""
    size = quantity.try_parse(text.removesuffix("B") if text.endswith("iB") else text)
    if size is None or size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size above 0, such as 37.5GiB")
    return size


def _model_config(path: Path) -> GivenModel:
    """The config.json at `path`, with the safetensors index in the same folder if there is one."""
    index_path = path.with_name(given.INDEX)
    entries = {
        given.CONFIG: edge.read_text(path),
        **({given.INDEX: edge.read_text(index_path)} if index_path.is_file() else {}),
    }
    models, errors = given.read(entries, str(path), ("*",))
    if errors:
        raise edge.UnusableError([error.replace(f"{path}: {given.CONFIG}", str(path)) for error in errors], 3)
    return replace(models["*"], source=f"config.json handed in: {path}")


def _sweep(engine: Engine) -> list[sweep.SweepRow]:
    if engine.model is None:
        raise edge.UnusableError("--sweep needs a model that is known; --model-config FILE gives one", 2)
    return list(sweep.sweep(engine.args, engine.model.value, env=engine.command.env))
