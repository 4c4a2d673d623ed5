"""`podfit plan --batch`: command lines as JSON lines, each answered in a line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from podfit.base.lazy import regex
from podfit.base.quotable import Quotable
from podfit.cli.support import edge, terminal
from podfit.evaluation.policy import Policy
from podfit.report import command_line
from podfit.report import plan as as_plan
from podfit.rules.engine import Engine
from podfit.vllm import release
from podfit.vllm.facts import Facts, GivenModel
from podfit.vllm.gpu import Accelerator
from podfit.vllm.model import given


def run(name: str, policy: Policy, facts: Facts) -> int:
    """Read JSON lines and print one JSON line for each, in order; a bad line is answered with its error. `facts` says
    whether secrets are shown."""
    for line in _lines(name):
        terminal.write(json.dumps(_line(line, policy, facts), default=str))
    return 0


def _lines(name: str) -> Iterator[str]:
    """The lines of a file, or of standard input (`-`) as they come, without blank ones."""
    lines = sys.stdin if name == "-" else edge.read_text(Path(name)).splitlines()
    yield from (line for line in lines if line.strip())


def _line(line: str, policy: Policy, facts: Facts) -> dict[str, Any]:
    """The answer to one line of JSON, with `error` if it is not a case."""
    try:
        case = json.loads(line)
    except ValueError as error:
        return {"id": None, "error": f"not JSON: {error}"}
    return answer(case, policy, facts) if isinstance(case, dict) else {"id": None, "error": "not an object"}


def answer(case: Mapping[str, Any], policy: Policy, known: Facts | None = None) -> dict[str, Any]:
    """The answer to one object of a batch as JSON values: its `id` with the plan, or with an `error`. `known`: its
    `show_secrets` applies, all other facts are the object's."""
    show = known is not None and known.show_secrets
    try:
        resource = _resource(case.get("gpu"))
        facts = replace(_facts(case), show_secrets=show, plans_table=resource is not None)
        report = command_line.judged_as(_argv(case), _version(case), facts, policy, resource=resource)
    except edge.UnusableError as error:
        return {"id": case.get("id"), "error": error.lines[0]}
    if not report.results:
        problem = report.errors[0].error if report.errors else "not a command that starts vLLM"
        return {"id": case.get("id"), "error": problem}
    own = replace(report.secrets, make_quotable=Quotable)  # all of the command line is the caller's, except for secrets
    entries = command_line.tree(replace(report, secrets=own))
    if resource is not None:
        entries["gpus"] = as_plan.partition(report.results[0].engine, one_release=False)
    entries["engine"] = _with_short_values(entries["engine"], report.results[0].engine)
    return {"id": case.get("id"), **entries}


SHORTEST_SECRET = 12
"""Characters. A batch compares readings of command lines, whose keys are placeholders ("abc"): in its `arguments` a
shorter value is not masked. Keys that services issue are longer (a Hugging Face token has 37)."""


def _with_short_values(engine: Mapping[str, Any], read: Engine) -> dict[str, Any]:
    """The answer's `engine` with the values of `arguments` that are too short to be a secret as in the command line.
    `read`: the engine of that command line."""
    written = {**read.args.given, **read.args.written}
    arguments = {name: _unmask_short(item, written[name]) for name, item in engine["arguments"].items()}
    masked = [name for name in engine["masked"] if arguments[name] != written[name]]
    return {**engine, "arguments": arguments, "masked": masked}


def _unmask_short(value: Any, given: Any) -> Any:
    """A text shorter than SHORTEST_SECRET as `given`, all else as the masked `value`; in a list item by item."""
    if isinstance(given, list | tuple):
        return [_unmask_short(*pair) for pair in zip(value, given, strict=True)]
    return given if isinstance(given, str) and len(given) < SHORTEST_SECRET else value


def engine_of(case: Mapping[str, Any], policy: Policy) -> Engine | None:
    """The engine of one object of a batch; None if its command line starts none."""
    report = command_line.judged_as(_argv(case), _version(case), _facts(case), policy)
    return report.results[0].engine if report.results else None


def _argv(case: Mapping[str, Any]) -> list[str]:
    """The case's command line; raises UnusableError if it is not a list of strings with at least one."""
    argv = case.get("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise edge.UnusableError("argv: expected a list of strings")
    return argv


def _version(case: Mapping[str, Any]) -> str | None:
    """The case's release of vLLM; None, or empty, if it sets none. Raises UnusableError."""
    version = case.get("vllm_version")
    if version is None or version == "":
        return version
    if not isinstance(version, str) or release.parse(version) is None:
        raise edge.UnusableError(f'vllm_version: {version!r} is not a version such as "0.27.1"')
    return version


def _facts(case: Mapping[str, Any]) -> Facts:
    """The facts with the GPU, memory and model of a case; "*" is the model of every name."""
    config = case.get("model_config")
    models = {}
    if isinstance(config, dict):
        models["*"] = GivenModel(config, "config.json handed in", given.count_weights(config, {}))
    return Facts(
        gpu=_accelerator(case.get("gpu")),
        gpu_memory=_bytes(case, "gpu_memory_bytes"),
        kv_cache_memory=_bytes(case, "kv_cache_memory_bytes"),
        models=models,
        weights_bytes=_bytes(case, "weights_bytes"),
    )


def _bytes(case: Mapping[str, Any], key: str) -> int | None:
    """The number of bytes in a field; None if it is missing or not a whole number."""
    value = case.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_RESOURCE = regex(r"([a-z0-9.-]+\.[a-z]+/[\w.-]+):([1-9]\d{0,3})")
"""A resource and a count ("nvidia.com/gpu:8"): planned for every GPU of the table."""


def _resource(text: Any) -> tuple[str, int] | None:
    """(resource, count) of the devices that a case requests without a name of a GPU; None if it requests none."""
    match = _RESOURCE.fullmatch(text) if isinstance(text, str) else None
    return (match[1], int(match[2])) if match else None


def _accelerator(name: Any) -> Accelerator | None:
    """The GPU named; an unknown name is unknown, not an error: the memory given may still decide."""
    try:
        return edge.accelerator(name) if isinstance(name, str) else None
    except edge.UnusableError:
        return None
