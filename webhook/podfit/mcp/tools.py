"""The tools: the arguments of each, its command line, and what an agent reads of the command's output."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from podfit.evaluation.denial import many
from podfit.report.rewrite import diff
from podfit.rules import all_rules

MAX_TEXT = 1 << 20
"""Characters of a manifest or a log that comes as text."""
MAX_WORDS = 1 << 16
"""Characters of every other argument."""
MAX_INPUT_BYTES = 8 << 20
"""Bytes of the files of one call."""
MAX_FILES = 500
"""Files of one call."""
MAX_OBJECTS = 1_000
"""Objects of one call: about 30 s on one core if each is a vLLM container."""
MAX_ANSWER_BYTES = 256 << 10
"""Bytes of one answer as JSON: more than an agent can use."""
PASTED = "manifest.yaml"
"""The file name of a text in its diff."""


class ToolError(ValueError):
    """A call that can't be answered; the message is for the agent."""


@dataclass(frozen=True)
class Answer:
    """The answer of a tool."""

    summary: str
    """One line in podfit's own words; nothing of the input is in it."""
    data: Mapping[str, Any]
    """Everything else. Texts in it may quote the input."""


@dataclass(frozen=True)
class CommandLine:
    """podfit's command line, as a tool uses it."""

    run: Callable[[Sequence[str]], int]
    """Run one command with the process's standard streams; the exit code."""
    files: Callable[[str], list[Path]]
    """The manifests in a folder, or the file itself. Raises ToolError."""


@dataclass(frozen=True)
class Output:
    """The output of a command."""

    code: int
    text: str
    """Standard output."""
    notes: Sequence[str]
    """The lines of standard error."""


Words = Annotated[str, Field(max_length=MAX_WORDS)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]


class Arguments(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(extra="forbid")


class Gpu(Arguments):
    """Arguments of every tool that plans."""

    gpu: Words = Field("", description="GPU where the manifest names none, NAME[:COUNT]: l4, h100:2")


class Manifest(Gpu):
    """A manifest: a path below the root, or a text."""

    path: Words = Field("", description="file or folder below the root")
    text: Text = Field("", description="the manifest itself, as YAML or JSON, instead of a path")


class CheckArguments(Manifest):
    """Arguments of `check`."""


class FixArguments(Manifest):
    """Arguments of `fix`."""


class PlanArguments(Gpu):
    """Arguments of `plan`."""

    model: Words = Field("", description="a model's id: which GPUs, and how many, does it need?")
    context: int = Field(0, ge=0, description="tokens of each request, with model")
    users: int = Field(0, ge=0, description="concurrent requests, with model")
    command: Words = Field("", description="instead of a model, one command line: vllm serve MODEL --max-model-len 16k")
    vllm_version: Words = Field("", description="such as 0.27.1; default: the newest that podfit knows")


class ExplainArguments(Manifest):
    """Arguments of `explain`."""

    rule: Words = Field("", description="a rule's id, instead of a manifest: its documentation")


class DiagnoseArguments(Gpu):
    """Arguments of `diagnose`."""

    path: Words = Field("", description="a log, events, or a Pod with its status: a file below the root")
    text: Text = Field("", description="the log itself instead of a path")
    manifest: Words = Field("", description="the Pod's or workload's manifest, a file below the root")


class ModelsArguments(Arguments):
    """Arguments of `models`."""

    search: Words = Field("", description="words that the id has, such as: qwen3 coder")
    show: Words = Field("", description="instead, an id: what is known of the model, with sources")


def check(check_arguments: CheckArguments, podfit: CommandLine) -> Answer:
    """Check manifests as the webhook does: will each vLLM container start and stay up? Findings are `denied`, `likely`
    (more probably fails than not) or `advice`, each with a message and suggestions, of which one is enough."""
    output, tree = _json(
        podfit,
        ["check", "--format", "json", *_options(check_arguments), "--", _input(check_arguments, podfit)],
        check_arguments.text,
    )
    containers = [
        {
            "file": row["file"],
            "object": row["object"],
            "container": row["container"],
            "path": row["path"],
            "denied": row["denied"],
            "verdict": row["plan"]["verdict"],
            "findings": [
                {name: finding[name] for name in ("rule", "level", "path", "line", "message", "suggestions")}
                | {"fix_repairs": finding["fix"] is not None}
                for finding in row["findings"]
            ],
        }
        for row in tree["results"]
    ]
    counts = tree["summary"]
    text = ", ".join(f"{counts[level]} {level}" for level in ("denied", "likely", "advice"))
    rules = Counter(item["rule"] for row in containers for item in row["findings"] if item["level"] != "advice")
    named = f": {', '.join(rules)}" if rules else ""
    summary = f"{many(counts['containers'], 'vLLM container')}; findings: {text}{named}"
    skipped, errors = tree["skipped"], tree["errors"]
    return Answer(summary, {"containers": containers, "skipped": skipped, "errors": errors, **_notes(output)})


def fix(fix_arguments: FixArguments, podfit: CommandLine) -> Answer:
    """The repairs that have one answer, as a diff. Nothing is written: apply the diff yourself. To apply, it has the
    lines of the manifest as they are, secrets included."""
    output = _run(podfit, ["fix", *_options(fix_arguments), "--", _input(fix_arguments, podfit)], fix_arguments.text)
    changes = diff(fix_arguments.text, output.text, PASTED) if fix_arguments.text else output.text
    repaired = sum(": would repair: " in line or ": repaired: " in line for line in output.notes)
    return Answer(many(repaired, "repair"), {"diff": changes, **_notes(output)})


def plan(plan_arguments: PlanArguments, podfit: CommandLine) -> Answer:
    """Find the GPUs that a model needs for a number of users, or plan the GPU and host memory of one vLLM command."""
    if bool(plan_arguments.model) == bool(plan_arguments.command):
        raise ToolError("give either model or command")
    options = [
        *_options(plan_arguments),
        *(["--vllm-version", plan_arguments.vllm_version] if plan_arguments.vllm_version else []),
    ]
    for name in ("context", "users"):
        if value := getattr(plan_arguments, name):
            options += [f"--{name}", str(value)]
    try:
        words = [plan_arguments.model] if plan_arguments.model else shlex.split(plan_arguments.command)
    except ValueError as error:
        raise ToolError(f"command: {str(error).lower()}") from error
    output, tree = _json(podfit, ["plan", "--format", "json", *options, "--", *words])
    verdict = tree.get("verdict")
    return Answer(
        f"verdict: {verdict}" if verdict else "a list of offers, best first", {"plan": tree, **_notes(output)}
    )


def explain(explain_arguments: ExplainArguments, podfit: CommandLine) -> Answer:
    """A manifest's GPU and host memory line by line with the source of each number; or a rule's documentation."""
    if explain_arguments.rule:
        output, tree = _json(podfit, ["explain", "--format", "json", "--", _rule(explain_arguments.rule)])
    else:
        options = ["explain", "--format", "json", *_options(explain_arguments), "--", _input(explain_arguments, podfit)]
        output, tree = _json(podfit, options, explain_arguments.text)
    return Answer("the explanation", {"explanation": tree, **_notes(output)})


def diagnose(diagnose_arguments: DiagnoseArguments, podfit: CommandLine) -> Answer:
    """Why a vLLM Pod failed, from its log, events or status: the first cause, the evidence, and the remedy."""
    manifest = ["--manifest", _path(podfit, diagnose_arguments.manifest)] if diagnose_arguments.manifest else []
    options = [
        "diagnose",
        "--format",
        "json",
        *_options(diagnose_arguments),
        *manifest,
        "--",
        _input(diagnose_arguments, podfit),
    ]
    output, tree = _json(podfit, options, diagnose_arguments.text)
    causes = [row.get("cause") for row in tree.get("results", ())]
    return Answer(f"causes: {', '.join(filter(None, causes)) or 'none found'}", {"diagnosis": tree, **_notes(output)})


def models(models_arguments: ModelsArguments, podfit: CommandLine) -> Answer:
    """The models that podfit knows: search by words, or show one."""
    if bool(models_arguments.search) == bool(models_arguments.show):
        raise ToolError("give either search or show")
    words = (
        ["show", "--", models_arguments.show]
        if models_arguments.show
        else ["search", "--", *models_arguments.search.split()]
    )
    output, tree = _json(podfit, ["models", words[0], "--format", "json", *words[1:]])
    return Answer("what is known", {"models": tree, **_notes(output)})


Tool = Callable[[Any, CommandLine], Answer]
TOOLS: Mapping[str, tuple[Tool, type[Arguments]]] = {
    "check": (check, CheckArguments),
    "fix": (fix, FixArguments),
    "plan": (plan, PlanArguments),
    "explain": (explain, ExplainArguments),
    "diagnose": (diagnose, DiagnoseArguments),
    "models": (models, ModelsArguments),
}
"""Name → the function, whose docstring is the description, and its arguments."""


def _options(gpu: Gpu) -> list[str]:
    """The options that commands share: the GPU, and the root's own podfit.yaml."""
    return ["--config", ".", *(["--gpu", gpu.gpu] if gpu.gpu else [])]


def _input(arguments: Manifest | DiagnoseArguments, podfit: CommandLine) -> str:
    """The name that stands for the input on a command line. Raises ToolError."""
    if bool(arguments.path) == bool(arguments.text):
        raise ToolError("give either path or text")
    if arguments.path:
        return _path(podfit, arguments.path, is_log=not isinstance(arguments, Manifest))
    if isinstance(arguments, Manifest):
        _limit_objects("the text", count_objects(arguments.text))
    return "-"


def _path(podfit: CommandLine, name: str, *, is_log: bool = False) -> str:
    """A file or folder below the root, as a command takes it: never an option, an object of a cluster or standard
    input. Raises ToolError."""
    try:
        path = Path(name).resolve()
        if not path.is_relative_to(Path.cwd()):
            raise ToolError(f"{name!r} is outside the root")
        if not path.exists():
            raise ToolError(f"{name!r}: no such file or folder below the root")
        if not (path.is_file() or path.is_dir()):
            raise ToolError(f"{name!r}: neither a file nor a folder")
    except (OSError, ValueError, RuntimeError) as error:
        raise error if isinstance(error, ToolError) else ToolError(f"{name!r} is not a path") from error
    place = f"./{path.relative_to(Path.cwd())}"
    files = podfit.files(place)
    sizes = [file.stat().st_size for file in files]
    if len(sizes) > MAX_FILES or sum(sizes) > MAX_INPUT_BYTES:
        limit = f"{MAX_FILES} files and {MAX_INPUT_BYTES >> 20} MiB"
        raise ToolError(f"{name!r}: {len(sizes)} files of {sum(sizes):,} bytes, more than {limit}. Fix: name a part")
    if not is_log:
        _limit_objects(repr(name), sum(map(_objects_of, files)))
    return place


DOCUMENT, ITEMS = re.compile(r"^---", re.MULTILINE), re.compile(r"^( *)items:[ \t]*$", re.MULTILINE)
"""The beginning of a document, and of a list's items, in YAML."""


def _objects_of(file: Path) -> int:
    """Return the number of objects in a file; 0 if it can't be read, which the check itself reports."""
    try:
        return count_objects(file.read_text("utf-8", "replace"))
    except OSError:
        return 0


def count_objects(text: str) -> int:
    """An upper limit of the objects in a manifest: its documents, and the items of lists. It is not read as YAML."""
    count = len(DOCUMENT.findall(text)) + 1
    for items in ITEMS.finditer(text):
        count += len(re.findall(rf"^{items[1]}(?:  )?- ", text[items.end() :], re.MULTILINE))
        if count > MAX_OBJECTS:
            return count
    if re.search(r"items['\"]?\s*:\s*\[", text):
        try:
            value = json.loads(text).get("items")
            count += len(value) if isinstance(value, list) else 0
        except (ValueError, AttributeError, RecursionError):  # YAML with a list in brackets
            count += text.count("{")
    return count


def _limit_objects(what: str, count: int) -> None:
    """Raises ToolError if there are too many."""
    if count > MAX_OBJECTS:
        raise ToolError(f"{what} has {count:,} objects, more than {MAX_OBJECTS:,}. Fix: give a part")


def _rule(name: str) -> str:
    """A rule's id; a path would be a manifest. Raises ToolError."""
    if name not in all_rules():
        raise ToolError(f"no rule is called {name!r}")
    return name


def _run(podfit: CommandLine, argv: Sequence[str], text: str = "") -> Output:
    """Run a command of podfit in this process. Raises ToolError if it can't use its arguments."""
    string_io, stderr_text = io.StringIO(), io.StringIO()
    outer, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text.encode(errors="replace")), encoding="utf-8")
    try:
        with redirect_stdout(string_io), redirect_stderr(stderr_text):
            code = podfit.run(argv)
    except SystemExit as error:  # argparse
        code = error.code if isinstance(error.code, int) else 2
    finally:
        sys.stdin = outer
    notes = stderr_text.getvalue().splitlines()
    if code == 2 or (code == 3 and not string_io.getvalue()):
        raise ToolError("; ".join(line.removeprefix("error: ") for line in notes if not line.startswith("note: ")))
    return Output(code, string_io.getvalue(), notes)


def _json(podfit: CommandLine, argv: Sequence[str], text: str = "") -> tuple[Output, Any]:
    """Run a command; return its output and the JSON that it prints. Raises ToolError."""
    output = _run(podfit, argv, text)
    return output, json.loads(output.text or "{}")


def _notes(output: Output) -> dict[str, Any]:
    return {"notes": [*output.notes]}
