"""The explanation for a terminal: bars of characters, as wide as it is; nothing is said by color alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podfit.base.printable import clean
from podfit.evaluation.denial import HEADINGS, PLANES, advice, wrapped
from podfit.evaluation.lint import GradedFinding
from podfit.kube.quantity import human
from podfit.report.explained import Bar, Chart, Explained, Kind, Origin

MIN_WIDTH, MAX_WIDTH = 60, 160
"""Characters of a line. A choice: narrower has no place for bars, and eyes lose a longer line."""
MIN_WIDTH_WITH_NOTES = 120
"""The width from which on the arithmetic follows its bar in the same line."""
NOTE_WIDTH = 45
"""Characters of a line that the arithmetic gets there."""
BAR_CHARACTERS: dict[Kind, str] = {
    "whole": "█", "used": "█", "sum": "█", "left": "░", "spared": "·", "missing": "▒", "limit": "─",
}  # fmt: skip
ASCII = {"█": "#", "░": ":", "·": ".", "▒": "!", "─": "-", "×": "x", "−": "-", "–": "-", "…": "...", "→": "->"}
LEGEND: dict[Kind, str] = {
    "used": "taken",
    "left": "left",
    "missing": "too much",
    "spared": "left to others",
    "limit": "to compare",
}


def render(explanation: Explained, width: int = 100, *, ascii_only: bool = False, verbose: bool = False) -> str:
    """The text of one container. `width`: of the terminal, in characters. `ascii_only`: without other characters.
    `verbose`: with intervals, arithmetic and sources; without, it is one screen."""
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    out = [clean(explanation.title), *_wrapped(explanation.summary, width, "  "), ""]
    out += [
        *_wrapped(explanation.standing, width, ""),
        *_wrapped(f"{explanation.verdict}: {explanation.why}", width, ""),
    ]
    for chart in explanation.charts:
        out += ["", *_chart(chart, width, verbose=verbose)]
    out += _results(explanation.results, width, verbose=verbose)
    if explanation.changes:
        out += ["", "what would change it: each fits by itself, best first"]
        for number, text in enumerate(explanation.changes, 1):
            out += _wrapped(text, width, f"  {number}. ", "     ")
    if explanation.findings:
        out += ["", "findings", *_findings(explanation.findings, width, verbose=verbose)]
    if verbose:
        out += ["", "where every number came from", *_origins(explanation.origins, width)]
    else:
        out += _wrapped("-v shows intervals, arithmetic, and where every number came from", width, "")
    text = "\n".join(line.rstrip() for line in out) + "\n"
    return _in_ascii(text) if ascii_only else text


def _in_ascii(text: str) -> str:
    """The text with ASCII signs for those of the charts, and `?` for any other character."""
    for sign, plain in ASCII.items():
        text = text.replace(sign, plain)
    return text.encode("ascii", "replace").decode()


def _results(results: Sequence[tuple[str, str]], width: int, *, verbose: bool) -> list[str]:
    """The lines of the (title, value) pairs. On one screen without their arithmetic, which follows the first ": ", and
    without a need of 0 bytes. No lines without results."""
    if not results:
        return []
    title_width = max(len(title) for title, _ in results)
    out = ["", "what follows"]
    for title, value in results:
        if not verbose:
            value, _, _arithmetic = value.partition(": ")
            if value.startswith("0 B "):
                continue
        out += _wrapped(value, width, f"  {title:<{title_width}}  ", " " * (title_width + 4))
    return out


MANY = 5
"""Findings that one screen shows."""


def _findings(findings: Sequence[GradedFinding], width: int, *, verbose: bool) -> list[str]:
    """The lines of the findings: on one screen the rule and the message of the first MANY, else all with their details
    and advice."""
    if not verbose:
        heads = [f"  {HEADINGS[graded.heading]}  {graded.rule}: {graded.finding.message}" for graded in findings[:MANY]]
        more = [f"  and {len(findings) - MANY} more (-v)"] if len(findings) > MANY else []
        return [*(_cut(clean(head), width) for head in heads), *more]
    out = []
    for graded in findings:
        finding = graded.finding
        head = f"{HEADINGS[graded.heading]}  {graded.rule}  [{PLANES[graded.plane]}]  {graded.path}"
        out += ["", *_wrapped(head, width, "  ")]
        for line in (finding.message, *finding.details, *advice(graded)):
            later_indent = "      " if line.startswith("- ") else None  # below the text of an item of a list
            out += _wrapped(line, width, "    ", later_indent)
    return out


def _cut(line: str, width: int) -> str:
    """The line in at most `width` characters; an ellipsis ends one that is cut."""
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _chart(chart: Chart, width: int, *, verbose: bool) -> list[str]:
    """The title, a line per bar (name, size, bar), and a legend. `verbose`: with an axis and the arithmetic, which
    follows each bar if the line has room for it, else is below the legend."""
    bars = [bar for bar in chart.bars if verbose or bar.kind != "spared"]
    name_width = max(len(bar.name) for bar in chart.bars)
    room = width - name_width - 15  # without the indent (2), the size (10), the space before the bar (2) and 1 free
    notes_follow = verbose and width >= MIN_WIDTH_WITH_NOTES
    bar_width = room - NOTE_WIDTH if notes_follow else room
    out = [chart.title]
    for bar in bars:
        cells = _cells(bar, chart.scale, bar_width)
        note = f"  {_bar_note(bar)}" if notes_follow else ""
        out.append(f"  {bar.name:<{name_width}}{human(bar.size):>10}  {cells:<{bar_width}}{note}"[:width])
    if verbose:
        out += _axis(chart.scale, name_width + 14, bar_width)
    kinds = dict.fromkeys(bar.kind for bar in bars)
    legend = [f"{BAR_CHARACTERS[kind]} {LEGEND[kind]}" for kind in kinds if kind in LEGEND]
    out += _wrapped("   ".join(legend), width, "  ")
    if verbose and not notes_follow:
        for bar in chart.bars:
            if note := _bar_note(bar):
                out += _wrapped(note, width, f"  {bar.name:<{name_width}}  ", " " * (name_width + 4))
    return out


def _axis(scale: int, indent: int, bar_width: int) -> list[str]:
    """Two lines below the bars: the axis, and 0 and `scale` (bytes) at its ends. `indent`: of the bars, in
    characters."""
    end = human(scale)
    axis = "└" + "─" * (bar_width - 2) + "┘"
    numbers = f"{'0':<{max(1, bar_width - len(end))}}{end}"
    return [" " * indent + axis, " " * indent + numbers]


def _bar_note(bar: Bar) -> str:
    """The bar's interval, unless it is exact, and its arithmetic; empty if it has neither."""
    interval = "" if bar.interval == "exact" else bar.interval
    return clean("; ".join(filter(None, (interval, bar.note))))


def _cells(bar: Bar, scale: int, length: int) -> str:
    """The bar in characters, with the spaces before it; at least one character if it has any size. `scale`: the bytes
    of `length` characters."""
    first = min(round(bar.start / scale * length), length - 1)
    last = min(round((bar.start + bar.size) / scale * length), length)
    count = max(last - first, 1 if bar.size else 0)
    return " " * first + BAR_CHARACTERS[bar.kind] * count


def _origins(origins: Iterable[Origin], width: int) -> list[str]:
    """Wrapped lines, one paragraph per number: its name, value and source."""
    rows = list(origins)
    name_width = max((len(row.what) for row in rows), default=0)
    out = []
    for origin in rows:
        indent = f"  {origin.what:<{name_width}}  "
        out += _wrapped(f"{origin.value}  ({origin.source})", width, indent, " " * (name_width + 4))
    return out


def _wrapped(text: str, width: int, indent: str, later_indent: str | None = None) -> list[str]:
    """The text in lines of at most `width` characters. `indent`: before the first line. `later_indent`: before all
    others; None: `indent` too. An empty text is one line with the indent."""
    return wrapped(clean(text), indent, later_indent, width, cut=True) or [indent]
