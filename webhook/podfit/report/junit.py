"""Checked → JUnit XML: a test suite a file, a test case a finding; as Ant's schema has it, which Jenkins, GitLab and
the others read."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from podfit import __version__
from podfit.base.printable import clean, one_line
from podfit.base.secret import FORMS
from podfit.evaluation import subject
from podfit.evaluation.denial import HEADINGS, block
from podfit.kube.manifest import Note
from podfit.report import answers
from podfit.report.checked import Checked, CheckedContainer, Item

NEVER = "1970-01-01T00:00:00"
"""The schema wants a time, also of a report without one."""


def render(checked: Checked) -> str:
    """Every container is at least one case: a clean one passes. Warnings pass, unless they fail the run."""
    files = dict.fromkeys([*checked.files, *(problem.file or "podfit" for problem in checked.problems)])
    out = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for number, file in enumerate(files):
        out += _suite(number, file, checked, [] if number else answers.newer_releases(checked))
    return "\n".join([*out, "</testsuites>"]) + "\n"


def _suite(number: int, file: str, checked: Checked, notes: list[str]) -> list[str]:
    """The test suite of one file. `notes`: of the whole run."""
    containers = [container for container in checked.containers if container.file == file]
    problems = [problem for problem in checked.problems if (problem.file or "podfit") == file]
    cases = [case for container in containers for case in _cases(container, checked)]
    cases += [
        _case("readable", file, _outcome("error", "unreadable", str(problem), str(problem))) for problem in problems
    ]
    skips = [note for note in checked.skips if note.file == file]
    cases += [_case(f"skipped: {note.skips}, line {note.line or 1}", file, _skip(note, checked)) for note in skips]
    items = [item for container in containers for item in container.items]
    failures = sum(map(checked.fails, items)) + checked.fail_on_skipped * len(skips)
    skipped = sum(item.accepted is not None for item in items) + (not checked.fail_on_skipped) * len(skips)
    warned = [
        block(item.finding, f"{HEADINGS[item.finding.heading]}  ")
        for item in items
        if item.accepted is None and not checked.fails(item)
    ]
    printed = "\n".join([*notes, *warned])
    when = f"{checked.when:%Y-%m-%dT%H:%M:%S}" if checked.when else NEVER
    return [
        f'  <testsuite id="{number}" name={_attribute(file)} package="podfit" timestamp="{when}" hostname="localhost" '
        f'tests="{len(cases)}" failures="{failures}" errors="{len(problems)}" skipped="{skipped}" time="0">',
        f'    <properties><property name="podfit" value="{__version__}"/></properties>',
        *cases,
        f"    <system-out>{_text(printed)}</system-out>",
        "    <system-err></system-err>",
        "  </testsuite>",
    ]


def _cases(container: CheckedContainer, checked: Checked) -> list[str]:
    """The test cases of one container."""
    engine = container.result.engine
    template = f", template {engine.workload.template}" if engine.workload.template else ""
    place = subject.describe_object(container.report.object)
    name = f"{place}{template}, container {subject.printable_name(engine.container.name)}"
    if not container.items:
        return [_case(name, container.file, "")]
    return [_case(f"{name}: {item.finding.rule}", container.file, _finding(item, checked)) for item in container.items]


def _finding(item: Item, checked: Checked) -> str:
    """The element of a finding: skipped if accepted, failure if it fails the run, else none."""
    if item.accepted is not None:
        return f"<skipped>{_text(f'{item.accepted.by}: {item.accepted.reason}')}</skipped>"
    if not checked.fails(item):
        return ""
    place = f"{one_line(item.file)}:{item.mark.line}:{item.mark.column}"
    return _outcome("failure", item.finding.rule, item.finding.finding.message, f"{place}\n{block(item.finding)}")


def _skip(note: Note, checked: Checked) -> str:
    """The outcome of a part of a file that is left out."""
    message = FORMS.line(note.message)
    if checked.fail_on_skipped:
        return _outcome("failure", "skipped", message, message)
    return f"<skipped>{_text(message)}</skipped>"


def _outcome(element: str, kind: str, message: str, body: str) -> str:
    return f"<{element} type={_attribute(kind)} message={_attribute(message)}>{_text(body)}</{element}>"


def _case(name: str, file: str, outcome: str) -> str:
    head = f'    <testcase name={_attribute(name)} classname={_attribute(file)} time="0"'
    return f"{head}>{outcome}</testcase>" if outcome else f"{head}/>"


def _attribute(text: str) -> str:
    return quoteattr(one_line(text))


def _text(text: str) -> str:
    return escape(clean(text))
