"""Report → the JSON that `podfit check --format json` promises (docs/design.md, Interfaces)."""

from __future__ import annotations

from typing import Any

from webhook.lint import Judged, Report, Result
from webhook.patch import json_patch
from webhook.report import plan


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
