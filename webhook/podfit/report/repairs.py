"""The repairs of a file of manifests: `podfit fix` and the local page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from podfit.evaluation.lint import GradedFinding, Result, lint
from podfit.evaluation.policy import Policy
from podfit.evaluation.repair import Repaired, repair
from podfit.evaluation.suggested import rooted
from podfit.kube.manifest import Document
from podfit.kube.patch import Edit
from podfit.report import checked
from podfit.report.files import ManifestFile

Accepted = dict[int, list[tuple[Result, GradedFinding]]]
"""The `id` of a document → findings that stay as they are."""


def repaired(
    source: ManifestFile,
    policy: Policy,
    rules: frozenset[str],
    *,
    audited: bool,
    namespace: str | None = None,
    accepted: Mapping[int, Sequence[tuple[Result, GradedFinding]]] = MappingProxyType({}),
) -> list[tuple[Document, Repaired]]:
    """Each document with what its repair changes. `namespace`: of objects that name none. `accepted`: findings that
    stay as they are, besides those that a comment accepts."""

    def of(document: Document) -> Repaired:
        """The repairs of one document, without findings that its comments or a baseline accept."""
        report = (
            lint(document.object, policy, source.facts, where="check", namespace=namespace)
            if "podfit:" in document.text
            else None
        )
        commented = checked.commented(document, report) if report is not None else ()
        return repair(
            document.object,
            policy,
            source.facts,
            rules=rules,
            audited=audited,
            namespace=namespace,
            accepted=[*commented, *accepted.get(id(document), ())],
        )

    return [(document, of(document)) for document in source.manifests.documents]


def edits(repairs: list[tuple[Document, Repaired]]) -> list[tuple[int, tuple[Edit, ...]]]:
    """The repairs of each document, their paths from the document's root (an item of a List is below `items`)."""
    entries: dict[int, tuple[Edit, ...]] = {}
    for document, repaired in repairs:
        if repaired.edits:
            entries[document.index] = (*entries.get(document.index, ()), *rooted(document, repaired.edits))
    return list(entries.items())
