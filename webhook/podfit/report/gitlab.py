"""Checked → GitLab's code quality report (docs.gitlab.com/ci/testing/code_quality, "Code Quality report format")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from json import dumps

from podfit.base.printable import one_line
from podfit.base.secret import FORMS
from podfit.report.checked import Checked
from podfit.rules.rule import Level

GRADES: Mapping[Level, str] = {"denied": "critical", "likely": "major", "advice": "minor"}
"""GitLab's word for each level."""


def render(checked: Checked) -> str:
    """One entry per finding that is not accepted, and one per file that can't be read."""
    counts: Counter[str] = Counter()
    out = []
    for item in checked.open:
        counts[item.fingerprint] += 1
        out.append(
            {
                "description": one_line(f"{item.finding.rule}: {item.finding.finding.message}"),
                "check_name": item.finding.rule,
                "fingerprint": _unique(f"{item.fingerprint} {item.file} {counts[item.fingerprint]}"),
                "severity": GRADES[item.finding.level],
                "content": {"body": checked.page(item.finding.rule)},
                "location": {"path": one_line(item.file.removeprefix("./")), "lines": {"begin": item.mark.line}},
            }
        )
    out += [
        {
            "description": one_line(problem.message),
            "check_name": "unreadable",
            "fingerprint": _unique(str(problem)),
            "severity": "blocker",
            "location": {
                "path": one_line((problem.file or "-").removeprefix("./")),
                "lines": {"begin": problem.line or 1},
            },
        }
        for problem in checked.problems
    ]
    out += [
        {
            "description": FORMS.line(note.message),
            "check_name": "skipped",
            "fingerprint": _unique(f"{note} {number}"),
            "severity": "blocker" if checked.fail_on_skipped else "info",
            "location": {"path": one_line(note.file.removeprefix("./")), "lines": {"begin": note.line or 1}},
        }
        for number, note in enumerate(checked.skips)
    ]
    return dumps(out, indent=1) + "\n"


def _unique(text: str) -> str:
    return sha256(text.encode(errors="backslashreplace")).hexdigest()[:32]
