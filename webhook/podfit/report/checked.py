"""The result of `podfit check`, common to all formats: findings with their places in the files, accepted or not."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from podfit.base.lazy import regex
from podfit.base.near import nearest
from podfit.base.secret import FORMS, Secrets
from podfit.evaluation import subject
from podfit.evaluation.denial import LEVELS
from podfit.evaluation.lint import GradedFinding, Report, Result
from podfit.kube.manifest import Document, Note, SkipReason
from podfit.kube.manifest.part import Mark
from podfit.kube.path import FieldPath, mapping
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
        """Stays the same where lines, indices and numbers move: rule, object, container, field, and the name of the
        flag or of the list's item that it speaks of."""
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
        """The line of the file with stars for what may not be quoted, for it goes into logs and reports."""
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
    """Return a line of a file with a star for each character that is within the mark."""
    if not mark.line <= number <= mark.end_line:
        return line
    start = mark.column - 1 if mark.line == number else 0
    end = mark.end_column - 1 if mark.end_line == number else len(line)
    return line[:start] + "*" * len(line[start:end]) + line[end:]


def _names(item: Item) -> Iterator[str]:
    """The names that distinguish a finding from others of its rule: those of the list items in its path (`env`,
    `volumes`), and a command's flag."""
    path, obj = item.finding.field_path, item.report.object
    for end, part in enumerate(path.parts, 1):
        if isinstance(part, int):
            yield str(mapping(FieldPath(path.parts[:end]).get(obj)).get("name") or "")
    value = path.get(obj)
    text = value if isinstance(value, str) else ""
    if "--" in text or not {"args", "command"}.isdisjoint(path.parts):
        flag = _ONE_FLAG.match(text) or _FLAG.search(item.finding.finding.message)
        yield flag[0].replace("_", "-") if flag else ""


class FileProblem(NamedTuple):
    """A file, or a part of one, that could not be checked."""

    file: str | None
    line: int | None
    message: str
    """Without file and line."""

    @classmethod
    def of(cls, file: str | None, line: int | None, message: str) -> FileProblem:
        """With a message of whatever origin."""
        return cls(file, line, FORMS.line(message))

    def __str__(self) -> str:
        where = [part for part in (self.file, str(self.line) if self.line else None) if part]
        return f"{':'.join(where)}: {self.message}" if where else self.message


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
        """This finding makes the run fail."""
        levels = list(LEVELS)
        return item.accepted is None and levels.index(item.finding.level) <= levels.index(self.fail_on)

    @property
    def code(self) -> int:
        """The exit code, the same for every format."""
        fails = any(map(self.fails, self.items)) or (self.fail_on_skipped and self.skips)
        return 3 if self.problems else 1 if fails else 0

    @property
    def skipped(self) -> Mapping[SkipReason, int]:
        """Each reason with the number of files in which something is left out for it."""
        files = dict.fromkeys((note.skips, note.file) for note in self.skips)
        return Counter(reason for reason, _ in files if reason is not None)


def container(file: str, document: Document, report: Report, result: Result) -> CheckedContainer:
    """The findings of one container at their places, with what annotations, exceptions and comments accept: those that
    deny or warn, and those that a policy or an annotation accepts."""
    comments = _comments(document.text)
    items = []
    for finding in result.findings:
        if finding.exempted is None and not finding.is_reported:
            continue
        accepted = Accepted(finding.exempted, finding.why_softened or "") if finding.exempted is not None else None
        mark = _narrowed(document, finding)
        accepted = accepted or _accepted_by_comment(comments, finding.rule, mark, report.secrets)
        items.append(Item(file, document, report, result, finding, mark, accepted))
    return CheckedContainer(file, document, report, result, tuple(items))


def is_audited(finding: GradedFinding) -> bool:
    """The policy only audits it, also if it enforced, and no exception accepts it."""
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
    if comments := _comments(document.text):
        for result in report.results:
            for finding in result.findings:
                if _accepted_by_comment(comments, finding.rule, _narrowed(document, finding), report.secrets):
                    yield result, finding


# ── Places ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_ONE_FLAG = regex(r"--?[A-Za-z][\w-]*(?=[=\s.]|\Z)")
_FLAG = regex(r"--[a-z][\w-]*")


def _narrowed(document: Document, graded: GradedFinding) -> Mark:
    """The place of the finding's value; in it, that of the first flag that the finding names. Without a flag, of a
    value of several lines its first line, without the header (`|`)."""
    mark = document.mark_of(graded.field_path)
    lines = document.text.split("\n")
    finding = graded.finding
    for flag in dict.fromkeys(_FLAG.findall(" ".join((finding.message, *finding.details, *graded.suggestions)))):
        name = "[-_]".join(map(re.escape, flag[2:].split("-")))
        pattern = re.compile(rf"(?<![\w-])--{name}(?:[= ]+[^\s\\,\]\"']+)?(?![\w-])")
        for number in range(mark.line, mark.end_line + 1):
            first = mark.column - 1 if number == mark.line else 0
            last = mark.end_column - 1 if number == mark.end_line else None
            match = pattern.search(lines[number - 1][:last], first) if number <= len(lines) else None
            if match:
                return Mark(number, match.start() + 1, number, match.end() + 1)
    if mark.end_line == mark.line:
        return mark
    # The text begins in its header's next line (`args: - |`).
    for number in range(mark.line, min(mark.end_line, len(lines)) + 1):
        text = lines[number - 1][mark.column - 1 :] if number == mark.line else lines[number - 1]
        if text.strip() and not re.fullmatch(r"[|>][+-]?\d?\s*(?:#.*)?", text.strip()):
            start = len(lines[number - 1]) - len(text.lstrip())
            return Mark(number, start + 1, number, len(lines[number - 1].rstrip()) + 1)
    return Mark(mark.line, mark.column, mark.line, mark.column + 1)


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


# ── What is accepted ─────────────────────────────────────────────────────────────────────────────────────────────────

_COMMENT = regex(r"(?:^|\s)#\s*podfit:\s*ignore\s+(?P<rules>[a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)(?P<reason>.*)$")
_SEPARATOR = regex(r"^[\s:—–-]+")


def _comments(text: str) -> Mapping[int, tuple[frozenset[str], str]]:
    """Line → the rules that a comment silences there, and why. A comment on its own line is about the next line that is
    not a comment. One without a reason silences nothing (`in_vain` reports it)."""
    entries: dict[int, tuple[frozenset[str], str]] = {}
    if "podfit:" not in text:
        return entries
    lines = text.split("\n")
    for index, line in enumerate(lines):
        match = _COMMENT.search(line)
        reason = _SEPARATOR.sub("", match["reason"]).strip() if match else ""
        if match is None or not reason:
            continue  # no reason, no exception
        at = index
        if _is_comment(line):
            later_lines = range(index + 1, len(lines))
            at = next((later for later in later_lines if lines[later].strip() and not _is_comment(lines[later])), index)
        rules = frozenset(re.split(r"\s*,\s*", match["rules"]))
        before = entries.get(at + 1, (frozenset(), ""))
        entries[at + 1] = (rules | before[0], reason if not before[1] else f"{before[1]}; {reason}")
    return entries


def _accepted_by_comment(
    comments: Mapping[int, tuple[frozenset[str], str]], rule: str, mark: Mark, secrets: Secrets
) -> Accepted | None:
    """The acceptance in a comment on that line, if it names the rule."""
    rules, reason = comments.get(mark.line, (frozenset(), ""))
    return Accepted("comment", secrets.line(reason, quoted=True)) if rule in rules else None


def _is_comment(line: str) -> bool:
    """Return whether the line has nothing but a comment."""
    return line.lstrip().startswith("#")


def in_vain(file: str, text: str, rule_ids: Collection[str]) -> Iterator[str]:
    """A note for each comment that would silence a rule and says no reason, or names one that is not `rule_ids`."""
    if "podfit:" not in text:
        return
    for number, line in enumerate(text.split("\n"), 1):
        match = _COMMENT.search(line)
        if match is None:
            continue
        rules = match["rules"]
        for rule in re.split(r"\s*,\s*", rules):
            if rule not in rule_ids:
                near = next(iter(nearest(rule, rule_ids)), None)
                means = f"did you mean {near}?" if near else "`podfit explain` lists them"
                yield f"{file}:{number}: `podfit: ignore {rule}` silences nothing: there is no such rule; {means}"
        if not _SEPARATOR.sub("", match["reason"]).strip():
            yield f"{file}:{number}: `podfit: ignore {rules}` silences nothing without a reason: add ` -- why`"


VERSION = 2
"""The format version of a baseline. Version 1 did not distinguish two findings of one rule in a container's `args` or
`env`."""


def baseline(items: Iterable[Item]) -> dict[str, Any]:
    """The content of the file of `--write-baseline`: the findings that are accepted from now on, in an order that diffs
    well."""
    kept = [item for item in items if item.accepted is None or item.accepted.by == "baseline"]
    rows = [
        {
            "fingerprint": item.fingerprint,
            "rule": item.finding.rule,
            "file": item.file,
            "object": item.object,
            "container": item.result.engine.container.name,
            "path": str(item.finding.field_path),
        }
        for item in kept
    ]
    rows.sort(key=lambda row: (row["file"], row["object"], row["rule"], row["path"]))
    return {"version": VERSION, "findings": rows}


def with_baseline(checked: Checked, known: Mapping[str, object]) -> tuple[Checked, int]:
    """The run with the findings of a baseline accepted, each as often as it is there. Also how many of the baseline
    are gone from the files that were read. Raises ValueError if `known` is not a baseline."""
    version = known.get("version")
    rows = known.get("findings") if version in (1, VERSION) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) and row.get("fingerprint") for row in rows):
        raise ValueError(f"not a baseline: expected version 1 or {VERSION} and findings with fingerprints")
    left = Counter(str(row["fingerprint"]) for row in rows)

    def accept(item: Item) -> Item:
        """The item, accepted if the baseline has its fingerprint more often than items before it."""
        if item.accepted is not None:
            return item
        fingerprint = item.fingerprint_1 if version == 1 else item.fingerprint
        if not left[fingerprint]:
            return item
        left[fingerprint] -= 1
        return item._replace(accepted=Accepted("baseline", "known before"))

    containers = tuple(
        container._replace(items=tuple(accept(item) for item in container.items)) for container in checked.containers
    )
    read = {posixpath.normpath(file) for file in checked.files}
    counts = Counter(str(row["fingerprint"]) for row in rows if posixpath.normpath(str(row.get("file"))) in read)
    return checked._replace(containers=containers), (left & counts).total()
