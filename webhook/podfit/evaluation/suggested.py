"""Edits that follow a suggestion, and the proof that they help."""

from __future__ import annotations

from collections.abc import Sequence

from podfit.evaluation.lint import GradedFinding, Result, lint
from podfit.evaluation.policy import Policy
from podfit.kube.manifest import Document
from podfit.kube.patch import Edit, edited
from podfit.kube.workload import JSON
from podfit.rules import suggestion
from podfit.vllm.facts import Facts

DocumentEdits = Sequence[tuple[int, Sequence[Edit]]]
"""Index of a document in a text → its edits, from the document's root."""


def rooted(document: Document, changes: Sequence[Edit]) -> tuple[Edit, ...]:
    """Edits of an object as edits of its document (an item of a List is below `items`)."""
    return tuple(Edit(document.root.join(*edit.path.parts), edit.value, edit.op) for edit in changes)


def is_proved(
    obj: JSON, result: Result, finding: GradedFinding, changes: Sequence[Edit], policy: Policy, facts: Facts
) -> bool:
    """With the edits the finding is gone, and the container has no other one that is denied or likely and was not
    there before."""
    if not changes:
        return False
    try:
        after, done = edited(obj, [changes])
    except ValueError:
        return False
    path = result.engine.container.path
    results = lint(after, policy, facts, where="check").results
    now = next((candidate for candidate in results if candidate.engine.container.path == path), None)
    if now is None or not all(done):
        return False
    before = {(graded.rule, graded.finding.message) for graded in result.findings}
    return not any(
        (graded.rule == finding.rule and str(graded.field_path) == str(finding.field_path))
        or (graded.level != "advice" and graded.is_reported and (graded.rule, graded.finding.message) not in before)
        for graded in now.findings
        if graded.is_reported
    )  # fmt: skip


def proved_edits(
    obj: JSON, result: Result, finding: GradedFinding, text: str, policy: Policy, facts: Facts
) -> tuple[Edit, ...]:
    """The edits that follow one suggestion of a finding, if they are proved to help; else none."""
    changes = suggestion.edits(result.engine, finding.field_path, text)
    return changes if is_proved(obj, result, finding, changes, policy, facts) else ()
