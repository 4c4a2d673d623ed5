"""The result of `podfit scan`, as plain JSON values (docs/schemas/scan.json) and as text for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from podfit.base.printable import clean, one_line
from podfit.evaluation.denial import HEADINGS, PLANES, THREATS, many
from podfit.evaluation.scan import DECISION_ORDER, NewDenial, Ref, Scan, ScannedContainer, ScannedFinding
from podfit.evaluation.scan.planned import Planned, Span

DENIALS = frozenset(("denied", "would_deny"))
"""Headings under which each finding is shown with its change."""


def _head(scan: Scan) -> dict[str, Any]:
    """Everything but the workloads."""
    states = scan.states
    return {
        "policy": scan.policy,
        "summary": {
            "objects": scan.looked_at,
            "workloads": len(states),
            "containers": len(scan.rows),
            **{state: scan.workloads(state) for state in DECISION_ORDER},
            "namespaces": [
                {"namespace": name or None, "workloads": sum(count.values()), **_counts(count)}
                for name, count in scan.namespaces()
            ],
            "rules": [
                {"rule": rule, "mode": mode, "would": would, "workloads": len({row.object for row, _ in items})}
                for mode, would, rule, items in scan.rules()
            ],
        },
        "ready": None
        if scan.ready_and_denied is None
        else {
            "workloads": len(scan.ready),
            "denied": [ref(reference) for reference in scan.ready_and_denied],
        },
        "what_if": None if scan.what_if is None else [_broken(new_denial) for new_denial in scan.what_if],
        "not_read": [{"kind": kind, "message": why} for kind, why in scan.not_read.items()],
        "errors": [{"message": message} for message in scan.errors],
    }


def as_json(scan: Scan, drift: list[dict[str, Any]] | None = None) -> Iterator[str]:
    """`--format json`, piece by piece: the text of a large cluster is never whole in memory."""
    rest = {**_head(scan), "drift": drift}
    head = json.dumps(rest, indent=1, default=str)
    yield head.rstrip("}").rstrip() + ',\n "results": ['
    for place, row in enumerate(scan.rows):
        yield ("," if place else "") + "\n  " + json.dumps(_row(row), default=str)
    yield "\n ]\n}\n"


def _counts(count: Mapping[Any, int]) -> dict[str, int]:
    return {state: count.get(state, 0) for state in DECISION_ORDER}


def ref(ref: Ref) -> dict[str, Any]:
    """The reference to an object as plain JSON values."""
    return {
        "apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace or None, "name": ref.name,
        "uid": ref.uid,
    }  # fmt: skip


def _row(row: ScannedContainer) -> dict[str, Any]:
    """One container as in docs/schemas/scan.json; None if unknown."""
    return {
        "object": ref(row.object),
        "container": row.container,
        "state": row.state,
        "denied": row.state == "denied",
        "model": row.model,
        "accelerator": None if row.gpu is None else {"name": row.gpu, "count": row.gpus},
        "version": row.release,
        "replicas": row.replicas,
        "verdict": row.verdict,
        "why": row.why,
        "planned": _planned(row.planned),
        "kv_cache_tokens": as_span(row.tokens) if row.tokens else None,
        "findings": [_finding(finding) for finding in row.findings],
    }


def _planned(planned: Planned) -> dict[str, Any]:
    return {plane: {name: as_span(span) for name, span in lines.items()} for plane, lines in planned.items()}


def as_span(span: Span) -> dict[str, int]:
    """The interval as plain JSON values."""
    return {"low": span.low, "likely": span.likely, "high": span.high}


def _finding(row: ScannedFinding) -> dict[str, Any]:
    """One finding as in docs/schemas/scan.json."""
    return {
        "rule": row.rule, "level": row.level, "mode": row.mode, "would": row.would, "plane": row.plane,
        "path": row.path, "message": row.message,
        "details": list(row.details), "certainty": row.certainty, "suggestions": list(row.suggestions),
        "why": row.why, "softened_by": list(row.softened_by), "accepted": row.accepted,
    }  # fmt: skip


def _broken(new_denial: NewDenial) -> dict[str, Any]:
    """One object that the policy of --what-if would deny."""
    return {
        "object": ref(new_denial.object),
        "container": new_denial.container,
        "rule": new_denial.rule,
        "message": new_denial.message,
    }


# ── For people ───────────────────────────────────────────────────────────────────────────────────────────────────────


def text(scan: Scan, limit: int = 10) -> str:
    """The summary, then each rule with its workloads, at most `limit` of one (0: all)."""
    blocks = [[scan_headline(scan), *_ready(scan)], _namespaces(scan), _summary(scan)]
    blocks += list(_grouped(scan, limit))
    if scan.what_if is not None:
        blocks.append(list(_what_if(scan.what_if, limit)))
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def scan_headline(scan: Scan) -> str:
    """One line: how many workloads, and how they are."""
    count = len(scan.states)
    where = len(scan.namespaces())
    head = f"{many(count, 'vLLM workload')} in {many(where, 'namespace')} ({scan.looked_at:,} objects looked at)"
    denied, would = scan.workloads("denied"), scan.workloads("would_deny")
    denials = f"{denied} denied today, {would} would be if enforced" if would else f"{denied} denied"
    return f"{head}: {denials}, {scan.workloads('warned')} with warnings, {scan.workloads('clean')} clean"


def _ready(scan: Scan) -> list[str]:
    """How many of the workloads that run and are ready would be denied."""
    denied = scan.ready_and_denied
    if denied is None or not scan.ready:
        return []
    named = f": {', '.join(clean(str(ref)) for ref in denied[:3])}{' …' if len(denied) > 3 else ''}" if denied else ""
    enforced = " if enforced" if scan.workloads("would_deny") else ""
    count = f"{len(denied)} would be denied{enforced}"
    return [f"{many(len(scan.ready), 'workload')} running and ready, of which {count}{named}"]


def _namespaces(scan: Scan) -> list[str]:
    """One line per namespace with its counts."""
    rows = [(name or "(cluster)", sum(count.values()), _counts(count)) for name, count in scan.namespaces()]
    if not rows:
        return []
    width = max(9, *(len(name) for name, _, _ in rows))
    columns = {"denied": "denied", "would_deny": "if enforced", "warned": "warned", "clean": " clean"}
    if not scan.workloads("would_deny"):
        del columns["would_deny"]
    head = "  ".join([f"{'namespace':<{width}}", "workloads", *columns.values()])
    texts = [
        "  ".join(
            [f"{clean(name):<{width}}", f"{all_:>9}", *(f"{of[column]:>{len(columns[column])}}" for column in columns)]
        )
        for name, all_, of in rows[:20]
    ]
    return [head, *texts, *([f"… and {len(rows) - 20} more namespaces"] if len(rows) > 20 else [])]


def _summary(scan: Scan) -> list[str]:
    """A line for each heading and rule: the number of workloads, and the threat of a denial, else the plane. Empty
    without findings."""
    items = scan.headings()
    if not items:
        return []
    width = max(len(rule) for _, rule, _ in items)
    longest = max(len(HEADINGS[heading]) for heading, _, _ in items)
    lines = []
    for heading, rule, rows in items:
        workloads = many(len({row.object for row, _ in rows}), "workload")
        _container, first = rows[0]  # all of one rule have its threat and plane
        lead = THREATS[first.threatens] if heading in DENIALS else f"[{PLANES[first.plane]}]"
        lines.append(f"{HEADINGS[heading]:<{longest}}  {rule:<{width}}  {workloads:>14}  {lead}")
    return lines


def _grouped(scan: Scan, limit: int) -> Iterator[list[str]]:
    """Findings with the same rule and message as one group, with the workloads that have them."""
    for heading, rule, rows in scan.headings():
        plane = PLANES[rows[0][1].plane]
        items = rows[:limit] if limit else rows
        lines = [f"{HEADINGS[heading]}  {rule}  [{plane}]"]
        for row, finding in items:
            lines.append(f"  {_name(row)}: {one_line(finding.message)}")
            if heading in DENIALS and finding.suggestions:
                lines.append(f"    {_suggestions_label(finding)}: {one_line(' · '.join(finding.suggestions[:3]))}")
        yield [*lines, *_more(len(rows) - len(items))]


def _suggestions_label(finding: ScannedFinding) -> str:
    """Words before a finding's suggestions; "fits" only if the planner computed them."""
    if not finding.computed:
        return "change" if len(finding.suggestions) == 1 else "change one of these"
    return "this fits" if len(finding.suggestions) == 1 else "one of these fits"


def _name(row: ScannedContainer) -> str:
    return clean(f'{row.object}, container "{row.container}"')


def _what_if(broken: list[NewDenial], limit: int) -> Iterator[str]:
    """Lines with the workloads that another policy would newly deny, at most `limit` of them."""
    names = list(dict.fromkeys(denial.object for denial in broken))
    if not broken:
        yield "what if: no more workloads would be denied than today"
        return
    yield f"what if: {many(len(names), 'more workload')} would be denied if applied again:"
    new_denials = broken[:limit] if limit else broken
    for new_denial in new_denials:
        yield f"  {clean(str(new_denial.object))}: {new_denial.rule}: {one_line(new_denial.message)}"
    yield from _more(len(broken) - len(new_denials))


def _more(count: int) -> Iterable[str]:
    return [f"  … and {count} more (--limit 0 shows all)"] if count > 0 else []
