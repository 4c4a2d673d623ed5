"""The error of each group of start-ups, and whether its ranges hold.

    python -m benchmarks.groups STARTUPS.jsonl… [--write docs/accuracy.md]

A start-up is in one group of each kind: quantization, release, vendor, and layers with a state. Each range should
contain 95 % of the printed values of each group; a group that has fewer needs wider ranges in the ledger.
`--write` replaces the table between the two markers of a page. The packaged start-ups are few, so that the page's table
comes from files that are not part of podfit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.accuracy import Board, quantile, show
from benchmarks.calibrate import resolved
from benchmarks.startups import Row, predict, read
from podfit.vllm.memory.kv_releases import STATEFUL
from podfit.vllm.memory.settings import ResolvedArguments
from podfit.vllm.model import Model
from podfit.vllm.release import Release

START, END = "<!-- groups: start -->\n", "<!-- groups: end -->"
"""The markers around the table."""
CONTAINED = 0.95
"""The share of the printed values that the ranges of a group should contain."""
RELEASES = (
    ("vLLM up to 0.10", Release(0, 11)), ("vLLM 0.11 … 0.16", Release(0, 17)), ("vLLM 0.17 … 0.19", Release(0, 20)),
    ("vLLM 0.20 and newer", Release(9, 0)),
)  # fmt: skip
"""Name → the first release after it."""


def groups_of(engine: ResolvedArguments, model: Model) -> Iterator[str]:
    """The names of the groups that a start-up belongs to, one of each kind."""
    settings, types = engine.settings, engine.settings.types
    scheme = types.scheme
    width = min(scheme.bytes, scheme.experts or scheme.bytes) if scheme is not None else float(types.dtype)
    yield "16 bits" if width >= 2 else "8 bits" if width >= 1 else "4 bits"
    yield next(name for name, end in RELEASES if settings.release < end)
    yield "AMD" if settings.gpu.vendor == "amd" else "NVIDIA"
    yield "state layers" if not STATEFUL.isdisjoint(model.layer_types) else "attention alone"


def by_group(rows: Sequence[Row]) -> Mapping[str, Board]:
    """Group → what is measured over its start-ups. Start-ups without a known release and model are left out."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.released and (engine := resolved(row.case)) is not None:
            for name in groups_of(*engine):
                found.setdefault(name, []).append(row)
    order = ("16 bits", "8 bits", "4 bits", *(name for name, _ in RELEASES), "NVIDIA", "AMD", "attention alone")
    names = [*(name for name in order if name in found), *(name for name in found if name not in order)]
    return {name: Board(found[name]) for name in names}


def too_narrow(boards: Mapping[str, Board]) -> list[str]:
    """The groups whose ranges contain too few of the printed values."""
    return [name for name, board in boards.items() if sum(board.inside) < CONTAINED * len(board.inside)]


def table(boards: Mapping[str, Board]) -> str:
    """The boards as a table of Markdown, with counts instead of shares of small numbers."""
    out = [
        "| group | start-ups | in the range | weights, median / 90th (values) | KV memory, median / 90th (values) "
        "| tokens, median / 90th (values) | width, median |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, board in boards.items():
        errors = " | ".join(_errors(values) for values in (board.weights, board.memory, board.tokens))
        width = show(quantile(board.width, 0.5), "")
        out.append(f"| {name} | {len(board.rows)} | {sum(board.inside)} of {len(board.inside)} | {errors} | {width} |")
    return "\n".join(out)


def _errors(values: Sequence[float]) -> str:
    """The median and the 90th percentile, and of how many values."""
    if not values:
        return "–"
    return f"{show(quantile(values, 0.5), '')} / {show(quantile(values, 0.9), '')} ({len(values)})"


def written(page: str, body: str) -> str:
    """The page with this table between its markers. Raises ValueError if it has none."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"no {START.strip()} and {END} in the page")
    return f"{before}{start}\n{body}\n\n{end}{after}"


def main(argv: Sequence[str]) -> int:
    """Prints the table; 1 if the ranges of a group contain too few printed values."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("startups", nargs="+", type=Path, help="JSON lines of real start-ups")
    parser.add_argument("--write", metavar="PAGE", type=Path, help="replace the table of a page")
    args = parser.parse_args(argv)
    cases = [case for path in args.startups for case in read(path) if case.get("strict", True)]
    boards = by_group(list(predict(cases)))
    print(table(boards))
    if args.write:
        args.write.write_text(written(args.write.read_text(encoding="utf-8"), table(boards)), encoding="utf-8")
    narrow = too_narrow(boards)
    if narrow:
        print(f"\nranges that contain less than {CONTAINED:.0%} of the printed values: {', '.join(narrow)}")
    return int(bool(narrow))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
