"""The waterfalls as one SVG: no script, no font and no picture from elsewhere, light and dark."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from html import escape

from podfit.base.printable import clean
from podfit.kube.quantity import human
from podfit.report.explained import Bar, Chart, Explained

WIDTH, ROW, MARGIN = 920, 26, 24
LABEL, SIZE = 150, 90
"""Pixels of the names and of the sizes, before the bars begin."""
STYLE = """
  .page { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, sans-serif }
  .head { font-weight: 600; font-size: 17px } .title { font-weight: 600; font-size: 14px }
  .soft { fill: #59636e } .grid { stroke: #d1d9e0 }
  .whole, .sum { fill: #8c959f } .used { fill: #0969da } .left { fill: #1a7f37 } .spared { fill: #d1d9e0 }
  .missing { fill: #cf222e } .limit { fill: none; stroke: #59636e; stroke-width: 2; stroke-dasharray: 5 3 }
  .note { font-size: 11px; fill: #59636e }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #f0f6fc } .soft, .note { fill: #9198a1 } .grid { stroke: #3d444d }
    .whole, .sum { fill: #656c76 } .used { fill: #4493f8 } .left { fill: #3fb950 } .spared { fill: #3d444d }
    .missing { fill: #f85149 } .limit { stroke: #9198a1 }
  }
"""  # style: quoted


def render(explained: Sequence[Explained]) -> str:
    """All containers, one below the other."""
    parts: list[str] = []
    at = MARGIN
    for explanation in explained:
        for line in _head(explanation):
            css, text, height = line
            at += height
            parts.append(f'<text class="{css}" x="{MARGIN}" y="{at}">{_text(text)}</text>')
        for chart in explanation.charts:
            at += 18
            drawn = list(_chart(chart, at))
            parts += drawn
            at += 30 + ROW * len(chart.bars) + 24
        at += 30
    title = "; ".join(page.title for page in explained)
    sentence = " ".join(f"{page.title}: {page.standing}; {page.verdict}: {page.why}." for page in explained)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {at}" width="{WIDTH}" height="{at}" role="img" '
        f'aria-labelledby="title desc">\n<title id="title">{_text(title)}</title>\n'
        f'<desc id="desc">{_text(sentence)}</desc>\n'
        f'<style>{STYLE}</style>\n<rect class="page" width="{WIDTH}" height="{at}"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _head(explanation: Explained) -> Iterator[tuple[str, str, int]]:
    """Class, text and height of each line."""
    for index, line in enumerate(textwrap.wrap(clean(explanation.title), 95)):
        yield "head", line, 14 if not index else 22
    yield "soft", clean(explanation.summary)[:140], 22
    for index, line in enumerate(
        textwrap.wrap(clean(f"{explanation.standing}; {explanation.verdict}: {explanation.why}"), 130)
    ):
        yield "", line, 24 if not index else 18


def _chart(chart: Chart, top: int) -> Iterator[str]:
    """One chart from the height `top` on (pixels): title, grid with four steps, and a row for each bar."""
    left = MARGIN + LABEL + SIZE
    room = WIDTH - MARGIN - left
    scale = room / chart.scale
    yield f'<text class="title" x="{MARGIN}" y="{top + 16}">{_text(chart.title)}</text>'
    bottom = top + 30 + ROW * len(chart.bars)
    for part in (0, 0.25, 0.5, 0.75, 1):
        x = left + room * part
        anchor = "end" if part == 1 else "start" if part == 0 else "middle"
        yield f'<line class="grid" x1="{x:.1f}" y1="{top + 26}" x2="{x:.1f}" y2="{bottom}"/>'
        edge = human(chart.scale * part) if part else "0"
        yield f'<text class="note" x="{x:.1f}" y="{bottom + 14}" text-anchor="{anchor}">{edge}</text>'
    for index, bar in enumerate(chart.bars):
        y = top + 30 + index * ROW
        yield f'<text x="{MARGIN}" y="{y + 16}">{_text(bar.name)}</text>'
        yield f'<text x="{left - 12}" y="{y + 16}" text-anchor="end">{human(bar.size)}</text>'
        yield _rect(bar, left + bar.start * scale, y + 4, max(bar.size * scale, 1.5 if bar.size else 0))


def _rect(bar: Bar, x: float, y: int, width: float) -> str:
    """With what a pointer shows: the interval and the arithmetic."""
    text = "; ".join(part for part in (bar.interval, bar.note) if part)
    title = f"<title>{_text(f'{bar.name}: {human(bar.size)}; {text}')}</title>"
    return f'<rect class="{bar.kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 8}" rx="2">{title}</rect>'


def _text(text: str) -> str:
    return escape(clean(text), quote=True)
