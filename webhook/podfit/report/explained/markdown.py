"""Explanations as Markdown: for an issue, a merge request or a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podfit.base.printable import one_line
from podfit.evaluation.denial import HEADINGS, advice
from podfit.kube.quantity import human
from podfit.report.explained import Chart, Explained
from podfit.report.markdown import escaped


def render(explanations: Sequence[Explained]) -> str:
    """One section for each container."""
    return "\n".join(line for explanation in explanations for line in _section(explanation))


def memory(explanation: Explained) -> str:
    """Report if it fits, and both memory tables of one container, short enough to hover."""
    lines = [f"**{escaped(explanation.verdict)}**: {escaped(explanation.why)}", ""]
    lines += [line for chart in explanation.charts for line in _table(chart)]
    lines += [f"- {escaped(name)}: {escaped(value)}" for name, value in explanation.results]
    return "\n".join(lines)


def _section(explanation: Explained) -> Iterator[str]:
    """The lines of one container: decision, tables, results, changes, findings and origins."""
    yield from (f"## {escaped(explanation.title)}", "", escaped(explanation.summary), "")
    yield from (
        f"**{escaped(explanation.standing)}**",
        "",
        f"{escaped(explanation.verdict)}: {escaped(explanation.why)}",
        "",
    )
    for chart in explanation.charts:
        yield from _table(chart)
    for name, value in explanation.results:
        yield f"- {escaped(name)}: {escaped(value)}"
    if explanation.changes:
        yield from ("", "Each of these fits by itself:", "")
        yield from (f"{number}. {escaped(text)}" for number, text in enumerate(explanation.changes, 1))
    if explanation.findings:
        yield from ("", "| | rule | what is wrong | what would help |", "| --- | --- | --- | --- |")
    for graded in explanation.findings:
        finding = graded.finding
        sentence = "<br>".join(escaped(text) for text in (finding.message, *finding.details))
        helps = "<br>".join(escaped(text) for text in advice(graded))
        yield f"| {HEADINGS[graded.heading]} | `{graded.rule}` | {sentence} | {helps} |"
    yield from ("", "<details><summary>where every number came from</summary>", "", "| what | value | source |")
    yield "| --- | --- | --- |"
    for item in explanation.origins:
        yield f"| {escaped(item.what)} | {escaped(item.value)} | {escaped(item.source)} |"
    yield from ("", "</details>", "")


def _table(chart: Chart) -> Iterator[str]:
    """The lines of one chart's table."""
    yield from (f"### {escaped(chart.title)}", "", "| | likely | 95 % interval | |", "| --- | ---: | --- | --- |")
    for bar in chart.bars:
        yield f"| {escaped(bar.name)} | {human(bar.size)} | {one_line(bar.interval)} | {escaped(bar.note)} |"
    yield ""
