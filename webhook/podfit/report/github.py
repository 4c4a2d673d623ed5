"""Checked → GitHub Actions' workflow commands: annotations on the lines of a pull request."""

from __future__ import annotations

from podfit.base.printable import clean
from podfit.base.secret import FORMS
from podfit.evaluation.denial import advice
from podfit.kube.manifest import Note
from podfit.report import answers
from podfit.report.checked import Checked, FileProblem, Item


def render(checked: Checked) -> str:
    """One command a finding; `::error` if it fails the run, else `::warning`, for advice `::notice`."""
    out = [_problem(problem) for problem in checked.problems]
    out += [_item(item, checked) for item in checked.open]
    out += [_skip(note, checked) for note in checked.skips]
    out += [f"::notice title=newer-release::{_data(text)}" for text in answers.newer_releases(checked)]
    return "".join(f"{line}\n" for line in out)


def _item(item: Item, checked: Checked) -> str:
    """A workflow command that annotates the finding's lines; columns only within one line."""
    finding = item.finding.finding
    command = "error" if checked.fails(item) else "notice" if item.finding.level == "advice" else "warning"
    mark = item.mark
    where = f"file={_property(_path(item.file))},line={mark.line},endLine={mark.end_line}"
    if mark.line == mark.end_line:
        where += f",col={mark.column},endColumn={max(mark.end_column - 1, mark.column)}"
    lines = [finding.message, *finding.details, *advice(item.finding)]
    lines.append(f"{item.object}, {item.finding.path} (podfit explain {item.finding.rule})")
    return f"::{command} {where},title={_property(item.finding.rule)}::{_data(chr(10).join(lines))}"


def _problem(problem: FileProblem) -> str:
    where = f" file={_property(_path(problem.file))}" if problem.file else ""
    where += f",line={problem.line}" if problem.file and problem.line else ""
    return f"::error{where}::{_data(problem.message)}"


def _skip(note: Note, checked: Checked) -> str:
    """A notice; an error if a skipped file fails the run."""
    command = "error" if checked.fail_on_skipped else "notice"
    line = f",line={note.line}" if note.line else ""
    return f"::{command} file={_property(_path(note.file))}{line},title=skipped::{_data(FORMS.line(note.message))}"


def _path(file: str) -> str:
    return file.removeprefix("./")


def _data(text: str) -> str:
    """Escape a message as @actions/core does."""
    return clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property as @actions/core does."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
