"""The tab Check: a file of manifests → its findings at their lines, the repair as a diff, the memory of each container;
all files → the counts of their findings."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from podfit.base.secret import FORMS
from podfit.evaluation.denial import HEADINGS
from podfit.evaluation.policy import Policy
from podfit.report import explained, files, repairs
from podfit.report import json as as_json
from podfit.report.checked import Checked, CheckedContainer, FileProblem, Item
from podfit.report.files import CheckedFile, ManifestFile
from podfit.report.rewrite import diff, rewrite
from podfit.report.text import tally
from podfit.rules.rule import Heading
from podfit.ui.desk import Desk
from podfit.ui.gpus import sides
from podfit.ui.plan import chart, tiles
from podfit.ui.question import field_text, raw

FIELDS = frozenset({"name", "text"})
"""The fields of a question."""
PASTED = "pasted.yaml"
"""The name of a text that was pasted."""


def given(desk: Desk) -> dict[str, Any]:
    """The files of the command line with their masked texts, and what can't be read."""
    opened = desk.open()
    return {
        "files": [
            {"name": file.source.name, "label": file.source.name.removeprefix(opened.folder), "text": file.masked_text}
            for file in opened.files
        ],
        "problems": [FORMS.line(problem) for problem in opened.problems],
    }


def marks(desk: Desk) -> Mapping[str, Any]:
    """The findings of each file, counted, and the line of counts of `podfit check` over all of them."""
    opened = desk.open()
    sources = [file.source for file in opened.files]
    checked_files = [files.check(source, desk.policy) for source in sources]
    run = Checked(
        files=tuple(source.name for source in sources),
        containers=tuple(container for checked in checked_files for container in checked.containers),
        problems=(
            *(FileProblem.of(None, None, problem) for problem in opened.problems),
            *(problem for checked in checked_files for problem in checked.problems),
        ),
        notes=(),
        skips=tuple(note for source in sources for note in source.skips),
    )
    return {"tally": tally(run), "files": list(map(_mark, sources, checked_files))}


def _mark(source: ManifestFile, checked: CheckedFile) -> dict[str, Any]:
    """The most important heading of one file, and its counts in words."""
    if checked.problems:
        return {"name": source.name, "level": "error", "words": "can't be read"}
    if not checked.containers:
        return {"name": source.name, "level": "none", "words": "no vLLM container"}
    counts = {heading: number for heading, number in _counts(checked.containers).items() if number}
    if not counts:
        return {"name": source.name, "level": "clean", "words": "no findings"}
    words = ", ".join(f"{number} {HEADINGS[heading]}" for heading, number in counts.items())
    return {"name": source.name, "level": next(iter(counts)), "words": words}  # the first is the most important


def _counts(containers: Iterable[CheckedContainer]) -> dict[Heading, int]:
    """Heading → how many findings have it, without accepted ones, as `podfit check` counts them."""
    counted = Counter(
        item.finding.heading for container in containers for item in container.items if item.accepted is None
    )
    return {heading: counted[heading] for heading in HEADINGS}


def answer(obj: Mapping[str, Any], desk: Desk) -> dict[str, Any]:
    """The answer for one file: `name`, one of the command line or any other, and its `text`."""
    name, body = field_text(obj, "name") or PASTED, raw(obj, "text")
    edited = _edited(name, body, desk)
    source = edited.source
    checked_file = files.check(source, desk.policy)
    items = sorted(
        (item for container in checked_file.containers for item in container.items),
        key=lambda item: (item.accepted is not None, list(HEADINGS).index(item.finding.heading), item.mark.line),
    )
    return {
        "findings": [_finding(item) for item in items],
        "counts": _counts(checked_file.containers),
        "accepted": sum(item.accepted is not None for item in items),
        "problems": [
            *({"line": None, "message": FORMS.line(problem)} for problem in edited.problems),
            *({"line": problem.line, "message": problem.message} for problem in checked_file.problems),
        ],
        "notes": [FORMS.line(note) for note in checked_file.notes],
        "containers": [_container(container) for container in checked_file.containers],
        "fix": _fix(source, desk.policy, body, edited.text),
    }


class _Edited(NamedTuple):
    """The text of the editor, read as a file."""

    source: ManifestFile
    text: str
    """The text that was read: with its secrets if it is the file's."""
    problems: Sequence[str]
    """The files next to it that can't be read, and why."""


def _edited(name: str, body: str, desk: Desk) -> _Edited:
    """The text as the command would read it, next to the other files of its directory: the file itself with its secrets
    if nothing of the masked text has changed."""
    opened = desk.open().files
    for opened_file in opened:
        if opened_file.source.name == name and body in (opened_file.masked_text, opened_file.text):
            return _Edited(opened_file.source, opened_file.text, ())
    folder = posixpath.dirname(name)
    others = [file for file in opened if file.source.name != name and posixpath.dirname(file.source.name) == folder]
    sources, problems = desk.read(
        [(name, body.encode(errors="replace")), *((other.source.name, other.text.encode()) for other in others)]
    )
    return _Edited(sources[0], body, problems)


def _finding(item: Item) -> dict[str, Any]:
    """One finding with its lines, as JSON for the page."""
    accepted = {"by": item.accepted.by, "reason": item.accepted.reason} if item.accepted else None
    return {
        **as_json.finding(item.report, item.finding),
        "heading": item.finding.heading,
        "line": item.mark.line,
        "end_line": item.mark.end_line,
        "object": item.object,
        "container": item.result.engine.container.name,
        "softened": item.finding.why_softened,
        "accepted": accepted,
    }


def _container(container: CheckedContainer) -> dict[str, Any]:
    """One container's charts, tiles and changes, as JSON for the page."""
    explanation = explained.explain(container.report, container.result)
    return {
        "title": explanation.title,
        "summary": explanation.summary,
        "state": container.state,
        "verdict": explanation.verdict,
        "why": explanation.why,
        "charts": [chart(ledger) for ledger in explanation.charts],
        "tiles": tiles(container.result.engine),
        "sides": sides(container.result.engine),
        "changes": list(explanation.changes),
    }


def _fix(source: ManifestFile, policy: Policy, body: str, original: str) -> dict[str, Any] | None:
    """The result of `podfit fix` as JSON: a row per repair, how many findings are left, the diff, and the editor's text
    after it. None if no repair applies; with a problem instead of the diff if the text can't be rewritten.

    `body`: the text of the editor, perhaps masked. `original`: the file's, of which the diff is, since users apply
    it."""
    repaired = repairs.repaired(source, policy, frozenset(), audited=False)
    findings = [finding for _, outcome in repaired for finding in outcome.repairs]
    if not findings:
        return None
    left = sum(len(outcome.left) for _, outcome in repaired)
    rows = [{"rule": finding.rule, "message": finding.finding.message} for finding in findings]
    try:
        edits = repairs.edits(repaired)
        original_after, body_after = rewrite(original, edits), rewrite(body, edits)
    except ValueError as error:
        return {"made": rows, "left": left, "problem": FORMS.line(f"can't be rewritten: {error}")}
    if original_after == original:
        return None
    file_diff = diff(original, original_after, source.name)
    return {"made": rows, "left": left, "problem": None, "diff": file_diff, "text": body_after}
