"""Checked → SARIF 2.1.0, as code scanning reads it (docs.oasis-open.org/sarif/sarif/v2.1.0)."""

from __future__ import annotations

from json import dumps
from typing import Any

from podfit import __version__
from podfit.base.printable import clean, one_line, shortened
from podfit.base.secret import FORMS
from podfit.evaluation.denial import PLANES, advice
from podfit.report import answers, rule_page
from podfit.report.checked import Accepted, Checked, Item
from podfit.rules import all_rules

_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
"""The characters that are not escaped in the path of a URI (RFC 3986)."""
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(checked: Checked) -> str:
    """The log of one run, findings that are accepted among it as suppressed results."""
    used = sorted({item.finding.rule for item in checked.items})
    run = {
        "tool": {
            "driver": {
                "name": "podfit",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(rule_id, checked.page(rule_id)) for rule_id in used],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not checked.problems,
                "exitCode": checked.code,
                "toolExecutionNotifications": [
                    *(
                        _notification("error", problem.file, problem.line, problem.message)
                        for problem in checked.problems
                    ),
                    *(
                        _notification("warning", note.file, note.line, FORMS.line(note.message))
                        for note in checked.skips
                    ),
                    *(_notification("note", None, None, text) for text in answers.newer_releases(checked)),
                ],
            }
        ],
        "results": [_result(item, used) for item in checked.items],
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule_id: str, page: str) -> dict[str, Any]:
    """The rule's reportingDescriptor; `page` is the URL of its documentation."""
    rule = all_rules()[rule_id]
    return {
        "id": rule_id,
        "name": rule.__name__,
        "shortDescription": {"text": rule.title()},
        "fullDescription": {"text": one_line(rule_page.body(rule)) or rule.title()},
        "help": {"text": rule_page.text(rule), "markdown": rule_page.body(rule) or rule.title()},
        "helpUri": page,
        "defaultConfiguration": {"level": "error" if rule.mode == "deny" else "warning"},
        "properties": {"tags": ["vllm", "kubernetes", PLANES[rule.plane]]},
    }


def _result(item: Item, used: list[str]) -> dict[str, Any]:
    """One result of the run, with its fixes and suppressions."""
    finding = item.finding.finding
    text = "\n".join((finding.message, *finding.details, *advice(item.finding)))
    out: dict[str, Any] = {
        "ruleId": item.finding.rule,
        "ruleIndex": used.index(item.finding.rule),
        "level": item.severity,
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri(item.file)},
                    "region": {
                        "startLine": item.mark.line,
                        "startColumn": item.mark.column,
                        "endLine": item.mark.end_line,
                        "endColumn": max(item.mark.end_column, 1),
                        "snippet": {"text": shortened(clean(item.source))},
                    },
                },
                "logicalLocations": [{"fullyQualifiedName": f"{item.object}: {item.finding.path}", "kind": "member"}],
            }
        ],
        "partialFingerprints": {"podfit/v2": item.fingerprint},
        "properties": {"plane": item.finding.plane, "certainty": finding.certainty},
    }
    if item.accepted is not None:
        out["suppressions"] = [_suppression(item.accepted)]
    return out


def _suppression(accepted: Accepted) -> dict[str, Any]:
    kind = "external" if accepted.by in ("baseline", "exception") else "inSource"
    # Without `status` (accepted, where absent): early schemas of 2.1.0 call it `state`.
    return {"kind": kind, "justification": f"{accepted.by}: {accepted.reason}"}


def _notification(level: str, file: str | None, line: int | None, message: str) -> dict[str, Any]:
    """A SARIF notification on the run, or on a file that is unreadable or skipped."""
    out: dict[str, Any] = {"level": level, "message": {"text": message}}
    if file:
        place: dict[str, Any] = {"artifactLocation": {"uri": uri(file)}}
        if line:
            place["region"] = {"startLine": line}
        out["locations"] = [{"physicalLocation": place}]
    return out


def uri(file: str) -> str:
    """A path as a URI reference: relative ones stay relative to where podfit ran."""
    path = file.replace("\\", "/").removeprefix("./")
    data = path.encode(errors="surrogateescape")  # a name that is not UTF-8
    quoted = "".join(chr(byte) if chr(byte) in _SAFE else f"%{byte:02X}" for byte in data)
    return ("file://" if path.startswith("/") else "") + quoted
