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
from podfit.report.checked import Checked, CheckedContainer, FileProblem, Item

NEVER = "1970-01-01T00:00:00"
"""The schema wants a time, also of a report without one."""


def render(checked: Checked) -> str:
    """The XML of the run. Every container is at least one case: a clean one passes. Warnings pass, unless they fail the
    run. The first suite prints the notes on the whole run."""
    files = dict.fromkeys([*checked.files, *map(_suite_name, checked.problems)])
    out = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for number, file in enumerate(files):
        run_notes = answers.newer_releases(checked) if number == 0 else []
        out += _suite(number, file, checked, run_notes)
    return "\n".join([*out, "</testsuites>"]) + "\n"


def _suite_name(problem: FileProblem) -> str:
    """The suite of a problem: its file, or "podfit" if it is not one of a file."""
    return problem.file or "podfit"


def _suite(number: int, file: str, checked: Checked, run_notes: list[str]) -> list[str]:
    """The lines of the test suite of one file. It has the cases of its containers, problems and skipped parts. Its
    output is the `run_notes` and the findings that do not fail the run. `number`: its id, from 0."""
    containers = [container for container in checked.containers if container.file == file]
    items = [item for container in containers for item in container.items]
    problems = [problem for problem in checked.problems if _suite_name(problem) == file]
    skips = [note for note in checked.skips if note.file == file]

    cases = [case for container in containers for case in _cases(container, checked)]
    for problem in problems:
        cases.append(_case("readable", file, _outcome("error", "unreadable", str(problem), str(problem))))
    for note in skips:
        cases.append(_case(f"skipped: {note.skips}, line {note.line or 1}", file, _skip(note, checked)))

    failures = sum(map(checked.fails, items))
    skipped = sum(item.accepted is not None for item in items)
    if checked.fail_on_skipped:
        failures += len(skips)
    else:
        skipped += len(skips)
    warnings = [item for item in items if item.accepted is None and not checked.fails(item)]
    warning_texts = [block(item.finding, f"{HEADINGS[item.finding.heading]}  ") for item in warnings]
    printed = "\n".join([*run_notes, *warning_texts])
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
    """The test cases of one container: one for each finding, accepted ones too, or one that passes if it has none."""
    engine = container.result.engine
    template = f", template {engine.workload.template}" if engine.workload.template else ""
    place = subject.describe_object(container.report.object)
    name = f"{place}{template}, container {subject.printable_name(engine.container.name)}"
    if not container.items:
        return [_case(name, container.file, "")]
    return [_case(f"{name}: {item.finding.rule}", container.file, _finding(item, checked)) for item in container.items]


def _finding(item: Item, checked: Checked) -> str:
    """The element in a finding's case: `skipped` if it is accepted, `failure` if it fails the run. Empty for all
    others, which pass."""
    if item.accepted is not None:
        return f"<skipped>{_text(f'{item.accepted.by}: {item.accepted.reason}')}</skipped>"
    if not checked.fails(item):
        return ""
    place = f"{one_line(item.file)}:{item.mark.line}:{item.mark.column}"
    return _outcome("failure", item.finding.rule, item.finding.finding.message, f"{place}\n{block(item.finding)}")


def _skip(note: Note, checked: Checked) -> str:
    """The element in the case of a part of a file that is left out: `failure` with --fail-on-skipped, else
    `skipped`."""
    message = FORMS.line(note.message)
    if checked.fail_on_skipped:
        return _outcome("failure", "skipped", message, message)
    return f"<skipped>{_text(message)}</skipped>"


def _outcome(element: str, failure_type: str, message: str, body: str) -> str:
    """An `error` or `failure` element; `failure_type` is its attribute `type`: a rule, "unreadable" or "skipped"."""
    return f"<{element} type={_attribute(failure_type)} message={_attribute(message)}>{_text(body)}</{element}>"


def _case(name: str, file: str, outcome: str) -> str:
    """The line of a test case. `outcome`: the element in it; empty if it passes."""
    head = f'    <testcase name={_attribute(name)} classname={_attribute(file)} time="0"'
    return f"{head}>{outcome}</testcase>" if outcome else f"{head}/>"


def _attribute(text: str) -> str:
    """The text as an XML attribute, with its quotes, in one line."""
    return quoteattr(one_line(text))


def _text(text: str) -> str:
    """The text as the content of an XML element, without characters that a terminal would obey."""
    return escape(clean(text))
