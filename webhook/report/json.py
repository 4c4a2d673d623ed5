"""Report → the JSON that `podfit check --format json` promises (docs/design.md, Interfaces)."""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from typing import Any

from webhook.base import secret
from webhook.evaluation import subject
from webhook.evaluation.lint import Judged, Report, Result, secrets
from webhook.kube.patch import json_patch
from webhook.report import plan
from webhook.report.checked import Checked


def render(checked: Checked, *, mask_secrets: bool = False) -> str:
    """Everything that `podfit check` found. Arguments and patches are what the manifest holds, for programs go on with
    them; with `mask_secrets` stars stand for keys and tokens, for a report that is kept or passed on. `masked` says
    where, for such a patch is not to be applied."""
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
        hidden = one.result.engine.once(secrets) if mask_secrets else frozenset()
        shown_tree = _masked(tree, hidden) if mask_secrets else tree
        results.append({**shown_tree, "masked": shown_tree != tree})
    errors = [{"file": one.file, "message": str(one)} for one in checked.problems]
    return dumps({"results": results, "errors": errors}, indent=1, default=str) + "\n"


def _masked(value: Any, hidden: frozenset[str]) -> Any:
    """The same tree with stars in its strings; keys of objects are names."""
    if isinstance(value, str):
        return secret.masked(value, hidden)
    if isinstance(value, Mapping):
        return {name: _masked(one, hidden) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(one, hidden) for one in value]
    return value


def result(file: str, report: Report, one: Result) -> dict[str, Any]:
    """One vLLM container."""
    findings = [finding(report, judged) for judged in one.findings if judged.mode != "ignore"]
    return {
        "file": file,
        "object": subject.tree(report.object),
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
