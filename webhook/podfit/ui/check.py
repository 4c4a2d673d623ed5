"""The tab Check: a file of manifests → its findings at their lines, the repair as a diff, the memory of each container;
all files → the counts of their findings."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    every = [(file.source, files.check(file.source, desk.policy)) for file in opened.files]
    everything = Checked(
        files=tuple(source.name for source, _ in every),
        containers=tuple(container for _, checked in every for container in checked.containers),
        problems=(
            *(FileProblem.of(None, None, problem) for problem in opened.problems),
            *(problem for _, checked in every for problem in checked.problems),
        ),
        notes=(),
        skips=tuple(note for source, _ in every for note in source.skips),
    )
    return {"tally": tally(everything), "files": [_mark(source, checked) for source, checked in every]}


def _mark(source: ManifestFile, checked: CheckedFile) -> dict[str, Any]:
    """The most important heading of one file, and its counts in words."""
    counts = _counts(checked.containers)
    words = [f"{number} {HEADINGS[heading]}" for heading, number in counts.items() if number]
    if checked.problems:
        return {"name": source.name, "level": "error", "words": "can't be read"}
    if not checked.containers:
        return {"name": source.name, "level": "none", "words": "no vLLM container"}
    level = next((heading for heading, number in counts.items() if number), "clean")
    return {"name": source.name, "level": level, "words": ", ".join(words) or "no findings"}


def _counts(containers: Iterable[CheckedContainer]) -> dict[Heading, int]:
    """Heading → how many findings have it, without accepted ones, as `podfit check` counts them."""
    counted = Counter(
        item.finding.heading for container in containers for item in container.items if item.accepted is None
    )
    return {heading: counted[heading] for heading in HEADINGS}


def answer(obj: Mapping[str, Any], desk: Desk) -> dict[str, Any]:
    """The answer for one file: `name`, one of the command line or any other, and its `text`."""
    name, body = field_text(obj, "name") or PASTED, raw(obj, "text")
    source, original, problems = _source(name, body, desk)
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
            *({"line": None, "message": FORMS.line(problem)} for problem in problems),
            *({"line": problem.line, "message": problem.message} for problem in checked_file.problems),
        ],
        "notes": [FORMS.line(note) for note in checked_file.notes],
        "containers": [_container(container) for container in checked_file.containers],
        "fix": _fix(source, desk.policy, body, original),
    }


def _source(name: str, body: str, desk: Desk) -> tuple[ManifestFile, str, Sequence[str]]:
    """The text as the command would read it, next to the other files of its directory: the file itself with its secrets
    if nothing of the masked text has changed."""
    opened = desk.open().files
    for opened_file in opened:
        if opened_file.source.name == name and body in (opened_file.masked_text, opened_file.text):
            return opened_file.source, opened_file.text, ()
    folder = posixpath.dirname(name)
    others = [file for file in opened if file.source.name != name and posixpath.dirname(file.source.name) == folder]
    read, problems = desk.read(
        [(name, body.encode(errors="replace")), *((other.source.name, other.text.encode()) for other in others)]
    )
    return read[0], body, problems


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
    """The result of `podfit fix` as JSON: the diff, the text of the editor after it, a line per repair; None if no
    repair applies.

    The diff is of the file itself, since it is applied."""
    repaired = repairs.repaired(source, policy, frozenset(), audited=False)
    findings = [finding for _, outcome in repaired for finding in outcome.repairs]
    if not findings:
        return None
    left = sum(len(outcome.left) for _, outcome in repaired)
    rows = [{"rule": finding.rule, "message": finding.finding.message} for finding in findings]
    try:
        edits = repairs.edits(repaired)
        after, sentence = rewrite(original, edits), rewrite(body, edits)
    except ValueError as error:
        return {"made": rows, "left": left, "problem": FORMS.line(f"can't be rewritten: {error}")}
    if after == original:
        return None
    return {"made": rows, "left": left, "problem": None, "diff": diff(original, after, source.name), "text": sentence}
