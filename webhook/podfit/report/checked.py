"""The result of `podfit check`, common to all formats: findings with their places in the files, accepted or not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from podfit.base.lazy import regex
from podfit.base.secret import FORMS, Secrets
from podfit.evaluation import subject
from podfit.evaluation.denial import LEVELS
from podfit.evaluation.lint import GradedFinding, Report, Result
from podfit.kube.manifest import Document, Note, SkipReason
from podfit.kube.manifest.part import Mark
from podfit.kube.path import FieldPath, mapping
from podfit.report.comments import Comment, read_comments
from podfit.rules.rule import Heading, Level

Severity = Literal["error", "warning", "note"]
SEVERITIES: Mapping[Level, Severity] = {"denied": "error", "likely": "warning", "advice": "note"}
"""SARIF's word for each level."""


class Accepted(NamedTuple):
    """Why a finding does not count: a user wrote so."""

    by: Literal["annotation", "exception", "comment", "baseline"]
    reason: str


class Item(NamedTuple):
    """One finding at its place."""

    file: str
    document: Document
    report: Report
    result: Result
    finding: GradedFinding
    mark: Mark
    accepted: Accepted | None = None
    more_marks: tuple[Mark, ...] = ()
    """The places of the same finding in later containers of the object (`report.repeated`)."""

    @property
    def severity(self) -> Severity:
        """The severity of its level, for formats with three severities."""
        return SEVERITIES[self.finding.level]

    @property
    def object(self) -> str:
        """The object's kind, namespace and name for people: "Deployment prod/llama"."""
        return subject.describe_object(self.report.object)

    @property
    def fingerprint(self) -> str:
        """An id of 16 hexadecimal digits that stays the same if lines, indices and numbers move. It is made of rule,
        object, container, field, and the name of the finding's flag or list item."""
        return self._hashed(*_names(self))

    @property
    def fingerprint_1(self) -> str:
        """The fingerprint in baselines of version 1, without names."""
        return self._hashed()

    def _hashed(self, *names: str) -> str:
        """16 hexadecimal digits of rule, object, container, field without its indices, and `names`."""
        from hashlib import sha256  # only baselines and reports want it, and a start waits for it

        field = re.sub(r"\[\d+\]", "[]", str(self.finding.field_path))
        parts = (self.finding.rule, self.object, self.result.engine.container.name, field, *names)
        return sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()[:16]

    @property
    def source(self) -> str:
        """The first line of the finding's place in the file, with stars for secrets: it goes into logs and reports."""
        line, secrets = _line(self.document.text, self.mark.line), self.report.secrets
        for mark in secret_marks(self.document, secrets):
            line = starred(line, self.mark.line, mark)
        return secrets.source_line(line)


def secret_marks(document: Document, secrets: Secrets) -> Iterator[Mark]:
    """The places of values that are secrets as a whole, whatever their spelling in YAML."""
    for place in secrets.places:
        if (mark := document.value_at(FieldPath(place))) is not None:
            yield mark


def starred(line: str, number: int, mark: Mark) -> str:
    """Return a line of a file with a star for each character that is within the mark. `number`: that of the line, from
    1."""
    if not mark.line <= number <= mark.end_line:
        return line
    start = mark.column - 1 if mark.line == number else 0  # a mark's columns are from 1
    end = mark.end_column - 1 if mark.end_line == number else len(line)
    return line[:start] + "*" * len(line[start:end]) + line[end:]


def _names(item: Item) -> Iterator[str]:
    """The names that distinguish a finding from others of its rule: those of the list items in its path (`env`,
    `volumes`), and a command's flag. Each is empty if it is unknown: baselines are hashes of them."""
    path, obj = item.finding.field_path, item.report.object
    for end, part in enumerate(path.parts, 1):
        if isinstance(part, int):
            list_item = mapping(FieldPath(path.parts[:end]).get(obj))
            yield str(list_item.get("name") or "")
    value = path.get(obj)
    text = value if isinstance(value, str) else ""
    is_command = not {"args", "command"}.isdisjoint(path.parts)
    if "--" in text or is_command:
        flag = _ONE_FLAG.match(text) or _FLAG.search(item.finding.finding.message)
        yield flag[0].replace("_", "-") if flag else ""


class FileProblem(NamedTuple):
    """A file, or a part of one, that could not be checked."""

    file: str | None
    """None if the problem is not one of a file."""
    line: int | None
    """From 1; None if it is the whole file's."""
    message: str
    """Without file and line."""

    @classmethod
    def of(cls, file: str | None, line: int | None, message: str) -> FileProblem:
        """A problem whose message may quote the file: in one line, with stars for what looks like a secret."""
        return cls(file, line, FORMS.line(message))

    def __str__(self) -> str:
        place = ":".join(filter(None, (self.file, str(self.line) if self.line else None)))
        return f"{place}: {self.message}" if place else self.message


class CheckedContainer(NamedTuple):
    """One vLLM container of a file."""

    file: str
    document: Document
    report: Report
    result: Result
    items: tuple[Item, ...]
    """The findings that deny or warn, in the order of the rules."""
    repeated: tuple[Item, ...] = ()
    """Findings that an earlier container of the object has, too (`report.repeated`)."""

    @property
    def state(self) -> Literal["denied", "warned", "clean"]:
        """The state by its findings, without the accepted ones."""
        modes = {item.finding.mode for item in self.items if item.accepted is None}
        return "denied" if "deny" in modes else "warned" if modes else "clean"


RULE_PAGES = "https://podfit.github.io/podfit/rules/{rule}/"
"""The pages of the documentation site (zensical.toml, `site_url`)."""


class Checked(NamedTuple):
    """A whole run."""

    files: tuple[str, ...]
    containers: tuple[CheckedContainer, ...]
    problems: tuple[FileProblem, ...]
    notes: tuple[str, ...]
    fail_on: Level = "denied"
    """The lowest level that makes the run fail."""
    skips: tuple[Note, ...] = ()
    """The files, and parts of files, that are left out."""
    fail_on_skipped: bool = False
    """A skipped file makes the run fail."""
    printed: frozenset[str] = frozenset()
    """The names among `files` of what a program or an API server printed: no file that `podfit fix` can read."""
    audit: bool = False
    """JSON has the findings that the policy only audits, too."""
    namespace: str | None = None
    """The namespace of objects that name none."""
    repairable: int = 0
    """How many of the open findings `podfit fix` repairs in their files."""
    fix: tuple[str, ...] = ()
    """The arguments of `podfit fix` for that; empty if it repairs nothing."""
    when: datetime | None = None
    """The time of the run, for formats that have one."""
    docs: str | None = None
    """Where the rule pages are; None: on podfit's site, without links in text."""

    @property
    def items(self) -> tuple[Item, ...]:
        """All findings, accepted ones too."""
        return tuple(item for container in self.containers for item in container.items)

    @property
    def open(self) -> tuple[Item, ...]:
        """The findings that are not accepted."""
        return tuple(item for item in self.items if item.accepted is None)

    def count(self, level: Level) -> int:
        """How many open findings have this level."""
        return sum(item.finding.level == level for item in self.open)

    @property
    def headings(self) -> Mapping[Heading, int]:
        """Each heading with the number of its open findings."""
        return Counter(item.finding.heading for item in self.open)

    def page(self, rule: str) -> str:
        """The URL of a rule's page."""
        pages = self.docs or RULE_PAGES
        return pages.replace("{rule}", rule) if "{rule}" in pages else f"{pages.rstrip('/')}/{rule}"

    def fails(self, item: Item) -> bool:
        """True if this finding makes the run fail: it is not accepted, and its level is `fail_on` or above."""
        levels = list(LEVELS)  # the most serious one first
        return item.accepted is None and levels.index(item.finding.level) <= levels.index(self.fail_on)

    @property
    def code(self) -> int:
        """The exit code, the same for every format: 3 with a problem, 1 if the run fails, else 0."""
        if self.problems:
            return 3
        fails = any(map(self.fails, self.items)) or (self.fail_on_skipped and bool(self.skips))
        return 1 if fails else 0

    @property
    def skipped(self) -> Mapping[SkipReason, int]:
        """Each reason with the number of files in which something is left out for it."""
        reasons_and_files = dict.fromkeys((note.skips, note.file) for note in self.skips)  # a file once per reason
        return Counter(reason for reason, _ in reasons_and_files if reason is not None)


def container(file: str, document: Document, report: Report, result: Result) -> CheckedContainer:
    """The findings of one container at their places: those that deny or warn, and those that an annotation, an
    exception of a policy or a comment in the file accepts."""
    comments = read_comments(document.text)
    items = []
    for finding in result.findings:
        if finding.exempted is None and not finding.is_reported:
            continue  # only audited, or ignored
        mark = _narrowed(document, finding)
        if finding.exempted is not None:
            accepted: Accepted | None = Accepted(finding.exempted, finding.why_softened or "")
        else:
            accepted = _accepted_by_comment(comments, finding.rule, mark, report.secrets)
        items.append(Item(file, document, report, result, finding, mark, accepted))
    return CheckedContainer(file, document, report, result, tuple(items))


def is_audited(finding: GradedFinding) -> bool:
    """True if the policy only audits the finding, whatever its `enforce.mode`, and no exception accepts it."""
    return finding.mode == "audit" and not finding.is_reported and finding.exempted is None


def audited(file: str, document: Document, report: Report) -> Iterator[str]:
    """A line for each finding that a policy only audits, without those with an exception."""
    for result in report.results:
        for finding in result.findings:
            if is_audited(finding):
                line = document.line_of(finding.field_path)
                yield f"{file}:{line}: only audited: {finding.rule}: {finding.finding.message}"


def commented(document: Document, report: Report) -> Iterator[tuple[Result, GradedFinding]]:
    """(result, finding) of each finding that a comment in the file accepts, also of those that are not shown."""
    if comments := read_comments(document.text):
        for result in report.results:
            for finding in result.findings:
                if _accepted_by_comment(comments, finding.rule, _narrowed(document, finding), report.secrets):
                    yield result, finding


def _accepted_by_comment(comments: Mapping[int, Comment], rule: str, mark: Mark, secrets: Secrets) -> Accepted | None:
    """The acceptance of a finding whose place begins in a line with a comment that names its rule; else None."""
    comment = comments.get(mark.line)
    if comment is None or rule not in comment.rules:
        return None
    return Accepted("comment", secrets.line(comment.reason, quoted=True))


# ── Places ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_ONE_FLAG = regex(r"--?[A-Za-z][\w-]*(?=[=\s.]|\Z)")
"""A flag that begins an argument, long or short."""
_FLAG = regex(r"--[a-z][\w-]*")
"""A long flag in a sentence."""
_BLOCK_HEADER = regex(r"[|>][+-]?\d?\s*(?:#.*)?")
"""The header of a block scalar, with a comment: `|`, `>-`."""


def _narrowed(document: Document, graded: GradedFinding) -> Mark:
    """The place of the finding's value; in it, that of the first flag that the finding names. Without a flag, of a
    value of several lines its first line, without the header (`|`)."""
    mark = document.mark_of(graded.field_path)
    lines = document.text.split("\n")
    finding = graded.finding
    sentences = " ".join((finding.message, *finding.details, *graded.suggestions))
    for flag in dict.fromkeys(_FLAG.findall(sentences)):
        if flag_mark := _flag_mark(lines, mark, flag):
            return flag_mark
    return mark if mark.end_line == mark.line else _first_line(lines, mark)


def _flag_mark(lines: Sequence[str], mark: Mark, flag: str) -> Mark | None:
    """The first place of a flag and its value within the mark, with hyphens or underscores; None if it is not there."""
    name = "[-_]".join(map(re.escape, flag[2:].split("-")))
    pattern = re.compile(rf"(?<![\w-])--{name}(?:[= ]+[^\s\\,\]\"']+)?(?![\w-])")
    for number in range(mark.line, min(mark.end_line, len(lines)) + 1):
        first = mark.column - 1 if number == mark.line else 0
        last = mark.end_column - 1 if number == mark.end_line else None
        match = pattern.search(lines[number - 1][:last], first)
        if match:
            return Mark(number, match.start() + 1, number, match.end() + 1)
    return None


def _first_line(lines: Sequence[str], mark: Mark) -> Mark:
    """The first line within the mark that is neither blank nor a block scalar's header (`args: - |`), without the
    spaces around it. The mark's first character if there is none."""
    for number in range(mark.line, min(mark.end_line, len(lines)) + 1):
        line = lines[number - 1]
        text = line[mark.column - 1 :] if number == mark.line else line
        if text.strip() and not _BLOCK_HEADER.fullmatch(text.strip()):
            return Mark(number, len(line) - len(text.lstrip()) + 1, number, len(line.rstrip()) + 1)
    return Mark(mark.line, mark.column, mark.line, mark.column + 1)


def _line(text: str, number: int) -> str:
    """The line with this number, from 1, without its line break; empty if the text has no such line."""
    lines = text.split("\n")
    return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""
