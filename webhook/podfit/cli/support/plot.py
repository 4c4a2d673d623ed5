"""A sweep as a picture. matplotlib draws it; it is asked for only here, and comes with `pip install 'podfit[plot]'`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from podfit.cli.support.edge import UnusableError
from podfit.vllm.memory.sweep import Cell, SweepRow

PLOT_SUFFIXES = (".svg", ".png")


def check(name: str) -> None:
    """Raises UnusableError if no plot can be written to that file."""
    if Path(name).suffix.lower() not in PLOT_SUFFIXES:
        raise UnusableError(f"--plot {name}: expected a file that ends in .svg or .png")
    if find_spec("matplotlib") is None:
        raise UnusableError("--plot needs matplotlib: pip install 'podfit[plot]'")


PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#882255", "#444444")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""GPUs differ in color and in marker, for readers who do not distinguish colors."""


def sweep(rows: Sequence[SweepRow], title: str, name: str) -> None:
    """Draws concurrent requests over context length: a panel per number of GPUs, a line per kind of GPU.

    Lengths that certainly fit are joined by a line; those that may not start are hollow. Raises UnusableError if the
    file can't be written.
    """
    check(name)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    shown = [row for row in rows if any((cell.concurrency or 0) >= 1 for cell in row.cells.values())]
    products = list(dict.fromkeys(row.product for row in shown))
    counts = sorted({row.gpus for row in shown}) or [1]
    wide = 2 if len(counts) > 1 else 1
    figure = Figure(figsize=(5 * wide + 2, 3.6 * -(-len(counts) // wide)), layout="constrained")
    panels = iter(figure.subplots(-(-len(counts) // wide), wide, sharex=True, sharey=True, squeeze=False).flat)
    handles = {}
    for panel, count in zip(panels, counts, strict=False):
        for row in (row for row in shown if row.gpus == count):
            index = products.index(row.product)
            style = {"color": PALETTE[index % len(PALETTE)], "marker": MARKERS[index % len(MARKERS)], "markersize": 5}
            sure = [(one, cell.concurrency) for one, cell in row.cells.items() if cell.verdict == "fits"]
            maybe = [(one, cell.concurrency) for one, cell in row.cells.items() if _may(cell)]
            (handles[row.product],) = panel.plot(*(zip(*sure, strict=True) if sure else ([], [])), **style)
            if maybe:
                panel.plot(*zip(*maybe, strict=True), linestyle="", fillstyle="none", **style)
        _axes(panel, f"{count} GPU{'s' if count > 1 else ''}", list(rows[0].cells))
    for panel in panels:
        panel.set_visible(False)
    figure.suptitle(f"{title}\n(hollow: may not start)", fontsize=11)
    figure.supxlabel("context length of each request, tokens", fontsize=10)
    figure.supylabel("requests at once", fontsize=10)
    named = [product for product in dict.fromkeys(row.product for row in rows) if product in handles]
    figure.legend([handles[one] for one in named], named, loc="outside right center", fontsize=8)
    try:
        with rc_context({"svg.hashsalt": "podfit"}):  # the same picture is the same file
            figure.savefig(name, dpi=150, metadata={"Date": None} if name.lower().endswith(".svg") else None)
    except OSError as error:
        raise UnusableError(f"--plot {name}: {(error.strerror or type(error).__name__).lower()}", 3) from error


def _may(cell: Cell) -> bool:
    return cell.verdict == "unsure" and (cell.concurrency or 0) >= 1


def _axes(panel: Any, title: str, lengths: Sequence[int]) -> None:
    panel.set_title(title, fontsize=10)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(lengths, [f"{length // 1024}k" if length >= 1024 else str(length) for length in lengths])
    panel.set_xticks([], minor=True)
    panel.axhline(1, color="#999999", linewidth=0.8)
    panel.grid(visible=True, which="major", alpha=0.3)
