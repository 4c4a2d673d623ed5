"""The repairs of a file of manifests: `podfit fix` and the local page."""

from __future__ import annotations

from webhook.evaluation.lint import lint
from webhook.evaluation.policy import Policy
from webhook.evaluation.repair import Repaired, repair
from webhook.kube.manifest import Document
from webhook.kube.patch import Edit
from webhook.report import checked
from webhook.report.files import ManifestFile


def repaired(
    source: ManifestFile, policy: Policy, rules: frozenset[str], *, audited: bool
) -> list[tuple[Document, Repaired]]:
    """Each document with what its repair changes."""

    def of(one: Document) -> Repaired:
        report = lint(one.object, policy, source.facts, where="check") if "podfit:" in one.text else None
        accepted = checked.commented(one, report) if report is not None else ()
        return repair(one.object, policy, source.facts, rules=rules, audited=audited, accepted=accepted)

    return [(one, of(one)) for one in source.manifests.documents]


def edits(repairs: list[tuple[Document, Repaired]]) -> list[tuple[int, tuple[Edit, ...]]]:
    """The repairs of each document, their paths from the document's root (an item of a List is below `items`)."""
    found: dict[int, tuple[Edit, ...]] = {}
    for document, one in repairs:
        rooted = tuple(Edit(document.root.join(*edit.path.parts), edit.value, edit.op) for edit in one.edits)
        if rooted:
            found[document.index] = (*found.get(document.index, ()), *rooted)
    return list(found.items())
