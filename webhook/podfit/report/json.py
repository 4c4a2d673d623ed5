"""Report → the JSON that `podfit check --format json` promises (docs/design.md, Interfaces)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from json import dumps
from typing import Any

from podfit.base.secret import FORMS
from podfit.evaluation import subject
from podfit.evaluation.denial import LEVELS
from podfit.evaluation.lint import Judged, Report, Result
from podfit.kube.patch import Edit, json_patch
from podfit.report import answers, plan
from podfit.report.checked import Checked, is_audited


def render(checked: Checked) -> str:
    """Everything that `podfit check` found. Secrets are stars, which `masked` marks. `fix` and `patch` are null if they
    would contain a secret, or lack a fix that does."""
    results = []
    for one in checked.containers:
        tree = result(one.file, one.report, one.result)
        places = {id(item.judged): item for item in one.items}
        told = [judged for judged in one.result.findings if judged.mode != "ignore"]
        rows = []
        for judged, row in zip(told, tree["findings"], strict=True):
            item = places.get(id(judged))
            if item is None and not checked.audit:
                continue
            row["line"], row["column"] = (item.mark.line, item.mark.column) if item else (None, None)
            row["accepted"] = (
                {"by": item.accepted.by, "reason": item.accepted.reason} if item and item.accepted else None
            )
            rows.append(row)
        tree["findings"] = tree["plan"]["findings"] = rows
        tree["masked"] = _masked(tree)
        tree["denied"] = one.state == "denied"
        results.append(tree)
    tree = {
        "summary": _summary(checked),
        "unanswered": answers.unanswered(one.result.engine for one in checked.containers),
        "newer_releases": answers.newer_releases(checked),
        "results": results,
        "skipped": [
            {"file": one.file, "line": one.line, "reason": one.skips, "message": FORMS.line(one.message)}
            for one in checked.skips
        ],
        "errors": [{"file": one.file, "message": str(one)} for one in checked.problems],
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
        "audited": sum(is_audited(judged) for one in checked.containers for judged in one.result.findings),
        "skipped": len({note.file for note in checked.skips}),
        "errors": len(checked.problems),
    }


def result(file: str, report: Report, one: Result) -> dict[str, Any]:
    """One vLLM container."""
    findings = [finding(report, judged) for judged in one.findings if judged.mode != "ignore"]
    planned = plan.tree(one.engine, report.secrets)
    edits = [edit for judged in one.findings if _repaired(judged) for edit in judged.finding.fix]
    changes = patch(report, edits) if not any(judged.withheld for judged in one.findings) else None
    tree = {
        "file": file,
        "object": subject.object_reference(report.object),
        "container": one.engine.container.name,
        "path": str(one.engine.container.path),
        "plan": {**planned, "findings": findings},
        "findings": findings,
        "denied": one.denied,
        "patch": changes,
    }
    return {**tree, "masked": _masked(tree)}


def _masked(tree: Mapping[str, Any]) -> bool:
    """Stars stand for secrets in a result, or its patch is left out for them."""
    masked = (tree["plan"]["engine"]["masked"], *(row["masked"] for row in tree["findings"]))
    return tree["patch"] is None or any(masked)


def finding(report: Report, judged: Judged) -> dict[str, Any]:
    """One finding; one that the policy only audits has the level `audited`. `fix` is a JSON Patch exactly where it is
    applied (here: by `podfit fix`)."""
    fix = patch(report, judged.finding.fix) if _repaired(judged) else None
    return {
        "rule": judged.rule,
        "level": "audited" if is_audited(judged) else judged.level,
        "mode": judged.mode,
        "would": judged.would,
        "plane": judged.plane,
        "path": str(judged.finding.path),
        "message": judged.finding.message,
        "details": list(judged.finding.details),
        "certainty": judged.finding.certainty,
        "softened_by": list(judged.softened_by),
        "masked": judged.masked or judged.withheld or (_repaired(judged) and fix is None),
        "fix": fix,
        "suggestions": list(judged.finding.suggestions),
    }


def _repaired(judged: Judged) -> bool:
    """`podfit fix` repairs it without --audit."""
    return judged.applies and judged.shown


def patch(report: Report, edits: Iterable[Edit]) -> list[dict[str, Any]] | None:
    """Return the edits as a JSON Patch; None if it would show a secret, since a patch is never masked."""
    operations = json_patch(report.object, edits)
    return None if report.secrets.hold(operations) else operations
