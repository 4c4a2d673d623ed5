"""`podfit calibrate`: compares start-up logs with the plan, and turns their numbers into facts for the planner."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from podfit.base.lazy import regex
from podfit.cli.support import edge, policies, replacement, terminal, user_cluster
from podfit.diagnose import calibrate
from podfit.diagnose.calibrate import Start, StartComparison
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy
from podfit.kube.workload import JSON
from podfit.report import calibration
from podfit.rules.engine import Engine
from podfit.vllm import gpu, measured
from podfit.vllm.facts import Facts

MAX_INPUT_BYTES = 64 << 20
"""Bytes of a log; of a longer one the beginning is read, where it starts."""
_POD = regex(r"(?:(?P<kind>[a-z][a-z.]*)/)?(?P<name>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")
_FILE_ENDS = (".log", ".txt", ".out", ".err")
PRODUCT = "nvidia.com/gpu.product"

EXAMPLES = """examples:
  podfit calibrate deploy/llama -n prod
  podfit calibrate deploy/llama -n prod -o configmap | kubectl apply -n podfit -f -
  kubectl logs llama-0 | podfit calibrate - --manifest llama.yaml --gpu NVIDIA-H100-80GB-HBM3
  podfit calibrate start.log --gpu NVIDIA-H100-80GB-HBM3 --write models/cluster.measured.json

The ConfigMap goes to podfit's own namespace; `check`, `plan` and `serve` read the file from --models DIR.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "calibrate",
        help="compare start-up logs with the plan, and save their numbers as facts",
        description="Reads the memory sizes that vLLM printed when it started, and compares them with the plan. "
        "Saves them as facts for the planner. The planner uses them instead of estimates for the same model, "
        "GPU, release and arguments. A measured fact never denies anything that an estimate would allow.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="FILE|POD|-", help="a log, a Pod (or deploy/NAME …), - for standard input"
    )
    parser.add_argument(
        "--manifest", metavar="FILE", help="the Pod or its workload, where the log does not list its arguments"
    )
    parser.add_argument(
        "-c", "--container", metavar="NAME", help="of the Pod or the manifest; default: the first of vLLM"
    )
    user_cluster.add_arguments(parser)
    edge.add_gpu(parser)
    edge.add_models(parser)
    policies.add_argument(parser)
    parser.add_argument(
        "-o",
        "--output",
        "--format",
        choices=("text", "json", "configmap"),
        default="text",
        help="default: text, a table",
    )
    parser.add_argument(
        "--write",
        metavar="FILE",
        type=Path,
        help=f"add the facts to a file, for --models; its name ends in {measured.ENDING}",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the comparison; returns 0 also if the plan was wrong, which is a result; 3 if no input can be read."""
    if args.write and not args.write.name.endswith(measured.ENDING):
        raise edge.UnusableError(f"--write {args.write}: the file's name must end in {measured.ENDING}")
    policy, facts = policies.load(args.policy), edge.facts(args)
    facts = replace(facts, given_measured=())  # else the plan would repeat what was measured before
    manifest = edge.read_workload(args.manifest) if args.manifest else None
    comparisons: list[StartComparison] = []
    code = 0
    for name in args.inputs:
        try:
            comparisons += _compared(name, args, manifest, policy, facts)
        except edge.UnusableError as error:
            for line in error.lines:
                edge.tell(f"error: {line}")
            code = max(code, error.code)
    if args.output == "json":
        terminal.write(json.dumps(calibration.tree(comparisons), indent=1))
    elif args.output == "configmap":
        _require_measurement(comparisons)
        print(edge.yaml_text(calibration.config_map(comparisons, args.namespace)), end="")
    elif comparisons:
        terminal.show(calibration.text(comparisons))
    if args.write:
        _require_measurement(comparisons)
        before = _before(args.write)
        args.write.parent.mkdir(parents=True, exist_ok=True)
        replacement.replace(args.write, calibration.facts(comparisons, before).encode())
    return code


def _compared(
    name: str, args: argparse.Namespace, manifest: JSON | None, policy: Policy, facts: Facts
) -> list[StartComparison]:
    """The starts of one input, each with its plan."""
    where, text, manifest, facts = _input(name, args, manifest, facts)
    starts = calibrate.read(text)
    if not starts:
        raise edge.UnusableError(
            f"{where}: nothing in it that vLLM prints of its memory, such as 'Available KV cache memory': a log from "
            "its start is needed",
            3,
        )
    return [
        calibrate.compare(where, start, _engine(where, start, manifest, args.container, policy, facts))
        for start in starts
    ]


def _engine(
    text: str, start: Start, manifest: JSON | None, container: str | None, policy: Policy, facts: Facts
) -> Engine:
    """The engine that started: the manifest's, else the one whose arguments the log lists. Of several in the manifest,
    the one with the log's model, else the first. An image without a release gets the log's. `text`: the input's name.
    Raises UnusableError if neither describes an engine."""
    if manifest is None:
        from podfit.report.command_line import judged_as

        argv = calibrate.argv(start)
        if argv is None:
            raise edge.UnusableError(
                f"{text}:{start.line}: the log does not list vLLM's arguments: --manifest FILE gives the Pod", 3
            )
        tp = (start.given or {}).get("tensor_parallel_size")
        if facts.gpu is not None and facts.gpu.count is None and isinstance(tp, int):
            facts = replace(facts, gpu=replace(facts.gpu, count=tp))
        report = judged_as(argv, str(start.release) if start.release else None, facts, policy)
    else:
        report = lint(manifest, policy, facts, where="check")
    engines: list[Engine] = [
        result.engine for result in report.results if container in (None, result.engine.container.name)
    ]
    if not engines:
        what = f"no container {container!r} that runs vLLM" if container else "no container that runs vLLM"
        raise edge.UnusableError(f"{text}: {what} in the manifest", 3)
    named = [candidate for candidate in engines if start.model and candidate.args.model == start.model]
    engine = (named or engines)[0]
    if engine.release is None and start.release is not None:  # the image's tag does not name the release, the log does
        container_of = engine.container.spec
        image = f"vllm/vllm-openai:v{start.release}"
        changed = _with_image(manifest, container_of.get("image"), image) if manifest is not None else None
        if changed is not None:
            return _engine(text, start, changed, container, policy, facts)
    return engine


def _with_image(manifest: JSON, old: object, new: str) -> JSON | None:
    """The manifest with an image whose tag says the release; None if there is nothing to replace."""
    if not isinstance(old, str) or not old:
        return None
    text = json.dumps(manifest).replace(json.dumps(old), json.dumps(new))
    changed: JSON = json.loads(text)
    return changed


def _input(
    name: str, args: argparse.Namespace, manifest: JSON | None, facts: Facts
) -> tuple[str, str, JSON | None, Facts]:
    """(what it is called, the log, the manifest, the facts) of a file, standard input or a Pod."""
    path = Path(name)
    if name == "-":
        return "<stdin>", edge.log_text(sys.stdin.buffer.read(MAX_INPUT_BYTES)), manifest, facts
    if path.exists() or name.endswith(_FILE_ENDS) or (match := _POD.fullmatch(name)) is None:
        return name, _read(path), manifest, facts
    return _live(match["kind"] or "pod", match["name"], args, facts)


def _read(path: Path) -> str:
    """The text of a log, at most its first MAX_INPUT_BYTES; raises UnusableError (exit 3) if it can't be read."""
    try:
        with path.open("rb") as file:
            return edge.log_text(file.read(MAX_INPUT_BYTES))
    except OSError as error:
        raise edge.UnusableError(f"{path}: {(error.strerror or 'unreadable').lower()}", 3) from error


def _before(path: Path) -> list[dict[str, Any]]:
    """The rows that a file already has; raises UnusableError if podfit did not write the file."""
    if not path.exists():
        return []
    text = edge.read_text(path)
    _, errors = measured.read(text, str(path))
    if errors:
        raise edge.UnusableError(errors, 3)
    rows: list[dict[str, Any]] = json.loads(text)["measured"]
    return rows


def _require_measurement(comparisons: list[StartComparison]) -> None:
    """Raises UnusableError with the reason, if no start can be saved."""
    if not any(comparison.measured_row() for comparison in comparisons):
        raise edge.UnusableError(
            [f"{comparison.source}: not written down: {comparison.problem}" for comparison in comparisons]
            or "nothing was read",
            3,
        )


# ── A live Pod ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _live(kind: str, name: str, args: argparse.Namespace, facts: Facts) -> tuple[str, str, JSON, Facts]:
    """The log, the Pod and its node's GPU, asked of the cluster."""
    from podfit.cluster import objects

    product = None
    with user_cluster.client(args) as client, user_cluster.errors_reported(f"{kind}/{name}"):
        pod = objects.get(client, kind, name, args.namespace)
        if pod.get("kind") != "Pod":
            pod = max(objects.pods(client, pod), key=objects.is_ready)
        container = args.container or [*_containers(pod), pod["spec"]["containers"][0]["name"]][0]
        log = objects.log(client, pod, container, MAX_INPUT_BYTES)
        if facts.gpu is None and (node := pod["spec"].get("nodeName")):
            labels = objects.get(client, "node", str(node))["metadata"].get("labels") or {}
            product = labels.get(PRODUCT)
    own = str(pod["metadata"]["name"])
    if isinstance(product, str) and gpu.by_name(product):
        facts = replace(facts, gpu=gpu.parse(product))
    return f"pod/{own}", log, pod, facts


def _containers(pod: JSON) -> list[str]:
    """The containers that run vLLM; all of them if no spec shows vLLM."""
    from podfit.evaluation.policy import builtin

    return [result.engine.container.name for result in lint(pod, builtin(), Facts(), where="check").results]
