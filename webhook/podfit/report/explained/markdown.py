"""Explanations as Markdown: for an issue, a merge request or a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podfit.base.printable import one_line
from podfit.evaluation.denial import HEADINGS, advice
from podfit.kube.quantity import human
from podfit.report.explained import Chart, Explained
from podfit.report.markdown import escaped


def render(shown: Sequence[Explained]) -> str:
    """One section for each container."""
    return "\n".join(line for one in shown for line in _section(one))


def memory(one: Explained) -> str:
    """Whether it fits, and both memory tables of one container, short enough to hover."""
    lines = [f"**{escaped(one.verdict)}**: {escaped(one.why)}", ""]
    lines += [line for chart in one.charts for line in _table(chart)]
    lines += [f"- {escaped(name)}: {escaped(value)}" for name, value in one.results]
    return "\n".join(lines)


def _section(one: Explained) -> Iterator[str]:
    yield from (f"## {escaped(one.title)}", "", escaped(one.summary), "")
    yield from (f"**{escaped(one.standing)}**", "", f"{escaped(one.verdict)}: {escaped(one.why)}", "")
    for chart in one.charts:
        yield from _table(chart)
    for name, value in one.results:
        yield f"- {escaped(name)}: {escaped(value)}"
    if one.changes:
        yield from ("", "Each of these fits by itself:", "")
        yield from (f"{number}. {escaped(text)}" for number, text in enumerate(one.changes, 1))
    if one.findings:
        yield from ("", "| | rule | what is wrong | what would help |", "| --- | --- | --- | --- |")
    for judged in one.findings:
        finding = judged.finding
        said = "<br>".join(escaped(text) for text in (finding.message, *finding.details))
        helps = "<br>".join(escaped(text) for text in advice(finding))
        yield f"| {HEADINGS[judged.heading]} | `{judged.rule}` | {said} | {helps} |"
    yield from ("", "<details><summary>where every number came from</summary>", "", "| what | value | source |")
    yield "| --- | --- | --- |"
    for item in one.origins:
        yield f"| {escaped(item.what)} | {escaped(item.value)} | {escaped(item.source)} |"
    yield from ("", "</details>", "")


def _table(chart: Chart) -> Iterator[str]:
    yield from (f"### {escaped(chart.title)}", "", "| | likely | 95 % interval | |", "| --- | ---: | --- | --- |")
    for bar in chart.bars:
        yield f"| {escaped(bar.name)} | {human(bar.size)} | {one_line(bar.interval)} | {escaped(bar.note)} |"
    yield ""
