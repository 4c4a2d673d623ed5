"""Report → the JSON that `podfit check --format json` promises (docs/design.md, Interfaces)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from json import dumps
from typing import Any

from podfit.base.secret import FORMS
from podfit.evaluation import subject
from podfit.evaluation.denial import LEVELS
from podfit.evaluation.lint import GradedFinding, Report, Result
from podfit.kube.patch import Edit, json_patch
from podfit.report import answers, plan
from podfit.report.checked import Checked, CheckedContainer, Item, is_audited
from podfit.report.text import why_not_denied


def render(checked: Checked) -> str:
    """Everything that `podfit check` found. Secrets are stars, which `masked` marks. `fix` and `patch` are null if they
    would contain a secret, or lack a fix that does."""
    tree = {
        "summary": _summary(checked),
        "unanswered": answers.unanswered(entry.result.engine for entry in checked.containers),
        "newer_releases": answers.newer_releases(checked),
        "results": [_container(container, audit=checked.audit) for container in checked.containers],
        "skipped": [
            {"file": note.file, "line": note.line, "reason": note.skips, "message": FORMS.line(note.message)}
            for note in checked.skips
        ],
        "errors": [{"file": problem.file, "message": str(problem)} for problem in checked.problems],
    }
    return dumps(tree, indent=1, default=str) + "\n"


def _container(container: CheckedContainer, *, audit: bool) -> dict[str, Any]:
    """The result of one container, with the place of each finding in its file, and with what accepts it. `audit`: with
    the findings that the policy only audits, whose places are null."""
    tree = result(container.file, container.report, container.result)
    items = {id(item.finding): item for item in container.items}
    findings = _written(container.result)
    rows = []
    for finding, row in zip(findings, tree["findings"], strict=True):  # `result` writes a row for each of them
        item = items.get(id(finding))
        if item is not None:
            rows.append(row | _place_and_acceptance(item))
        elif audit:
            rows.append(row | {"line": None, "column": None, "not_denied": None, "accepted": None})
    tree["findings"] = tree["plan"]["findings"] = rows
    tree["masked"] = _masked(tree)
    tree["denied"] = container.state == "denied"
    return tree


def _place_and_acceptance(item: Item) -> dict[str, Any]:
    """Line and column (from 1), why it is not denied, and what accepts it; the last two are null if nothing does."""
    accepted = item.accepted
    return {
        "line": item.mark.line,
        "column": item.mark.column,
        "not_denied": why_not_denied(item),
        "accepted": {"by": accepted.by, "reason": accepted.reason} if accepted else None,
    }


def _written(result: Result) -> list[GradedFinding]:
    """The findings of a container that JSON has: all but those that the policy ignores."""
    return [finding for finding in result.findings if finding.mode != "ignore"]


def _summary(checked: Checked) -> dict[str, int]:
    """The counts of text's last line, and how many findings the policy only audits."""
    return {
        "files": len(checked.files),
        "containers": len(checked.containers),
        **{level: checked.count(level) for level in LEVELS},
        "would_deny": checked.headings["would_deny"],
        "repairable": checked.repairable,
        "accepted": len(checked.items) - len(checked.open),
        "audited": sum(
            is_audited(finding) for container in checked.containers for finding in container.result.findings
        ),
        "skipped": len({note.file for note in checked.skips}),
        "errors": len(checked.problems),
    }


def result(file: str, report: Report, result: Result) -> dict[str, Any]:
    """The result of one vLLM container as plain JSON values. `patch` is null if a secret keeps it, or a fix, back."""
    findings = [finding(report, graded) for graded in _written(result)]
    planned = plan.tree(result.engine, report.secrets)
    edits = [edit for graded in result.findings if _repaired(graded) for edit in graded.finding.fix]
    is_withheld = any(graded.withheld for graded in result.findings)
    changes = None if is_withheld else patch(report, edits)
    tree = {
        "file": file,
        "object": subject.object_reference(report.object),
        "container": result.engine.container.name,
        "path": str(result.engine.container.path),
        "plan": {**planned, "findings": findings},
        "findings": findings,
        "denied": result.denied,
        "patch": changes,
    }
    return {**tree, "masked": _masked(tree)}


def _masked(tree: Mapping[str, Any]) -> bool:
    """True if stars stand for secrets in a result, or if its patch is null for them."""
    masked_arguments: list[str] = tree["plan"]["engine"]["masked"]
    return tree["patch"] is None or bool(masked_arguments) or any(row["masked"] for row in tree["findings"])


def finding(report: Report, finding: GradedFinding) -> dict[str, Any]:
    """One finding as plain JSON values; one that the policy only audits has the level `audited`. `fix` is the JSON
    Patch that `podfit fix` applies for it; null if it applies none, or if the patch would show a secret."""
    fix = patch(report, finding.finding.fix) if _repaired(finding) else None
    is_fix_masked = _repaired(finding) and fix is None
    return {
        "rule": finding.rule,
        "level": "audited" if is_audited(finding) else finding.level,
        "mode": finding.mode,
        "would": finding.would,
        "plane": finding.plane,
        "path": str(finding.finding.path),
        "message": finding.finding.message,
        "details": list(finding.finding.details),
        "certainty": finding.finding.certainty,
        "softened_by": list(finding.softened_by),
        "masked": finding.masked or finding.withheld or is_fix_masked,
        "fix": fix,
        "suggestions": list(finding.suggestions),
    }


def _repaired(finding: GradedFinding) -> bool:
    """True if `podfit fix` repairs the finding, also without --audit."""
    return finding.applies and finding.is_reported


def patch(report: Report, edits: Iterable[Edit]) -> list[dict[str, Any]] | None:
    """Return the edits as a JSON Patch; None if it would show a secret, since a patch is never masked."""
    operations = json_patch(report.object, edits)
    return None if report.secrets.hold(operations) else operations
