"""Edits that follow a suggestion, and the proof that they help."""

from __future__ import annotations

from collections.abc import Sequence

from podfit.evaluation.lint import GradedFinding, Result, lint
from podfit.evaluation.policy import Policy
from podfit.kube.manifest import Document
from podfit.kube.patch import Edit, edited
from podfit.kube.workload import JSON
from podfit.rules import suggestion
from podfit.vllm.change import Change
from podfit.vllm.facts import Facts

DocumentEdits = Sequence[tuple[int, Sequence[Edit]]]
"""Index of a document in a text → its edits, from the document's root."""


def rooted(document: Document, changes: Sequence[Edit]) -> tuple[Edit, ...]:
    """Edits of an object as edits of its document (an item of a List is below `items`)."""
    return tuple(Edit(document.root.join(*edit.path.parts), edit.value, edit.op) for edit in changes)


def is_proved(
    obj: JSON, result: Result, finding: GradedFinding, changes: Sequence[Edit], policy: Policy, facts: Facts
) -> bool:
    """Return whether with the edits the finding is gone, and the container has no new one that is denied or likely.
    False if the edits are none, or do not all fit the object."""
    if not changes:
        return False
    try:
        after, changed = edited(obj, [changes])
    except ValueError:
        return False
    path = result.engine.container.path
    results = lint(after, policy, facts, where="check").results
    result_after = next((candidate for candidate in results if candidate.engine.container.path == path), None)
    if result_after is None or not all(changed):
        return False
    messages_before = {(graded.rule, graded.finding.message) for graded in result.findings}
    for graded in result_after.findings:
        if not graded.is_reported:
            continue
        is_same = graded.rule == finding.rule and str(graded.field_path) == str(finding.field_path)
        is_new = (graded.rule, graded.finding.message) not in messages_before
        if is_same or (is_new and graded.level != "advice"):
            return False
    return True


def proved_edits(
    obj: JSON, result: Result, finding: GradedFinding, change: Change, policy: Policy, facts: Facts
) -> tuple[Edit, ...]:
    """The edits that follow one suggestion of a finding, if they are proved to help; else none."""
    changes = suggestion.edits(result.engine, finding.field_path, change)
    return changes if is_proved(obj, result, finding, changes, policy, facts) else ()
