"""Report → the JSON that `podfit check --format json` promises (docs/design.md, Interfaces)."""

from __future__ import annotations

from json import dumps
from typing import Any

from webhook.lint import Judged, Report, Result
from webhook.patch import json_patch
from webhook.report import plan
from webhook.report.checked import Checked


def render(checked: Checked) -> str:
    """Everything that `podfit check` found."""
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
    metadata = report.metadata
    findings = [finding(report, judged) for judged in one.findings if judged.mode != "ignore"]
    return {
        "file": file,
        "object": {
            "apiVersion": report.object.get("apiVersion"),
            "kind": report.object.get("kind"),
            "namespace": metadata.get("namespace"),
            "name": metadata.get("name") or metadata.get("generateName"),
        },
        "container": one.engine.container.name,
        "path": str(one.engine.container.path),
        "plan": {**plan.tree(one.engine), "findings": findings},
        "findings": findings,
        "denied": one.denied,
        "patch": json_patch(report.object, one.edits),
    }


def finding(report: Report, judged: Judged) -> dict[str, Any]:
    """One finding; `fix` is a JSON Patch exactly where it is applied (here: by `podfit fix`)."""
    return {
        "rule": judged.rule,
        "mode": judged.mode,
        "plane": judged.plane,
        "path": str(judged.finding.path),
        "message": judged.finding.message,
        "details": list(judged.finding.details),
        "certainty": judged.finding.certainty,
        "fix": json_patch(report.object, judged.finding.fix) if judged.applies else None,
        "suggestions": list(judged.finding.suggestions),
    }
