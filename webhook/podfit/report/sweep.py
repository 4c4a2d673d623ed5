"""A sweep over accelerators as a table, and as plain JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podfit.vllm.memory.sweep import Cell, SweepRow


def tree(sweep_rows: Sequence[SweepRow]) -> list[dict[str, Any]]:
    """The rows of a sweep as plain JSON values."""
    return [
        {
            "product": row.product,
            "gpus": row.gpus,
            "longest": row.longest,
            "lengths": {
                str(length): {"verdict": cell.verdict, "concurrency": cell.concurrency}
                for length, cell in row.cells.items()
            },
        }
        for row in sweep_rows
    ]


def table(sweep_rows: Sequence[SweepRow]) -> str:
    """For people: requests at once, by context length."""
    if not sweep_rows:
        return "no accelerator to try\n"
    lengths = list(sweep_rows[0].cells)
    wide = max(len(_name(row)) for row in sweep_rows)
    out = ["requests of that many tokens at once, by what the KV cache holds (? may not start, – does not)", ""]
    out.append(" " * wide + "".join(f"{length:>10,}" for length in lengths))
    out += [
        f"{_name(row):<{wide}}" + "".join(f"{_cell(row.cells[length]):>10}" for length in lengths) for row in sweep_rows
    ]
    return "\n".join(out) + "\n"


def _name(row: SweepRow) -> str:
    return f"{row.gpus} × {row.product}"


def _cell(cell: Cell) -> str:
    """Requests at once: `2.3`, `12`; `3?` if it may not start, `?` if less than one may fit. `–` if it does not fit,
    `yes` if it fits and the KV cache of a request is unknown."""
    if cell.verdict == "does-not-fit":
        return "–"
    if cell.concurrency is None:
        return "yes" if cell.verdict == "fits" else "?"
    if cell.verdict == "unsure":
        return "?" if cell.concurrency < 1 else f"{cell.concurrency:.0f}?"
    return f"{cell.concurrency:.1f}" if cell.concurrency < 10 else f"{cell.concurrency:,.0f}"
