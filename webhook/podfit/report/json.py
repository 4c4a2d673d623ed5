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
from podfit.report.checked import Checked, is_audited
from podfit.report.text import why_not_denied


def render(checked: Checked) -> str:
    """Everything that `podfit check` found. Secrets are stars, which `masked` marks. `fix` and `patch` are null if they
    would contain a secret, or lack a fix that does."""
    results = []
    for container in checked.containers:
        tree = result(container.file, container.report, container.result)
        places = {id(item.finding): item for item in container.items}
        findings = [graded for graded in container.result.findings if graded.mode != "ignore"]
        rows = []
        for finding, row in zip(findings, tree["findings"], strict=True):
            item = places.get(id(finding))
            if item is None and not checked.audit:
                continue
            row["line"], row["column"] = (item.mark.line, item.mark.column) if item else (None, None)
            row["not_denied"] = why_not_denied(item) if item else None
            row["accepted"] = (
                {"by": item.accepted.by, "reason": item.accepted.reason} if item and item.accepted else None
            )
            rows.append(row)
        tree["findings"] = tree["plan"]["findings"] = rows
        tree["masked"] = _masked(tree)
        tree["denied"] = container.state == "denied"
        results.append(tree)
    tree = {
        "summary": _summary(checked),
        "unanswered": answers.unanswered(entry.result.engine for entry in checked.containers),
        "newer_releases": answers.newer_releases(checked),
        "results": results,
        "skipped": [
            {"file": note.file, "line": note.line, "reason": note.skips, "message": FORMS.line(note.message)}
            for note in checked.skips
        ],
        "errors": [{"file": problem.file, "message": str(problem)} for problem in checked.problems],
    }
    return dumps(tree, indent=1, default=str) + "\n"


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
    """The result of one vLLM container as plain JSON values."""
    findings = [finding(report, graded) for graded in result.findings if graded.mode != "ignore"]
    planned = plan.tree(result.engine, report.secrets)
    edits = [edit for finding in result.findings if _repaired(finding) for edit in finding.finding.fix]
    changes = patch(report, edits) if not any(finding.withheld for finding in result.findings) else None
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
    """Stars stand for secrets in a result, or its patch is left out for them."""
    masked = (tree["plan"]["engine"]["masked"], *(row["masked"] for row in tree["findings"]))
    return tree["patch"] is None or any(masked)


def finding(report: Report, finding: GradedFinding) -> dict[str, Any]:
    """One finding; one that the policy only audits has the level `audited`. `fix` is a JSON Patch exactly where it is
    applied (here: by `podfit fix`)."""
    fix = patch(report, finding.finding.fix) if _repaired(finding) else None
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
        "masked": finding.masked or finding.withheld or (_repaired(finding) and fix is None),
        "fix": fix,
        "suggestions": list(finding.suggestions),
    }


def _repaired(finding: GradedFinding) -> bool:
    """`podfit fix` repairs it without --audit."""
    return finding.applies and finding.is_reported


def patch(report: Report, edits: Iterable[Edit]) -> list[dict[str, Any]] | None:
    """Return the edits as a JSON Patch; None if it would show a secret, since a patch is never masked."""
    operations = json_patch(report.object, edits)
    return None if report.secrets.hold(operations) else operations
