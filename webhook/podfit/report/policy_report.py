"""PolicyReports: what dashboards of Kubernetes policies read, one for each workload and owned by it.

`wgpolicyk8s.io/v1alpha2` (Kubernetes' policy working group; Kyverno, Falco, Policy Reporter) and its successor
`openreports.io/v1alpha1` (the reports API of openreports) have the same fields under other names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from podfit.base.printable import one_line
from podfit.evaluation.denial import PLANES
from podfit.evaluation.scan import Ref, Scan, ScannedContainer, ScannedFinding

REPORT_SOURCE = "podfit"
LABEL = ("app.kubernetes.io/managed-by", "podfit")
"""On every report, so that those can be found whose workload no longer runs vLLM."""
MAX_MESSAGE_BYTES = 1024
"""Characters of a message: reports are for overviews."""


@dataclass(frozen=True)
class Api:
    """One of the two, as a server has it."""

    group: str
    version: str
    kind: str
    cluster_kind: str
    """The kind of the report for workloads without a namespace."""

    @property
    def api_version(self) -> str:
        """The apiVersion of the report: "wgpolicyk8s.io/v1alpha2"."""
        return f"{self.group}/{self.version}"


APIS = (
    Api("wgpolicyk8s.io", "v1alpha2", "PolicyReport", "ClusterPolicyReport"),
    Api("openreports.io", "v1alpha1", "Report", "ClusterReport"),
)


def reports(scan: Scan, api: Api, now: datetime) -> Iterator[dict[str, Any]]:
    """A report for each workload; `now` is its results' time."""
    rows: dict[Ref, list[ScannedContainer]] = {}
    for row in scan.rows:
        rows.setdefault(row.object, []).append(row)
    for ref, of in rows.items():
        yield report(ref, of, api, now)


def name(ref: Ref) -> str:
    """The name of a workload's report: equal in each scan, so that a report replaces the one before."""
    return f"podfit-{ref.uid}" if ref.uid else f"podfit-{ref.kind.lower()}-{ref.name}"


def report(ref: Ref, scanned_containers: Sequence[ScannedContainer], api: Api, now: datetime) -> dict[str, Any]:
    """One workload's report. Kubernetes removes it with the workload, which owns it."""
    results = [result for row in scanned_containers for result in _results(row, now)]
    summary = Counter(str(result["result"]) for result in results)
    target = {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name}
    metadata: dict[str, Any] = {"name": name(ref), "labels": {LABEL[0]: LABEL[1]}}
    if ref.namespace:
        metadata["namespace"] = ref.namespace
    if ref.uid:
        target["uid"] = ref.uid
        metadata["ownerReferences"] = [dict(target)]
    return {
        "apiVersion": api.api_version,
        "kind": api.kind if ref.namespace else api.cluster_kind,
        "metadata": metadata,
        "scope": {**target, **({"namespace": ref.namespace} if ref.namespace else {})},
        "summary": {word: summary.get(word, 0) for word in ("pass", "fail", "warn", "error", "skip")},
        "results": results,
    }


def _results(row: ScannedContainer, now: datetime) -> Iterator[dict[str, Any]]:
    """The results of one container: one for each finding, or a `pass` if there is none.

    `enforce.mode` does not change them: what would be denied is `fail`, as in Kyverno's audit mode."""
    common = {
        "source": REPORT_SOURCE,
        "policy": REPORT_SOURCE,
        "scored": True,
        "timestamp": {"seconds": int(now.timestamp()), "nanos": 0},
    }
    known = {"container": row.container, "verdict": row.verdict, "model": row.model, "accelerator": row.gpu,
             "vllm": row.release}  # fmt: skip
    properties = {word: str(value) for word, value in known.items() if value}
    for finding in row.findings:
        yield {
            **common,
            "rule": finding.rule,
            "category": PLANES[finding.plane],
            "severity": _severity(finding),
            "result": {"deny": "fail", "warn": "warn"}.get(finding.would, "skip"),
            "message": one_line(finding.message)[:MAX_MESSAGE_BYTES],
            "properties": {**properties, "path": finding.path, "plane": finding.plane, "mode": finding.mode,
                           "would": finding.would, "certainty": finding.certainty,
                           **({"why": one_line(finding.why)[:MAX_MESSAGE_BYTES]} if finding.why else {})},
        }  # fmt: skip
    if not row.findings:
        text = one_line(row.why)[:MAX_MESSAGE_BYTES]
        yield {**common, "rule": "all", "severity": "info", "result": "pass", "message": text, "properties": properties}


def _severity(finding: ScannedFinding) -> str:
    """The severity in a PolicyReport: of the mode, and of what the finding threatens."""
    if finding.would == "deny":
        return "high"
    return "info" if finding.would != "warn" else "low" if finding.threatens == "practice" else "medium"


def render(scan: Scan, now: datetime) -> str:
    """`--format policyreport`: a List for `kubectl apply -f -`."""
    items = list(reports(scan, APIS[0], now))
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1) + "\n"
