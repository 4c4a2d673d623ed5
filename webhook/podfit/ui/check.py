"""The tab Check: a file of manifests → its findings at their lines, the repair as a diff, the ledgers of each
container."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from podfit.base.secret import FORMS
from podfit.evaluation.denial import LEVELS
from podfit.evaluation.policy import Policy
from podfit.report import explained, files, repairs
from podfit.report import json as as_json
from podfit.report.checked import CheckedContainer, Item
from podfit.report.files import ManifestFile
from podfit.report.rewrite import diff, rewrite
from podfit.ui.desk import Desk
from podfit.ui.plan import chart, tiles
from podfit.ui.question import raw, text

FIELDS = frozenset({"name", "text"})
"""The fields of a question."""
PASTED = "pasted.yaml"
"""The name of a text that was pasted."""


def given(desk: Desk) -> dict[str, Any]:
    """The files of the command line with their masked texts, and what can't be read."""
    opened = desk.open()
    return {
        "files": [{"name": one.source.name, "text": one.shown} for one in opened.files],
        "problems": [FORMS.line(one) for one in opened.problems],
    }


def answer(asked: Mapping[str, Any], desk: Desk) -> dict[str, Any]:
    """The answer for one file: `name`, one of the command line or any other, and its `text`."""
    name, body = text(asked, "name") or PASTED, raw(asked, "text")
    source, original, problems = _source(name, body, desk)
    found = files.check(source, desk.policy)
    items = sorted(
        (item for one in found.containers for item in one.items),
        key=lambda item: (item.accepted is not None, list(LEVELS).index(item.judged.level), item.mark.line),
    )
    return {
        "findings": [_finding(item) for item in items],
        "counts": {level: sum(one.judged.level == level and one.accepted is None for one in items) for level in LEVELS},
        "problems": [
            *({"line": None, "message": FORMS.line(one)} for one in problems),
            *({"line": one.line, "message": one.message} for one in found.problems),
        ],
        "notes": [FORMS.line(note) for note in found.notes],
        "containers": [_container(one) for one in found.containers],
        "fix": _fix(source, desk.policy, body, original),
    }


def _source(name: str, body: str, desk: Desk) -> tuple[ManifestFile, str, Sequence[str]]:
    """The text as the command would read it, next to the other files of its directory: the file itself with its secrets
    if nothing of the masked text has changed."""
    opened = desk.open().files
    for one in opened:
        if one.source.name == name and body in (one.shown, one.text):
            return one.source, one.text, ()
    folder = posixpath.dirname(name)
    others = [one for one in opened if one.source.name != name and posixpath.dirname(one.source.name) == folder]
    read, problems = desk.read(
        [(name, body.encode(errors="replace")), *((one.source.name, one.text.encode()) for one in others)]
    )
    return read[0], body, problems


def _finding(item: Item) -> dict[str, Any]:
    accepted = {"by": item.accepted.by, "reason": item.accepted.reason} if item.accepted else None
    return {
        **as_json.finding(item.report, item.judged),
        "line": item.mark.line,
        "end_line": item.mark.end_line,
        "object": item.object,
        "container": item.result.engine.container.name,
        "softened": item.judged.why_softened,
        "accepted": accepted,
    }


def _container(one: CheckedContainer) -> dict[str, Any]:
    shown = explained.explain(one.report, one.result)
    return {
        "title": shown.title,
        "summary": shown.summary,
        "state": one.state,
        "verdict": shown.verdict,
        "why": shown.why,
        "charts": [chart(ledger) for ledger in shown.charts],
        "tiles": tiles(one.result.engine),
        "changes": list(shown.changes),
    }


def _fix(source: ManifestFile, policy: Policy, body: str, original: str) -> dict[str, Any] | None:
    """What `podfit fix` does: the diff, the text of the editor after it, a line per repair; None if no repair applies.

    The diff is of the file itself, since it is applied."""
    repaired = repairs.repaired(source, policy, frozenset(), audited=False)
    made = [judged for _, one in repaired for judged in one.made]
    if not made:
        return None
    left = sum(len(one.left) for _, one in repaired)
    rows = [{"rule": one.rule, "message": one.finding.message} for one in made]
    try:
        edits = repairs.edits(repaired)
        after, shown = rewrite(original, edits), rewrite(body, edits)
    except ValueError as error:
        return {"made": rows, "left": left, "problem": FORMS.line(f"can't be rewritten: {error}")}
    if after == original:
        return None
    return {"made": rows, "left": left, "problem": None, "diff": diff(original, after, source.name), "text": shown}
