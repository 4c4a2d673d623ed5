"""Diagnosis → the JSON that `podfit diagnose --format json` promises, and text for people."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.base.printable import clean, one_line, shortened
from webhook.base.secret import FORMS, Secrets
from webhook.diagnose import Diagnosis
from webhook.evaluation import denial, subject
from webhook.evaluation.lint import Report, lint
from webhook.evaluation.policy import Policy
from webhook.evaluation.repair import repair
from webhook.kube.workload import JSON
from webhook.report import plan
from webhook.report.json import finding
from webhook.report.json import patch as patch_of
from webhook.rules import all_rules
from webhook.vllm.facts import Facts


@dataclass(frozen=True)
class Case:
    """A diagnosis beside the Pod it is about."""

    file: str
    diagnosis: Diagnosis
    report: Report | None
    """The Pod or its workload, judged; None where none is known."""
    patch: list[dict[str, Any]] | None
    """What podfit would change in it; None where that would show a secret."""

    @property
    def secrets(self) -> Secrets:
        """Those of the Pod."""
        return self.report.secrets if self.report else FORMS

    @property
    def evidence(self) -> tuple[str, ...]:
        """The lines that say what it died of, with stars for secrets."""
        return tuple(clean(self.secrets.masked(line, quoted=True)) for line in self.diagnosis.evidence)

    @property
    def rule(self) -> str | None:
        """The rule that would have caught it: the one that finds it in the Pod, else the likeliest."""
        known = [rule for rule in self.diagnosis.rules if rule in all_rules()]
        found = {judged.rule for judged in self.report.findings} if self.report else set()
        return next((rule for rule in known if rule in found), next(iter(known), None))


def case(file: str, diagnosis: Diagnosis, pod: JSON | None, policy: Policy, facts: Facts) -> Case:
    """The diagnosis with the plan of `pod`, and of the object in the file itself where none is given."""
    shown = pod or diagnosis.pod
    if shown is None:
        return Case(file, diagnosis, None, [])
    report = lint(shown, policy, facts, where="check")
    edits = repair(shown, policy, facts).edits
    return Case(file, diagnosis, report if report.results else None, patch_of(report, edits))


def tree(one: Case) -> dict[str, Any]:
    """Plain JSON values."""
    found = one.diagnosis
    out: dict[str, Any] = {
        "file": one.file,
        "object": _object(one),
        "plane": found.plane,
        "cause": found.cause.id if found.cause else None,
        "evidence": list(one.evidence),
        "rule": one.rule if found.cause else None,
        "certainty": found.certainty,
        "line": found.line,
        "title": found.cause.title if found.cause else None,
        "remedy": found.remedy,
        "then": list(found.then),
    }
    if one.report is not None:
        report = one.report
        out["plans"] = [
            {"container": result.engine.container.name, **plan.tree(result.engine, report.secrets)}
            for result in report.results
        ]
        out["findings"] = [finding(report, judged) for judged in report.findings if judged.mode != "ignore"]
        out["patch"] = one.patch
    return out


def _object(one: Case) -> dict[str, Any] | None:
    """What the input says the Pod or workload is called."""
    found = one.diagnosis.pod
    if found is None:
        return None
    metadata = found.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    return {"kind": found.get("kind"), "namespace": named.get("namespace"), "name": named.get("name")}


def _where(one: Case) -> str:
    """ "pods.json: Pod chat/vllm-0", "crash.log:17"."""
    named = _object(one)
    if named is not None:
        place = "/".join(str(part) for part in (named["namespace"], named["name"]) if part)
        return one_line(f"{one.file}: {named['kind']} {place or '(no name)'}")
    return clean(f"{one.file}:{one.diagnosis.line}" if one.diagnosis.line else one.file)


def text(one: Case) -> str:
    """What people read: the cause, the lines that say so, what helps, the Pod's plan and the changes."""
    found = one.diagnosis
    if found.cause is None or found.plane is None:
        return _nothing(one)
    plane = f"[{denial.PLANES[found.plane]}]"
    sure = "" if found.certainty == "certain" else " (likely: only a symptom was seen)"
    out = [f"{_where(one)}: {found.cause.title}{sure}  {plane}", f"  cause     {found.cause.id}"]
    out += _evidence(one.evidence)
    if found.then:
        out += _labelled("then", "also seen: " + ", ".join(found.then))
    out += _labelled("help", found.remedy or "")
    if one.rule:
        out += _labelled("rule", _rule(one))
    return "\n".join([*out, *_pod(one)]) + "\n"


def _nothing(one: Case) -> str:
    found, where = one.diagnosis, _where(one)
    if not found.evidence:
        return f"{where}: no failure seen\n"
    said = "an error that podfit does not know" if found.line else "it ended, and nothing here says why"
    out = [f"{where}: {said}", *_evidence(one.evidence)]
    if any("137" in line for line in found.evidence):
        out += _labelled(
            "help",
            (
                "137 is SIGKILL: the kubelet's, after a probe failed, as well as the kernel's. See the Pod's "
                "Events (kubectl describe pod) and its last log (kubectl logs --previous)."
            ),
        )
    return "\n".join(out) + "\n"


def _evidence(lines: Sequence[str]) -> list[str]:
    out = []
    for index, line in enumerate(lines):
        shown = one_line(line)
        shown = shown if len(shown) <= 2 * denial.WIDTH else shown[: 2 * denial.WIDTH - 1] + "…"
        out += _labelled("evidence" if index == 0 else "", shown)
    return out


def _labelled(label: str, words: str) -> list[str]:
    return textwrap.wrap(
        words, denial.WIDTH, initial_indent=f"  {label:<10}", subsequent_indent=" " * 12,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _rule(one: Case) -> str:
    """What the rule says of the Pod, where it is known and says something."""
    judged = next((judged for judged in one.report.findings if judged.rule == one.rule), None) if one.report else None
    if judged is not None:
        return f"{one.rule} finds it in the manifest: {one_line(judged.finding.message)} ({judged.path})"
    if one.report is not None:
        return f"{one.rule} is about this, but finds nothing in this Pod (podfit explain {one.rule})"
    return f"{one.rule} would have caught it in the manifest (podfit explain {one.rule})"


def _pod(one: Case) -> list[str]:
    if one.report is None:
        return []
    out = []
    for result in one.report.results:
        name = subject.shown(result.engine.container.name)
        table = plan.table(result.engine, one.secrets)
        out += ["", f"plan of container '{name}' of {subject.describe_object(one.report.object)}"]
        out += textwrap.indent(table.rstrip(), "  ").splitlines()
        for judged in result.findings:
            if judged.mode in ("deny", "warn"):
                out += ["", textwrap.indent(denial.block(judged, f"{judged.mode}  "), "  ")]
    if one.patch:
        out += ["", "what `podfit fix` would change:", *(f"  {line}" for line in _changes(one))]
    return out


def _changes(one: Case) -> list[str]:
    """The patch as a person reads it: place and value."""
    from json import dumps

    return [
        f"{operation['op']:<8}{shortened(clean(operation['path']))}"
        + (f"  {shortened(clean(dumps(operation['value'], ensure_ascii=False)))}" if "value" in operation else "")
        for operation in one.patch or ()
    ]
