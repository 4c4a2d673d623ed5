"""What a bug report needs, as a List of Kubernetes objects (docs/schemas/report.json): podfit can check it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podfit.base.secret import Secrets
from podfit.evaluation import denial, subject
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy
from podfit.kube.path import mapping
from podfit.kube.workload import JSON
from podfit.report import json as as_json
from podfit.vllm.facts import Facts

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def tree(
    objects: Sequence[tuple[JSON, Facts]], policy: Policy, secrets: Secrets, namespace: str | None = None
) -> dict[str, Any]:
    """The objects with stars for secrets; and of those with vLLM the webhook's decision, plans and findings.

    `objects`: each with what is known next to it. `namespace`: of objects that name none.
    """
    decisions, results, errors = [], [], []
    for obj, facts in objects:
        asked = lint(obj, policy, facts, namespace=namespace)
        if not asked.results and not asked.errors:
            continue
        decisions.append(
            {
                "object": subject.describe_object(obj),
                "denied": asked.denied,
                "message": denial.refusal(asked) if asked.denied else None,
                "warnings": denial.warnings(asked),
            }
        )
        report = lint(obj, policy, facts, where="check", namespace=namespace)
        results += [as_json.result(subject.describe_object(obj), report, one) for one in report.results]
        errors += [f"{error.rule}: {error.error}" for error in report.errors]
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [_kept(obj, secrets) for obj, _ in objects if obj.get("kind") != "Secret"],
        "podfit": {"policy": policy.version, "decisions": decisions, "errors": errors, "results": results},
    }


def _kept(obj: JSON, secrets: Secrets) -> Any:
    """The object without secrets, and without copies and bookkeeping of the API server."""
    metadata = {name: value for name, value in mapping(obj.get("metadata")).items() if name != "managedFields"}
    if mapping(metadata.get("annotations")):
        annotations = {name: value for name, value in metadata["annotations"].items() if name != APPLIED}
        metadata["annotations"] = annotations
    return secrets.shown({**obj, "metadata": metadata} if metadata else obj)
