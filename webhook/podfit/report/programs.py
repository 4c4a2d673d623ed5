"""`from podfit import plan, check`: the answers of the command line for other programs, without input and output."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from json import dumps
from typing import Any, Literal

from podfit.base.printable import shortened
from podfit.base.secret import FORMS
from podfit.evaluation import subject
from podfit.evaluation.lint import GradedFinding, Report, Result
from podfit.evaluation.policy import Policy, PolicyError, builtin, load
from podfit.kube import manifest
from podfit.kube.companions import Companions
from podfit.kube.everywhere import Everywhere, PlacedObject
from podfit.report import command_line, files
from podfit.report import plan as as_plan
from podfit.report.files import ManifestFile
from podfit.rules.rule import Level
from podfit.vllm import gpu as gpus
from podfit.vllm import release
from podfit.vllm.facts import Facts
from podfit.vllm.model import given
from podfit.vllm.release import newest_read

Verdict = Literal["fits", "unsure", "does-not-fit"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something wrong at one field."""

    rule: str
    """The rule's id, such as "kv-cache-too-small"."""
    level: Level
    """"denied" if the policy denies it, "likely" if the container more probably fails than not, else "advice"."""
    path: str
    """The field, as Kubernetes writes it."""
    message: str
    suggestions: tuple[str, ...] = ()
    """Changes, each enough by itself."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The memory of one vLLM engine."""

    verdict: Verdict
    """GPU memory at start-up; "unsure" too if the model or the GPU is not known."""
    why: str
    """The arithmetic in one line."""
    findings: tuple[Finding, ...] = ()
    json: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All of it, as `podfit plan --format json` prints it (docs/schemas/plan.json); sizes are bytes."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One vLLM container of a manifest."""

    object: str
    """Kind, namespace and name."""
    container: str
    denied: bool
    plan: Plan
    findings: tuple[Finding, ...] = ()


def plan(
    command: str | Sequence[str],
    *,
    gpu: str | None = None,
    vllm_version: str | None = None,
    model_config: Mapping[str, Any] | None = None,
) -> Plan:
    """Plan one command line, such as "vllm serve Qwen/Qwen3-8B --max-model-len 16k".

    `gpu`: NAME[:COUNT], as `--gpu`. `vllm_version`: such as "0.27.1"; the newest that podfit knows by default.
    `model_config`: the model's config.json, for a model that podfit does not know. Raises ValueError for a command that
    does not start vLLM, an unknown GPU, or an unusable version or config; its text has no secret of the command.
    """
    if vllm_version is not None and release.parse(vllm_version) is None:
        raise ValueError(f"vllm_version {vllm_version!r}: not a version such as 0.27.1")
    facts = _facts(gpu)
    if model_config is not None:
        taught, errors = given.read({given.CONFIG: _text(model_config)}, "model_config", ("*",))
        if errors:
            raise ValueError("; ".join(errors))
        facts = replace(facts, models={"*": taught["*"]})
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if not words:
        raise ValueError("the command is empty")
    report = command_line.judged_as(words, vllm_version or str(newest_read()), facts, builtin())
    if not report.results:
        begun = shortened(FORMS.line(" ".join(words[:4])))
        raise ValueError(f"{begun} …: not a command that starts vLLM")
    (result,) = report.results
    findings = [finding for finding in result.findings if command_line.is_spoken_of(finding)]
    return _plan(command_line.tree(report), findings)


def check(
    manifests: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    gpu: str | None = None,
    policy: str | None = None,
) -> list[Check]:
    """Check every vLLM container of manifests: YAML or JSON as text, one object, or several that know each other.

    `gpu`: NAME[:COUNT] where a manifest names none. `policy`: the YAML of a Policy. Raises ValueError for a text that
    can't be read or has no object (the path of a file, a template of Helm), an unknown GPU, or an invalid policy.
    """
    text = manifests if isinstance(manifests, str) else "\n---\n".join(map(_text, _as_sequence(manifests)))
    read = manifest.read(text.encode(), "manifests")
    unread = [*read.errors, *(note for note in read.notes if note.skips in ("not-an-object", "helm-template"))]
    if unread:
        raise ValueError("; ".join(FORMS.line(str(reason)) for reason in unread))
    objects = tuple(document.object for document in read.documents)
    around = Everywhere([PlacedObject("manifests", "", obj) for obj in objects]).snapshot
    companions = Companions(objects, around=around)
    facts = replace(_facts(gpu), companions=companions, config_maps=companions.config_maps)
    checked_file = files.check(ManifestFile("manifests", read, facts), _policy(policy))
    if checked_file.problems:
        raise ValueError("; ".join(map(str, checked_file.problems)))
    return [_check(container.report, container.result) for container in checked_file.containers]


def _as_sequence(manifests: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return [manifests] if isinstance(manifests, Mapping) else manifests


def _text(value: Any) -> str:
    """The value as JSON. Raises ValueError for what JSON does not have, such as the dates of `yaml.safe_load`."""
    try:
        return dumps(value)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _facts(gpu: str | None) -> Facts:
    return Facts(gpu=gpus.parse(gpu) if gpu else None, plans_table=True)


def _policy(text: str | None) -> Policy:
    """The policy in the YAML text, the built-in one for None; raises ValueError with its problems."""
    if text is None:
        return builtin()
    try:
        return load([("policy", text)])
    except PolicyError as error:
        raise ValueError("; ".join(map(str, error.problems))) from error


def _check(report: Report, result: Result) -> Check:
    """The decision, plan and reported findings of one container."""
    findings = [finding for finding in result.findings if finding.is_reported]
    planned = _plan(as_plan.tree(result.engine, report.secrets), findings)
    return Check(
        object=subject.describe_object(report.object),
        container=result.engine.container.name,
        denied=result.denied,
        plan=planned,
        findings=planned.findings,
    )


def _plan(tree: Mapping[str, Any], findings: Sequence[GradedFinding]) -> Plan:
    return Plan(verdict=tree["verdict"], why=tree["why"], findings=tuple(map(_finding, findings)), json=tree)


def _finding(finding: GradedFinding) -> Finding:
    """The public form of a finding."""
    return Finding(
        rule=finding.rule,
        level=finding.level,
        path=str(finding.finding.path),
        message=finding.finding.message,
        suggestions=finding.suggestions,
    )
