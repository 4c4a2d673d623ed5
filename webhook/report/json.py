"""Report → the JSON that `podfit check --format json` promises (docs/design.md, Interfaces)."""

from __future__ import annotations

from collections.abc import Iterable
from json import dumps
from typing import Any

from webhook.evaluation import subject
from webhook.evaluation.lint import Judged, Report, Result
from webhook.kube.patch import Edit, json_patch
from webhook.report import plan
from webhook.report.checked import Checked


def render(checked: Checked) -> str:
    """Everything that `podfit check` found. Secrets are stars, which `masked` marks. `fix` and `patch` are null if they
    would contain a secret, or lack a fix that does."""
    results = []
    for one in checked.containers:
        tree = result(one.file, one.report, one.result)
        places = {id(item.judged): item for item in one.items}
        shown = [judged for judged in one.result.findings if judged.mode != "ignore"]
        for judged, row in zip(shown, tree["findings"], strict=True):
            item = places.get(id(judged))
            row["line"], row["column"] = (item.mark.line, item.mark.column) if item else (None, None)
            row["accepted"] = (
                {"by": item.accepted.by, "reason": item.accepted.reason} if item and item.accepted else None
            )
        tree["denied"] = one.state == "denied"
        results.append(tree)
    errors = [{"file": one.file, "message": str(one)} for one in checked.problems]
    return dumps({"results": results, "errors": errors}, indent=1, default=str) + "\n"


def result(file: str, report: Report, one: Result) -> dict[str, Any]:
    """One vLLM container."""
    findings = [finding(report, judged) for judged in one.findings if judged.mode != "ignore"]
    planned = plan.tree(one.engine, report.secrets)
    edits = [edit for judged in one.findings if _repaired(judged) for edit in judged.finding.fix]
    changes = patch(report, edits) if not any(judged.withheld for judged in one.findings) else None
    return {
        "file": file,
        "object": subject.object_reference(report.object),
        "container": one.engine.container.name,
        "path": str(one.engine.container.path),
        "plan": {**planned, "findings": findings},
        "findings": findings,
        "denied": one.denied,
        "masked": changes is None or bool(planned["engine"]["masked"]) or any(row["masked"] for row in findings),
        "patch": changes,
    }


def finding(report: Report, judged: Judged) -> dict[str, Any]:
    """One finding; `fix` is a JSON Patch exactly where it is applied (here: by `podfit fix`)."""
    fix = patch(report, judged.finding.fix) if _repaired(judged) else None
    return {
        "rule": judged.rule,
        "level": judged.level,
        "mode": judged.mode,
        "plane": judged.plane,
        "path": str(judged.finding.path),
        "message": judged.finding.message,
        "details": list(judged.finding.details),
        "certainty": judged.finding.certainty,
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
