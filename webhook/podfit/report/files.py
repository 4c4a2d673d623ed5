"""Files of manifests, each with what is known next to its objects: their findings, problems and notes.

`podfit check` and the local page share them. Reading the files is `cli`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from podfit.base.secret import Secrets
from podfit.evaluation.lint import Report, lint
from podfit.evaluation.policy import Policy
from podfit.kube import helm, manifest
from podfit.kube.manifest import Document, Note, SkipReason
from podfit.kube.path import FieldPath
from podfit.kube.workload import unread
from podfit.report import checked
from podfit.report.checked import CheckedContainer, FileProblem
from podfit.report.comments import in_vain
from podfit.rules import all_rules
from podfit.rules.engine import Engine
from podfit.vllm.facts import Facts

MERGED: frozenset[SkipReason | None] = frozenset({"helm-template", "template"})
"""Reasons whose notes a report merges."""


class ManifestFile(NamedTuple):
    """A file that was read, and what is known next to its objects."""

    name: str
    manifests: manifest.Manifests
    facts: Facts
    """With the objects of the same directory, where these can be one release, else of the same file."""
    patches: Sequence[Note] = ()
    """The file's Kustomize patches, which are not among its documents: why each is one."""

    @property
    def merged_notes(self) -> tuple[Note, ...]:
        """The notes that a report merges if several files have the same."""
        return (*(note for note in self.manifests.notes if note.skips in MERGED), *self.patches)

    @property
    def skips(self) -> tuple[Note, ...]:
        """The documents of the file, or the whole file, that are left out."""
        return (*(note for note in self.manifests.notes if note.skips), *self.patches)


class CheckedFile(NamedTuple):
    """The findings of one file."""

    containers: tuple[CheckedContainer, ...]
    problems: tuple[FileProblem, ...]
    notes: tuple[str, ...]


def masked(text: str, manifests: manifest.Manifests, sign: str) -> str:
    """Return the text of a file with a sign for each character of a secret. Lines and columns stay."""
    lines = text.split("\n")
    for document in manifests.documents:
        for mark in checked.secret_marks(document, Secrets.of(document.object)):
            for number in range(mark.line, min(mark.end_line, len(lines)) + 1):
                lines[number - 1] = checked.starred(lines[number - 1], number, mark)
    sentence = "\n".join(lines)
    secrets = Secrets.of(*(document.object for document in manifests.documents))
    stars = secrets.masked(sentence, quoted=True)
    if len(stars) != len(sentence):
        return stars  # all of it is withheld
    pairs = zip(text, stars, strict=True)
    return "".join([before if before == after or before.isspace() else sign for before, after in pairs])


def check(
    source: ManifestFile,
    policy: Policy,
    *,
    rules: frozenset[str] | None = None,
    namespace: str | None = None,
    audit: bool = False,
) -> CheckedFile:
    """All findings, problems and notes about one file. `rules`: only findings of these, None: of all. `namespace`: of
    objects that name none. `audit`: a note for each finding that is only audited."""
    manifests = source.manifests
    problems = [FileProblem.of(error.file, error.line, error.message) for error in manifests.errors]
    containers: list[CheckedContainer] = []
    notes: list[str] = []
    for document in manifests.documents:
        report = lint(document.object, policy, source.facts, where="check", namespace=namespace)
        report = report if rules is None else _with_findings_of(report, rules)
        problems += [
            FileProblem.of(source.name, document.line, f"internal error in {error.rule}: {error.error}")
            for error in report.errors
        ]
        problems += [FileProblem(source.name, document.line, report.unread)] if report.unread else []
        containers += [checked.container(source.name, document, report, result) for result in report.results]
        notes += [str(note) for note in document.notes]
        engines = [result.engine for result in report.results]
        notes += [_another_server(source.name, document, engine) for engine in engines if engine.command.other]
        if audit:
            notes += checked.audited(source.name, document, report)
        notes += _not_evaluated(source.name, document, policy) if not report.results else ()
    notes += [str(note) for note in manifests.notes if note.skips not in MERGED]
    for document in manifests.documents[:1]:
        notes += in_vain(source.name, document.text, all_rules())
    return CheckedFile(tuple(containers), tuple(problems), tuple(notes))


def _with_findings_of(report: Report, rules: frozenset[str]) -> Report:
    """The report with the findings of these rules only."""
    if len(rules) == len(all_rules()):
        return report
    results = (
        result._replace(findings=tuple(finding for finding in result.findings if finding.rule in rules))
        for result in report.results
    )
    return replace(report, results=tuple(results))


def _another_server(file: str, document: Document, engine: Engine) -> str:
    """The note about a container with another server that takes vLLM's arguments."""
    return (
        f"{file}:{document.line_of(engine.command.path)}: container {engine.container.name!r} runs "
        f"{engine.command.other}, another server: its arguments and its memory are not checked"
    )


def _not_evaluated(file: str, document: Document, policy: Policy) -> Iterator[str]:
    """At most one note: why nothing of an object was evaluated although it has to do with vLLM."""
    obj = document.object
    if helm.is_chart(file, obj) or helm.is_values(file, obj):
        return  # `helm.notes` reports it
    if not unread.is_rendered(obj) and (place := unread.pod_spec(obj, policy.kinds)):
        yield _unread(file, document, place)
    elif missing := unread.without_kind(obj):
        yield _incomplete(file, document, missing)
    elif place := unread.mention(obj):
        yield _mentioned(file, document, place)


def _unread(file: str, document: Document, place: FieldPath) -> str:
    """The note on an object of a kind that is not evaluated."""
    kind, group = document.object.get("kind"), str(document.object.get("apiVersion")).rpartition("/")[0]
    word = f"{kind}.{group}" if group else kind
    pattern = ".".join("*" if isinstance(part, int) else part for part in place.parts)
    return (
        f"{file}:{document.line_of(place)}: not evaluated: podfit does not know where a {kind} has its Pods; "
        f"`kinds` of a policy can say: {word}: [{pattern}]"
    )


def _incomplete(file: str, document: Document, missing: Sequence[str]) -> str:
    """The note on an object that is only a part of a manifest."""
    fields, are = " and ".join(missing), "are" if len(missing) > 1 else "is"
    return (
        f"{file}:{document.line}: not checked: {fields} {are} missing, so this is not a Kubernetes object. "
        "Fix: check the whole manifest, for example with apiVersion: apps/v1 and kind: Deployment"
    )


def _mentioned(file: str, document: Document, place: FieldPath) -> str:
    """The note on an object that names vLLM, and of which nothing was evaluated."""
    obj = document.object
    kind, group = str(obj.get("kind")), str(obj.get("apiVersion")).rpartition("/")[0]
    head = f"{file}:{document.line_of(place)}: not evaluated: "
    if (command := unread.RENDERED.get((group, kind))) is not None:
        return f"{head}{place} names vLLM, and nothing is rendered here; check what this {kind} makes: {command}"
    is_named = len(place.parts) > 1 and place.parts[0] == "spec"
    why = f"{place} names vLLM" if is_named else f"a {kind} may run vLLM"
    return f"{head}{why}, and podfit does not know what Pods this {kind} makes; check them in a running cluster"
