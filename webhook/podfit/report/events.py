"""Kubernetes Events on workloads that would not start: for GitOps teams, who see no warning of an admission webhook.

A scan makes one Event for each such workload. Its name is a hash of the workload, its Pod templates and the rules, so
that a repeat has the same name, and the API server answers AlreadyExists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from podfit.base.printable import one_line
from podfit.base.secret import FORMS
from podfit.evaluation.denial import headline
from podfit.evaluation.scan import Ref, Scan, ScannedContainer, ScannedFinding

REASON = "PodfitWouldNotStart"
MAX_MESSAGE_BYTES = 1024
"""The most that the API server takes (k8s.io/kubernetes pkg/apis/core/validation, NoteLengthLimit)."""
NO_NAMESPACE = "default"
"""The namespace of Events about objects that have none (pkg/apis/core/validation/events.go)."""
SERIOUS = ("denied", "would_deny", "likely")
"""Headings of findings that make an Event: also of those that only `enforce.mode` keeps from denying."""
_DENIED = ("denied", "would_deny")


def events(scan: Scan, now: datetime) -> Iterator[dict[str, Any]]:
    """An Event for each workload with a finding that denies or is likely."""
    rows: dict[Ref, list[ScannedContainer]] = {}
    for row in scan.rows:
        if row.object.uid and any(finding.is_reported and finding.heading in SERIOUS for finding in row.findings):
            rows.setdefault(row.object, []).append(row)
    for ref, containers in rows.items():
        yield _event(ref, containers, now)


def _event(ref: Ref, scanned_containers: list[ScannedContainer], now: datetime) -> dict[str, Any]:
    """The Event of one workload."""
    serious = [
        (row, finding)
        for row in scanned_containers
        for finding in row.findings
        if finding.is_reported and finding.heading in SERIOUS
    ]
    denied = [(row, finding) for row, finding in serious if finding.heading in _DENIED]
    text = headline([(row.container, finding) for row, finding in denied or serious], ref.kind, _place(ref))
    at = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _name(ref, serious), "namespace": ref.namespace or NO_NAMESPACE},
        "involvedObject": {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name, "uid": ref.uid,
                           **({"namespace": ref.namespace} if ref.namespace else {})},
        "type": "Warning",
        "reason": REASON,
        "message": _bounded(text if denied else f"likely: {text}"),
        "source": {"component": "podfit"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }  # fmt: skip


def _place(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.name}" if ref.namespace else ref.name


def _name(ref: Ref, serious: list[tuple[ScannedContainer, ScannedFinding]]) -> str:
    """The Event's name, a digest of workload, templates and rules: equal for the same ones."""
    templates = sorted({row.template for row, _ in serious})
    rules = sorted({f"{row.container} {finding.rule} {finding.heading}" for row, finding in serious})
    digest = hashlib.sha256("\n".join([ref.uid, *templates, *rules]).encode()).hexdigest()
    return f"podfit-{digest[:32]}"


def _bounded(text: str) -> str:
    """The text in one line, masked, in at most MAX_MESSAGE_BYTES."""
    line = FORMS.line(one_line(text))
    data = line.encode()
    if len(data) <= MAX_MESSAGE_BYTES:
        return line
    return data[: MAX_MESSAGE_BYTES - len("…".encode())].decode(errors="ignore") + "…"
