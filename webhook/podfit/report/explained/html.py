"""The explanation as one page to attach to a ticket: nothing is loaded from anywhere, light and dark, wide and narrow.

The waterfalls are tables whose last column is a bar, so that they are read aloud as they are seen, and stay legible
on a phone. The policy in its head forbids the page to load or run anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from podfit.base.printable import clean
from podfit.evaluation.denial import HEADINGS, PLANES, lead
from podfit.kube.quantity import human
from podfit.report.explained import Bar, Chart, Explained

STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --whole: #8c959f;
  --used: #0969da; --left: #1a7f37; --spared: #d1d9e0; --missing: #cf222e; --warn: #9a6700 }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --text: #f0f6fc; --soft: #9198a1; --line: #3d444d;
  --whole: #656c76; --used: #4493f8; --left: #3fb950; --spared: #3d444d; --missing: #f85149; --warn: #d29922 } }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 72rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.35rem; margin: 0; overflow-wrap: anywhere } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
p { margin: .35rem 0; overflow-wrap: anywhere } .soft { color: var(--soft) }
.verdict { font-weight: 600; border-left: .3rem solid var(--soft); padding: .4rem .8rem; margin: 1rem 0 }
.verdict.clean { border-color: var(--left) } .verdict.denied { border-color: var(--missing) }
.verdict.warned { border-color: var(--warn) }
table { border-collapse: collapse; width: 100% } caption { text-align: left; font-weight: 600; margin: 1.6rem 0 .4rem }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0; overflow-wrap: anywhere }
thead th { color: var(--soft); font-weight: 400; border-bottom: 1px solid var(--line) }
tbody th { font-weight: 400; overflow-wrap: normal }
.waterfall th:nth-child(2), .waterfall td:nth-child(2) {
  text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.waterfall th { white-space: nowrap } .waterfall td.plot { width: 60%; padding-right: 0 }
.track { position: relative; height: 1.1rem; margin-top: .15rem; border-left: 1px solid var(--line);
  border-right: 1px solid var(--line) }
.bar { position: absolute; top: 0; bottom: 0; min-width: 2px; border-radius: 2px; background: var(--used) }
.bar.whole, .bar.sum { background: var(--whole) } .bar.left { background: var(--left) }
.bar.spared { background: var(--spared) }
.bar.missing { background: repeating-linear-gradient(45deg, var(--missing) 0 6px, transparent 6px 9px);
  outline: 1px solid var(--missing) }
.bar.limit { background: none; border: 2px dashed var(--soft); box-sizing: border-box }
.note { display: block; font-size: .8rem; color: var(--soft) }
ol, ul { padding-left: 1.4rem; margin: .3rem 0 } li { margin: .25rem 0; overflow-wrap: anywhere }
.deny { color: var(--missing); font-weight: 600 } .warn { color: var(--warn); font-weight: 600 }
code { font: .92em ui-monospace, monospace }
@media (max-width: 40rem) {
  .waterfall, .waterfall caption, .waterfall tbody,
  .waterfall tr, .waterfall th, .waterfall td { display: block }
  .waterfall thead { display: none } .waterfall tr { display: grid; grid-template-columns: 1fr auto; margin: .5rem 0 }
  .waterfall td:nth-child(2) { padding-right: 0 } .waterfall td.plot { grid-column: 1 / 3; width: auto } }
@media print { body { max-width: none } .bar { print-color-adjust: exact } }
"""  # style: quoted


def render(explained: Sequence[Explained]) -> str:
    """All containers on one page."""
    title = "; ".join(explanation.title for explanation in explained)
    body = "\n".join(line for explanation in explained for line in _section(explanation))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>podfit: {_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _section(explanation: Explained) -> Iterator[str]:
    """One container as HTML: its decision, charts, results, changes, findings and origins."""
    yield f"<article>\n<h1>{_text(explanation.title)}</h1>"
    yield f'<p class="soft">{_text(explanation.summary)}</p>'
    yield f'<p class="verdict {explanation.state}">{_text(explanation.standing)}</p>'
    yield f"<p>{_text(explanation.verdict)}: {_text(explanation.why)}</p>"
    for chart in explanation.charts:
        yield from _chart(chart)
    if explanation.results:
        yield "<h2>What follows</h2>\n<table><tbody>"
        yield from (
            f'<tr><th scope="row">{_text(what)}</th><td>{_text(value)}</td></tr>' for what, value in explanation.results
        )
        yield "</tbody></table>"
    if explanation.changes:
        yield "<h2>What would change it</h2>\n<p>Each of these fits by itself, best first.</p>\n<ol>"
        yield from (f"<li><code>{_text(text)}</code></li>" for text in explanation.changes)
        yield "</ol>"
    if explanation.findings:
        yield "<h2>Findings</h2>\n<ul>"
        for graded in explanation.findings:
            finding = graded.finding
            details = "".join(f'<span class="note">{_text(line)}</span>' for line in finding.details)
            advised = "".join(f"<li><code>{_text(suggestion)}</code></li>" for suggestion in graded.suggestions)
            advice = f'<div class="note">{_text(lead(graded))}:<ul>{advised}</ul></div>' if advised else ""
            yield (
                f'<li><span class="{graded.mode}">{HEADINGS[graded.heading]}</span> {_text(graded.rule)} '
                f'<span class="soft">({PLANES[graded.plane]}, <code>{_text(graded.path)}</code>)</span><br>'
                f"{_text(finding.message)}{details}{advice}</li>"
            )
        yield "</ul>"
    yield "<h2>Where every number came from</h2>"
    yield "<table><thead><tr><th>what</th><th>value</th><th>source</th></tr></thead><tbody>"
    for origin in explanation.origins:
        yield (
            f'<tr><th scope="row">{_text(origin.what)}</th><td>{_text(origin.value)}</td>'
            f'<td class="soft">{_text(origin.source)}</td></tr>'
        )
    yield "</tbody></table>\n</article>"


def _chart(chart: Chart) -> Iterator[str]:
    """A table whose rows have a bar each."""
    yield f'<table class="waterfall"><caption>{_text(chart.title)}</caption>'
    scale = f'<th scope="col">0 … {human(chart.scale)}</th>'
    yield f'<thead><tr><th scope="col">line</th><th scope="col">likely</th>{scale}</tr></thead><tbody>'
    yield from (_row(bar, chart.scale) for bar in chart.bars)
    yield "</tbody></table>"


def _row(bar: Bar, scale: int) -> str:
    """One row: name, size, and its bar in percent of `scale` (bytes)."""
    start, size = 100 * bar.start / scale, 100 * bar.size / scale
    text = "; ".join(part for part in (bar.interval, bar.note) if part)
    least = f", at least {human(bar.line.floor)}" if bar.line and bar.line.floor and bar.kind == "used" else ""
    return (
        f'<tr><th scope="row">{_text(bar.name)}</th><td>{human(bar.size)}</td><td class="plot"><div class="track">'
        f'<div class="bar {bar.kind}" style="left:{start:.2f}%;width:{size:.2f}%"></div></div>'
        f'<span class="note">{_text(text + least)}</span></td></tr>'
    )


def _text(text: str) -> str:
    return escape(clean(text), quote=True)
