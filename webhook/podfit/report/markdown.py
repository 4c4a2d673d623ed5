"""Checked → Markdown: a comment on a pull request, a job's summary."""

from __future__ import annotations

import re

from podfit.base.lazy import regex
from podfit.base.printable import one_line
from podfit.base.secret import FORMS
from podfit.evaluation import subject
from podfit.evaluation.denial import HEADINGS, PLANES, more_advice
from podfit.report import answers
from podfit.report.checked import Checked, CheckedContainer, Item
from podfit.report.repeated import merged
from podfit.report.text import MANY, chosen_of, places, summary, tally, why_not_denied


def render(checked: Checked) -> str:
    """The report as Markdown: the problems first, the clean containers in one line."""
    answered = answers.line(entry.result.engine for entry in checked.containers)
    out = ["## podfit", "", tally(checked), "", *([escaped(answered), ""] if answered else [])]
    for newer in answers.newer_releases(checked):
        out += [escaped(newer), ""]
    for problem in checked.problems:
        out += [f"- **unreadable** {escaped(str(problem))}"]
    if checked.problems:
        out.append("")
    out += [f"- **skipped** {escaped(FORMS.line(str(note)))}" for note in checked.skips[:MANY]]
    out += ["", f"and {len(checked.skips) - MANY:,} more", ""] if len(checked.skips) > MANY else []
    out += [""] if checked.skips else []
    for container in merged(checked.containers):
        if any(item.accepted is None for item in container.items):
            out += _container(container)
    accepted = [item for item in checked.items if item.accepted is not None and item.accepted.by != "baseline"]
    if accepted:
        out += [f"<details><summary>{len(accepted)} accepted</summary>", ""]
        out += [f"- `{item.finding.rule}` {_place(item)}: {escaped(_why(item))}" for item in accepted]
        out += ["", "</details>", ""]
    return "\n".join(out)


def _why(item: Item) -> str:
    return f"{item.accepted.by}: {item.accepted.reason}" if item.accepted else ""


def _container(container: CheckedContainer) -> list[str]:
    """The section of one container: its state, summary and table of findings."""
    open_headings = [item.finding.heading for item in container.items if item.accepted is None]
    state = next(words for heading, words in HEADINGS.items() if heading in open_headings)
    first = container.items[0]
    engine = container.result.engine
    template = engine.workload.template
    which = f", template {code(subject.printable_name(template))}" if template else ""
    name = code(subject.printable_name(engine.container.name))
    out = [f"### {escaped(first.object)}{which}, container {name}: {state}", ""]
    out += [escaped(summary(engine, container.report.secrets)), ""]
    out += ["| | rule | where | what is wrong | what would help |", "| --- | --- | --- | --- | --- |"]
    chosen = chosen_of((item for item in container.items if item.accepted is None), all_advice=False)
    out += [_row(item) for item in chosen.items]
    out += [f"| | `{rule}` | | {more.sentence} | |" for rule, more in chosen.more.items()]
    out += [f"| | | | {more_advice(chosen.advice_left)}: `podfit check -v` | |"] if chosen.advice_left else []
    return [*out, ""]


def _row(item: Item) -> str:
    """One row of the table of findings."""
    finding = item.finding.finding
    mark = HEADINGS[item.finding.heading]
    mark = f"**{mark}**" if item.finding.level == "denied" else mark
    helps = "<br>".join(escaped(text) for text in item.finding.suggestions)
    not_denied = (f"not denied: {why}",) if (why := why_not_denied(item)) else ()
    sentence = "<br>".join(escaped(text) for text in (finding.message, *finding.details, *not_denied))
    return f"| {mark} | `{item.finding.rule}`<br>{PLANES[item.finding.plane]} | {_place(item)} | {sentence} | {helps} |"


def _place(item: Item) -> str:
    also = f"<br>also in {places(item)}" if item.more_marks else ""
    return f"{code(f'{item.file}:{item.mark.line}')}{also}<br>{code(item.finding.path)}"


def code(text: str) -> str:
    """Return the text as code, in a table too. A text with signs that end a code span is escaped instead."""
    line = one_line(text)
    return f"<code>{escaped(line)}</code>" if set("`|\\") & set(line) else f"`{line}`"


def escaped(text: str) -> str:
    """Return the text as Markdown takes it for text, in a table too."""
    return re.sub(r"([\\`*_{}<>|#~\[\]&$])", r"\\\1", _MENTION.sub("@\u200b", one_line(text)))


_MENTION = regex(r"(?<!\w)@(?=\w)")
"""A mention of a user or a team on GitHub and GitLab, who would get a message. The digest of an image is none."""
