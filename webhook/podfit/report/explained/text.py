"""The explanation for a terminal: bars of characters, as wide as it is; nothing is said by color alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podfit.base.printable import clean
from podfit.evaluation.denial import HEADINGS, PLANES, advice, wrapped
from podfit.evaluation.lint import GradedFinding
from podfit.kube.quantity import human
from podfit.report.explained import Bar, Chart, Explained, Kind, Origin

LEAST, MOST = 60, 160
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
    """`width`: of the terminal, in characters. `ascii_only`: for those that show nothing else. `verbose`: with
    intervals, arithmetic and sources; without, it is one screen."""
    width = max(LEAST, min(width, MOST))
    out = [clean(explanation.title), *_wrapped(explanation.summary, width, "  "), ""]
    out += [
        *_wrapped(explanation.standing, width, ""),
        *_wrapped(f"{explanation.verdict}: {explanation.why}", width, ""),
    ]
    for chart in explanation.charts:
        out += ["", *_chart(chart, width, verbose=verbose)]
    if explanation.results:
        name = max(len(what) for what, _ in explanation.results)
        out += ["", "what follows"]
        for what, sentence in explanation.results:
            value = sentence if verbose else sentence.partition(": ")[0]
            if not verbose and value.startswith("0 B "):
                continue
            out += _wrapped(value, width, f"  {what:<{name}}  ", " " * (name + 4))
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
    if ascii_only:
        for sign, plain in ASCII.items():
            text = text.replace(sign, plain)
        text = text.encode("ascii", "replace").decode()
    return text


MANY = 5
"""Findings that one screen shows."""


def _findings(findings: Sequence[GradedFinding], width: int, *, verbose: bool) -> list[str]:
    """Each finding with what helps; on one screen the rule and the message alone."""
    out = []
    if not verbose:
        for graded in findings[:MANY]:
            head = f"{HEADINGS[graded.heading]}  {graded.rule}: {graded.finding.message}"
            out.append(_cut(f"  {clean(head)}", width))
        return out + ([f"  and {len(findings) - MANY} more (-v)"] if len(findings) > MANY else [])
    for graded in findings:
        finding = graded.finding
        head = f"{HEADINGS[graded.heading]}  {graded.rule}  [{PLANES[graded.plane]}]  {graded.path}"
        out += ["", *_wrapped(head, width, "  ")]
        for line in (finding.message, *finding.details, *advice(graded)):
            out += _wrapped(line, width, "    ", "      " if line.startswith("- ") else None)
    return out


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _chart(chart: Chart, width: int, *, verbose: bool) -> list[str]:
    """Name, size, bar; with `verbose` the arithmetic, where the line has room for it, else below."""
    name = max(len(bar.name) for bar in chart.bars)
    room = width - name - 15
    wide = verbose and width >= 120
    length = room - 45 if wide else room
    out = [chart.title]
    bars = [bar for bar in chart.bars if verbose or bar.kind != "spared"]
    for bar in bars:
        cells = _cells(bar, chart.scale, length)
        note = f"  {_bar_note(bar)}" if wide else ""
        out.append(f"  {bar.name:<{name}}{human(bar.size):>10}  {cells:<{length}}{note}"[:width])
    if verbose:
        edge = human(chart.scale)
        out.append(f"  {' ' * name}{human(0):>10}  {'└' + '─' * (length - 2) + '┘'}".replace("0 B", "   "))
        out.append(f"  {' ' * (name + 12)}{'0':<{max(1, length - len(edge))}}{edge}")
    kinds = dict.fromkeys(bar.kind for bar in bars)
    legend = [f"{BAR_CHARACTERS[kind]} {LEGEND[kind]}" for kind in kinds if kind in LEGEND]
    out += _wrapped("   ".join(legend), width, "  ")
    if verbose and not wide:
        for bar in chart.bars:
            if text := _bar_note(bar):
                out += _wrapped(text, width, f"  {bar.name:<{name}}  ", " " * (name + 4))
    return out


def _bar_note(bar: Bar) -> str:
    return clean("; ".join(part for part in (bar.interval if bar.interval != "exact" else "", bar.note) if part))


def _cells(bar: Bar, scale: int, length: int) -> str:
    """The bar in characters: at least one where there is something at all."""
    first = min(round(bar.start / scale * length), length - 1)
    last = min(round((bar.start + bar.size) / scale * length), length)
    count = max(last - first, 1 if bar.size else 0)
    return " " * first + BAR_CHARACTERS[bar.kind] * count


def _origins(origins: Iterable[Origin], width: int) -> list[str]:
    """Wrapped lines, one paragraph per number: its name, value and source."""
    rows = list(origins)
    name = max((len(row.what) for row in rows), default=0)
    out = []
    for origin in rows:
        out += _wrapped(f"{origin.value}  ({origin.source})", width, f"  {origin.what:<{name}}  ", " " * (name + 4))
    return out


def _wrapped(text: str, width: int, first: str, rest: str | None = None) -> list[str]:
    return wrapped(clean(text), first, rest, width, cut=True) or [first]
