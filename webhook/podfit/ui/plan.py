"""The tab Plan: one vLLM command line on one GPU → ledgers, results, findings, and where each control stops fitting."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from podfit import generate
from podfit.base.secret import Secrets
from podfit.evaluation.denial import LEVELS
from podfit.evaluation.lint import GradedFinding, Report, Result
from podfit.evaluation.policy import Policy
from podfit.kube.quantity import human
from podfit.report import explained
from podfit.report import json as as_json
from podfit.report.command_line import is_spoken_of, judged_as
from podfit.report.explained import Bar, Chart
from podfit.report.needs import Serving
from podfit.report.text import reason, verdict
from podfit.rules.engine import Engine
from podfit.ui import users as of_users
from podfit.ui.gpus import grid, sides
from podfit.ui.question import QuestionError, field_text
from podfit.ui.sliders import SEQUENCES, SLIDERS, slider
from podfit.vllm import gpu, release
from podfit.vllm.facts import Facts
from podfit.vllm.memory.needs import RESOURCE
from podfit.vllm.model import given, nearest
from podfit.vllm.release import newest_read

VALUES = ("max_model_len", "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "tensor_parallel_size",
          "dtype", "kv_cache_dtype", "quantization")  # fmt: skip
"""vLLM's arguments with a control of their own, by their dest."""
FIELDS = frozenset({"model", "release", "gpu", "gpus", "users", "config", "enforce_eager", "other", *VALUES})
"""The fields of a question."""
OF_A_WAY = frozenset({"max_model_len", "max_num_seqs", "tensor_parallel_size"})
"""Arguments that each way to hold the users sets itself."""
MAX_GPUS = 1024
"""GPUs of one configuration."""
MAX_USERS = 100_000
"""Users of one configuration."""


def answer(obj: Mapping[str, Any], policy: Policy, facts: Facts) -> dict[str, Any]:
    """The answer for one configuration; raises QuestionError for a control that can't be used."""
    report, result = _planned_result(obj, policy, _given(obj, facts))
    tree = _tree(command(obj), report, result)
    users = _whole_number(obj, "users", MAX_USERS)
    held = of_users.held(result.engine, users) if users and tree["state"] != "does-not-fit" else None
    return {**tree, "users": held}


def ways(obj: Mapping[str, Any], policy: Policy, facts: Facts) -> dict[str, Any]:
    """The ways to hold the users of the same question. They are an answer of their own, since they take longer."""
    facts = _given(obj, facts)
    report, result = _planned_result(obj, policy, facts)
    without_own = {**obj, "gpus": "1", "users": "", **dict.fromkeys(OF_A_WAY, "")}
    _vllm, _serve, _model, *arguments = command(without_own)
    serving = Serving(
        model=field_text(obj, "model"),
        arguments=tuple(arguments),
        context=None,
        users=_whole_number(obj, "users", MAX_USERS),
        version=field_text(obj, "release") or str(newest_read()),
    )
    return of_users.ways(result.engine, serving, facts, policy, report.secrets)


def _planned_result(obj: Mapping[str, Any], policy: Policy, facts: Facts) -> tuple[Report, Result]:
    """The report of the command line and its one result; raises QuestionError."""
    argv, version = command(obj), field_text(obj, "release")
    if version and release.parse(version) is None:
        raise QuestionError("release", f"{version!r} is not a version such as 0.27.1")
    unnamed = None if facts.gpu else (RESOURCE, _count(obj))
    report = judged_as(argv, version or None, facts, policy, resource=unnamed)
    if not report.results:
        problem = report.errors[0].error if report.errors else "vLLM does not start with these arguments"
        raise QuestionError("other", problem)
    (result,) = report.results
    return report, result


def command(obj: Mapping[str, Any]) -> list[str]:
    """The words of `vllm serve MODEL …`: the fields that are set, as flags. Without a value of their own, the tensor
    parallel size is the number of GPUs, and the sequences are the users, up to the slider's last stop. Raises
    QuestionError."""
    model = field_text(obj, "model")
    if not model:
        raise QuestionError("model", "Name a model, such as Qwen/Qwen3-14B.")
    if model.startswith("-") or any(letter.isspace() for letter in model):
        raise QuestionError("model", f"{model!r} is not a model's id or path")
    argv = ["vllm", "serve", model]
    count, users = _count(obj), _whole_number(obj, "users", MAX_USERS)
    for dest in VALUES:
        value = field_text(obj, dest)
        if dest == "tensor_parallel_size" and not value and count > 1:
            value = str(count)
        if dest == "max_num_seqs" and not value and users:
            value = str(min(users, SEQUENCES[-1]))
        if value:
            argv += [f"--{dest.replace('_', '-')}", value]
    if obj.get("enforce_eager") is True:
        argv.append("--enforce-eager")
    try:
        return argv + shlex.split(field_text(obj, "other"))
    except ValueError as error:
        raise QuestionError("other", f"not a command line: {str(error).lower()}") from error


def _count(obj: Mapping[str, Any]) -> int:
    """The number of GPUs; one if the field is empty."""
    return _whole_number(obj, "gpus", MAX_GPUS) or 1


def _whole_number(obj: Mapping[str, Any], field: str, most: int) -> int | None:
    """The whole number of a field; None if it is empty. Raises QuestionError."""
    value = field_text(obj, field)
    if not value:
        return None
    # Nine digits are more than any limit: `int` of a long text takes quadratic time.
    if not (value.isascii() and value.isdigit() and 0 < int(value[:9]) <= most):
        raise QuestionError(field, f"{value!r} is not a whole number from 1 to {most:,}")
    return int(value)


def _given(obj: Mapping[str, Any], facts: Facts) -> Facts:
    """The facts with the GPU and the config.json of the question."""
    name, count, config = field_text(obj, "gpu"), _count(obj), field_text(obj, "config")
    if name:
        try:
            facts = replace(facts, gpu=gpu.parse(f"{name}:{count}"))
        except ValueError as error:
            raise QuestionError("gpu", str(error)) from error
    elif facts.gpu is not None:
        facts = replace(facts, gpu=replace(facts.gpu, count=count))
    if config:
        models, errors = given.read({given.CONFIG: config}, "pasted", ("*",))
        if errors:
            raise QuestionError("config", errors[0].removeprefix("pasted: "))
        facts = replace(facts, models={"*": replace(models["*"], source="pasted config.json")})
    return facts


def _tree(argv: Sequence[str], report: Report, result: Result) -> dict[str, Any]:
    """The answer for the page: state, charts, changes, findings, sliders, and the manifest of this command."""
    engine, secrets = result.engine, report.secrets
    explanation = explained.explain(report, result)
    findings = [finding for finding in result.findings if is_spoken_of(finding) and finding.is_reported]
    findings.sort(key=lambda finding: list(LEVELS).index(finding.level))
    denied = next((finding for finding in findings if finding.mode == "deny"), None)
    plan = engine.plan
    headline, why = verdict(engine), secrets.line(reason(engine))
    if denied and plan.verdict != "does-not-fit":  # else the arithmetic says more
        headline, why = "does not start", denied.finding.message
    manifest = _manifest(engine)
    return {
        "state": "does-not-fit" if denied else plan.verdict,
        "headline": headline,
        "why": why,
        "charts": [chart(ledger_chart) for ledger_chart in explanation.charts],
        "tiles": tiles(engine),
        "room": _room(engine),
        "changes": list(explanation.changes),
        "findings": [{**as_json.finding(report, finding), "field": _field(finding)} for finding in findings],
        "hints": _hints(engine, secrets),
        "sliders": {dest: slider(engine, dest) for dest in SLIDERS},
        "gpus": grid(engine),
        "sides": sides(engine),
        "command": shlex.join(argv),
        "manifest": manifest.text,
        "manifest_missing": secrets.line(manifest.missing),
    }


def _room(engine: Engine) -> str:
    """How many requests the KV cache holds; "" if that is unknown."""
    ledger = engine.plan.gpu
    if ledger is None or ledger.max_concurrency is None or not ledger.max_model_len:
        return ""
    return f"{ledger.max_concurrency:.2f}× {ledger.max_model_len:,} tokens at once"


def chart(chart: Chart) -> dict[str, Any]:
    """A waterfall as plain JSON values; sizes in bytes, with their texts. `scale`: the bytes of its whole width, in
    which the whiskers have room, too."""
    bars = [_bar(bar) for bar in chart.bars]
    return {
        "memory": chart.title.split()[0],  # "GPU" or "host"
        "title": chart.title,
        "scale": max([chart.scale, *(bar["to"] or 0 for bar in bars)]),
        "bars": bars,
    }


def _bar(bar: Bar) -> dict[str, Any]:
    """One bar. `from` and `to`: the ends of its whisker, None if it is exact."""
    low = high = None
    if bar.line is not None and bar.line.low != bar.line.high:
        end = bar.start + bar.size
        low, high = bar.start + bar.line.low, bar.start + bar.line.high
        if bar.kind == "left":  # it ends where the budget ends
            low, high = end - bar.line.high, end - bar.line.low
    return {
        "name": bar.name,
        "kind": bar.kind,
        "start": bar.start,
        "size": bar.size,
        "text": human(bar.size),
        "from": None if low is None else max(0, low),
        "to": high,
        "interval": bar.interval,
        "note": bar.note,
        "source": bar.line.source if bar.line else "",
    }


def tiles(engine: Engine) -> list[dict[str, str]]:
    """The results of the plan for people, each with name, value and range. A result that is unknown is left out."""
    ledger, startup = engine.plan.gpu, engine.plan.startup
    items = []
    if ledger is not None and ledger.kv_cache_tokens:
        low, likely, high = ledger.kv_cache_tokens
        items.append(("KV cache", f"{likely:,} tokens", f"{low:,} … {high:,}"))
    if ledger is not None and ledger.max_concurrency is not None and ledger.max_model_len:
        each = f"requests of {ledger.max_model_len:,} tokens"
        items.append(("Maximum concurrency", f"{ledger.max_concurrency:.2f}×", each))
    if ledger is not None and ledger.longest_request:
        most = f"model's limit: {ledger.model_length:,}" if ledger.model_length else ""
        items.append(("Longest request", f"{ledger.longest_request:,} tokens", most))
    if startup is not None:
        items.append(("Start-up", f"{startup.likely:.0f} s", f"{startup.low:.0f} … {startup.high:.0f} s"))
    return [{"name": name, "value": value, "range": span} for name, value, span in items]


def _field(finding: GradedFinding) -> str | None:
    """The control that a finding is about: that of the first flag in its message; None if it names none of them."""
    message = finding.finding.message
    dest_by_index = {message.find(f"--{dest.replace('_', '-')}"): dest for dest in (*VALUES, "enforce_eager")}
    first = min((index for index in dest_by_index if index >= 0), default=None)  # `find` gives -1 if it is absent
    return None if first is None else dest_by_index[first]


def _hints(engine: Engine, secrets: Secrets) -> dict[str, Any]:
    """Notes on the model and the GPU, for display next to their controls; `wrong` marks a name that is not known."""
    if engine.model is None:
        name = engine.args.model or ""
        near = nearest(name)
        means = f"Did you mean {' or '.join(near)}?" if near else "Paste its config.json below."
        model = {"text": f"unknown model {secrets.line(name)!r}. {means}", "wrong": True}
    else:
        fact = engine.model
        size = f"{fact.value.parameters / 1e9:.1f} B parameters, " if fact.value.parameters else ""
        model = {"text": secrets.line(f"{size}{fact.source}"), "wrong": False}
    accelerator = engine.gpu.value if engine.gpu else None
    if accelerator is None:
        return {"model": model, "gpu": {"text": "No GPU is named: the answer is for each GPU.", "wrong": False}}
    memory = min((product.memory for product in accelerator.gpus), default=0)  # of the smallest that it may be
    gpu_text = f"{accelerator.name}, {human(memory)}" if memory else accelerator.name
    return {"model": model, "gpu": {"text": secrets.line(gpu_text), "wrong": False}}


class _Manifest(NamedTuple):
    """The manifest to copy."""

    text: str | None
    """None if it can't be made."""
    missing: str = ""
    """The reason for that."""


def _manifest(engine: Engine) -> _Manifest:
    """The manifest that runs this engine, or what it lacks."""
    try:
        return _Manifest(generate.render("yaml", engine))
    except ValueError as error:
        return _Manifest(None, str(error))
