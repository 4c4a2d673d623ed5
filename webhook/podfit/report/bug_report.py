"""The content of a bug report, as a List of Kubernetes objects (docs/schemas/report.json): podfit can check it
again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podfit.evaluation import denial, subject
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy
from podfit.kube.workload import JSON
from podfit.report import json as as_json
from podfit.report.published import published
from podfit.vllm.facts import Facts


def tree(objects: Sequence[tuple[JSON, Facts]], policy: Policy, namespace: str | None = None) -> dict[str, Any]:
    """The objects as they may be published, without Secrets; and of those with vLLM the webhook's decision, plans and
    findings.

    Decisions and plans are of the published objects, so that they contain nothing else. `found` has the findings of
    the objects as they were given, without their texts. `objects`: each with what is known next to it. `namespace`: of
    objects that name none.
    """
    decisions, results, errors, rows = [], [], [], []
    items = [(published(obj), obj, facts) for obj, facts in objects if obj.get("kind") != "Secret"]
    for item, obj, facts in items:
        original = lint(obj, policy, facts, where="check", namespace=namespace)
        if not original.results and not original.errors:
            continue
        own_report = lint(item, policy, facts, namespace=namespace)
        name = subject.describe_object(item)
        decisions.append(
            {
                "object": name,
                "denied": own_report.denied,
                "message": denial.refusal(own_report) if own_report.denied else None,
                "warnings": denial.warnings(own_report),
            }
        )
        report = lint(item, policy, facts, where="check", namespace=namespace)
        results += [as_json.result(name, report, result) for result in report.results]
        errors += [f"{error.rule}: {error.error.partition(':')[0]}" for error in original.errors]
        rows += [
            {
                "object": name,
                "rule": finding.rule,
                "mode": finding.mode,
                "level": finding.level,
                "path": str(finding.finding.path),
            }
            for finding in original.findings
        ]
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [entry for entry, _, _ in items],
        "podfit": {
            "policy": policy.version, "decisions": decisions, "errors": errors, "found": rows, "results": results,
        },
    }  # fmt: skip
