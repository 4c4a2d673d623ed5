"""How accurate the GPU ledger is: predictions compared with what vLLM printed.

    python -m benchmarks.accuracy [STARTUPS.jsonl] [--plot FILE.svg|png] [--all]

Several scoreboards. The first has the constants that podfit ships. `benchmarks.calibrate` fits those of the others:
from all sources, or all models, except the scored one, and from one half of the sources, tested on the other. Then come
the boards by generation, family and GPU, the starts at the edge and the pairs one by one.
"""

from __future__ import annotations

import argparse
import math
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.calibrate import Constants, constants, fit
from benchmarks.startups import AT_THE_EDGE, Row, predict, read
from podfit.vllm.memory import activations, non_torch

DEFAULT = Path(__file__).parent.parent.parent / "shared" / "data" / "startups.jsonl"
SLACK = 0.005
"""Logs print two decimals."""


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value below which that share lies; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


class Board:
    """What is measured over some rows."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        starts = [row for row in self.rows if row.starts]
        lost = [row for row in self.rows if row.no_room]
        edge = [row for row in self.rows if row.case["outcome"] in AT_THE_EDGE]
        self.starts, self.lost, self.edge = len(starts), len(lost), len(edge)
        self.refused_starts = [row.id for row in starts if row.verdict == "does-not-fit"]
        self.refused = sum(row.verdict == "does-not-fit" for row in lost)
        self.undecidable = {row.id: reason for row in lost if (reason := row.undecidable)}
        self.unsure = sum(row.verdict != "fits" for row in [*lost, *edge])
        self.weights: list[float] = []
        self.memory: list[float] = []
        self.tokens: list[float] = []
        self.longest: list[float] = []
        self.inside: list[bool] = []
        self.width: list[float] = []
        for row in self.rows:
            self._compare(row)

    def _compare(self, row: Row) -> None:
        if not row.released or row.gpu is None:
            return
        gpu, total = row.gpu, max(1, row.gpu["total"]["likely"])
        if row.weights:
            self.weights.append(abs(gpu["weights"]["likely"] / row.weights - 1))
            self.inside.append(_within(gpu["weights"], row.weights, 2 * SLACK))
        if row.kv_cache:
            self.memory.append(abs(gpu["kv_cache"]["likely"] - row.kv_cache) / total)
            self.inside.append(_within(gpu["kv_cache"], row.kv_cache, SLACK))
            self.width.append((gpu["kv_cache"]["high"] - gpu["kv_cache"]["low"]) / total)
        if row.tokens and gpu["kv_cache_tokens"] and (not row.kv_cache or row.kv_cache > 0.15 * total):
            self.tokens.append(abs(gpu["kv_cache_tokens"]["likely"] / row.tokens - 1))
        longest = row.case["observed"].get("estimated_max_model_len")
        if longest and gpu["estimated_max_model_len"]:
            self.longest.append(abs(gpu["estimated_max_model_len"] / longest - 1))

    def figures(self) -> dict[str, float | None]:
        """Name → share, or a count where the name says so."""
        decidable = self.lost - len(self.undecidable)
        return {
            "false rejections (count)": len(self.refused_starts),
            "failures refused": self.refused / self.lost if self.lost else None,
            "refused, of the decidable": self.refused / decidable if decidable else None,
            "failures at least unsure": self.unsure / (self.lost + self.edge) if self.lost + self.edge else None,
            "weights, median": quantile(self.weights, 0.5),
            "weights, 95th": quantile(self.weights, 0.95),
            "KV memory of the card, median": quantile(self.memory, 0.5),
            "KV memory of the card, 90th": quantile(self.memory, 0.9),
            "KV tokens, median": quantile(self.tokens, 0.5),
            "KV tokens, 90th": quantile(self.tokens, 0.9),
            "longest length, median": quantile(self.longest, 0.5),
            "printed inside low…high": sum(self.inside) / len(self.inside) if self.inside else None,
            "width of the card, median": quantile(self.width, 0.5),
        }


def _within(line: Mapping[str, int], printed: float, slack: float) -> bool:
    return line["low"] * (1 - slack) <= printed <= line["high"] * (1 + slack)


TARGETS: Mapping[str, tuple[str, float]] = {
    "false rejections (count)": ("≤", 0), "failures refused": ("≥", 0.9),
    "refused, of the decidable": ("≥", 0.9), "failures at least unsure": ("≥", 0.95),
    "weights, median": ("≤", 0.01), "weights, 95th": ("≤", 0.05), "KV memory of the card, median": ("≤", 0.005),
    "KV memory of the card, 90th": ("≤", 0.02), "KV tokens, median": ("≤", 0.03), "KV tokens, 90th": ("≤", 0.1),
    "longest length, median": ("≤", 0.05), "printed inside low…high": ("≥", 0.95),
    "width of the card, median": ("≤", 0.04),
}  # fmt: skip


def show(value: float | None, name: str) -> str:
    """For people."""
    if value is None:
        return "–"
    return f"{value:.0f}" if "count" in name else f"{100 * value:.1f} %"


def table(boards: Mapping[str, Board]) -> str:
    """Boards side by side, with the targets."""
    heads = list(boards)
    out = [f"| {'':30} | target | " + " | ".join(heads) + " |", "| --- | ---: |" + " ---: |" * len(heads)]
    columns = {head: board.figures() for head, board in boards.items()}
    for name, (sign, target) in TARGETS.items():
        cells = [show(columns[head][name], name) for head in heads]
        out.append(f"| {name:30} | {sign} {show(target, name)} | " + " | ".join(cells) + " |")
    counted = [f"{b.starts} / {b.lost} / {b.edge}" for b in boards.values()]
    out.append(f"| {'start / no room / at the edge':30} | | " + " | ".join(counted) + " |")
    undecidable = [str(len(board.undecidable)) for board in boards.values()]
    out.append(f"| {'no room, but undecidable':30} | | " + " | ".join(undecidable) + " |")
    return "\n".join(out)


def by(rows: Sequence[Row], key: Callable[[Row], str], least: int = 1) -> str:
    """One line for each value of `key`."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    out = [
        "| | cases | false rejections | refused | KV memory median / 90th | tokens median / 90th | inside |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, group in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        if len(group) < least:
            continue
        board = Board(group)
        found = board.figures()
        out.append(
            f"| {name} | {len(group)} | {len(board.refused_starts)} of {board.starts} "
            f"| {board.refused} of {board.lost} "
            f"| {show(found['KV memory of the card, median'], '')} / {show(found['KV memory of the card, 90th'], '')} "
            f"| {show(found['KV tokens, median'], '')} / {show(found['KV tokens, 90th'], '')} "
            f"| {show(found['printed inside low…high'], '')} |"
        )
    return "\n".join(out)


def halves(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The sources in two parts, by a checksum of their names."""
    one = [row for row in rows if zlib.crc32(row.source.encode()) % 2 == 0]
    return one, [row for row in rows if row not in one]


def again(rows: Iterable[Row], found: Constants) -> list[Row]:
    """The same cases planned with other constants."""
    with constants(found):
        return list(predict(row.case for row in rows))


def leave_one_out(rows: Sequence[Row], key: Callable[[Row], str]) -> list[Row]:
    """Each case planned with constants from all cases but those with its key: its source, or its model."""
    out: list[Row] = []
    for name in dict.fromkeys(map(key, rows)):
        out += again([row for row in rows if key(row) == name], fit(row for row in rows if key(row) != name))
    return out


def constants_table(found: Constants) -> str:
    """The packaged constants and those fitted from all start-ups."""
    out = ["| constant | class | packaged | fitted | start-ups |", "| --- | --- | ---: | ---: | ---: |"]
    for name, (value, count) in found.samplers.items():
        told = f"{value:.1f}" if count else "–"
        out.append(f"| sampler, B | {name} | {activations.SAMPLERS[name].likely:g} | {told} | {count} |")
    for name, (value, count) in found.non_torch.items():
        told = f"{value:.2f}" if count else "–"
        out.append(f"| non-torch, GiB | {name} | {non_torch.MEASURED[name].likely:g} | {told} | {count} |")
    return "\n".join(out)


def edges(rows: Sequence[Row]) -> str:
    """Failures without an explanation, starts with a pool under 10 % of the GPU, and pairs of runs of which one
    starts and one fails."""
    out = ["failures that can't be decided, and why:"]
    out += [f"  {row.id}: {row.undecidable}" for row in rows if row.undecidable]
    out += ["starts with a KV cache under 10 % of the card:"]
    for row in rows:
        total = row.gpu["total"]["likely"] if row.gpu else 0
        if row.starts and row.kv_cache and total and row.kv_cache < 0.1 * total:
            out.append(f"  {row.verdict:13} {row.id}")
    pairs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.case.get("pair"):
            pairs[row.case["pair"]].append(row)
    out.append("pairs of one model and GPU (what happened → what podfit says):")
    for name, group in pairs.items():
        if {row.starts for row in group} == {True, False}:
            told = "; ".join(f"{row.case['outcome']} → {row.verdict}" for row in group)
            out.append(f"  {name}: {told}")
    return "\n".join(out)


def leanings(rows: Sequence[Row]) -> Mapping[bool, tuple[int, int]]:
    """Whether the likely KV cache holds a request → failures for lack of memory, and all start-ups, with an unsure
    plan. They are the constants of `podfit.vllm.memory.leaning`."""
    found = {False: [0, 0], True: [0, 0]}
    for row in rows:
        failed = row.no_room or row.case["outcome"] in AT_THE_EDGE
        if row.verdict == "unsure" and row.gpu is not None and (row.starts or failed):
            counts = found[row.gpu["kv_cache"]["likely"] >= (row.gpu["kv_cache_bytes_per_request"] or 1)]
            counts[0] += failed
            counts[1] += 1
    return {enough: (failed, of) for enough, (failed, of) in found.items()}


def plot(rows: Sequence[Row], name: str) -> None:
    """Predicted over printed KV memory with the interval, and the error as a share of the GPU; needs matplotlib."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    compared = [row for row in rows if row.released and row.kv_cache]
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    palette = {"V0": "#444444", "0.8–0.10": "#56b4e9", "0.11–0.16": "#009e73", "0.17–0.19": "#0072b2",
               "0.20–0.27": "#e69f00", "0.28–": "#d55e00"}  # fmt: skip
    for generation, colour in palette.items():
        group = [row for row in compared if row.generation == generation]
        if not group:
            continue
        printed = [(row.kv_cache or 0) / 2**30 for row in group]
        lines = [row.gpu["kv_cache"] for row in group if row.gpu]
        likely = [line["likely"] / 2**30 for line in lines]
        below = [max(0.0, (line["likely"] - line["low"]) / 2**30) for line in lines]
        above = [max(0.0, (line["high"] - line["likely"]) / 2**30) for line in lines]
        style = {"color": colour, "markersize": 4, "linestyle": "", "marker": "o"}
        left.errorbar(printed, likely, yerr=[below, above], elinewidth=0.7, label=generation, **style)
        shares = [100 * (row.gpu["kv_cache"]["likely"] - (row.kv_cache or 0)) / row.gpu["total"]["likely"]
                  for row in group if row.gpu]  # fmt: skip
        right.plot(printed, shares, **style)
    most = max(((row.kv_cache or 0) / 2**30 for row in compared), default=1) * 1.05
    left.plot([0, most], [0, most], color="#999999", linewidth=0.8, zorder=0)
    left.set(xlabel="printed, GiB", ylabel="predicted, GiB (bars: low … high)", title="Available KV cache memory")
    left.legend(title="vLLM", fontsize=8)
    for share in (-2, 2):
        right.axhline(share, color="#999999", linewidth=0.8, linestyle="--")
    right.axhline(0, color="#999999", linewidth=0.8)
    right.set(
        xlabel="printed, GiB", ylabel="predicted − printed, % of the card", title="Error (dashed: 2 % of the card)"
    )
    metadata = {"Date": None} if name.endswith(".svg") else None
    with rc_context({"svg.hashsalt": "podfit"}):  # the same picture is the same file
        figure.savefig(name, dpi=120, metadata=metadata)


def worst(here: Board, there: Board) -> float:
    """The largest ratio of an error of `there` to that of `here`; both under a tenth of a percent count as alike."""
    ratios = [1.0]
    for name in (
        "KV memory of the card, median",
        "KV memory of the card, 90th",
        "KV tokens, median",
        "KV tokens, 90th",
    ):
        one, other = here.figures()[name], there.figures()[name]
        if one is not None and other is not None:
            ratios.append(max(other, 0.001) / max(one, 0.001))
    return math.ceil(max(ratios) * 100) / 100


def each_once(rows: Iterable[Row]) -> float | None:
    """The error of the KV memory if each source counts once, however many start-ups it has: the median of the sources'
    medians, as a share of the GPU. None without start-ups."""
    sources: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        sources[row.source].append(row)
    boards = [Board(found) for found in sources.values()]
    return quantile([board.figures()["KV memory of the card, median"] or 0.0 for board in boards if board.memory], 0.5)


def main(argv: Sequence[str]) -> int:
    """Prints the report; 1 if podfit would deny a start, 2 if a named file is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("startups", nargs="?", type=Path, default=DEFAULT, help="JSON lines of real start-ups")
    parser.add_argument("--plot", metavar="FILE.svg|png", help="draw predicted against printed")
    parser.add_argument("--all", action="store_true", help="also cases that are not certain enough to be scored")
    args = parser.parse_args(argv)
    if not args.startups.is_file():
        print(f"no start-ups at {args.startups}: name a file of JSON lines, as benchmarks/startups.py describes them")
        return 0 if args.startups == DEFAULT else 2
    cases = [case for case in read(args.startups) if args.all or case.get("strict", True)]
    rows = list(predict(cases))
    train, test = halves(rows)
    fitted = fit(train)
    pooled = fit(rows)
    boards = {
        "as packaged": Board(rows),
        "fitted on all": Board(again(rows, pooled)),
        "each source left out": Board(leave_one_out(rows, _source)),
        "each model left out": Board(leave_one_out(rows, _model)),
        "half: fitted on": Board(again(train, fitted)),
        "half: tested on": Board(again(test, fitted)),
    }
    if kept := [row for row in rows if row.held_out]:
        print(f"{len(kept)} start-ups that no constant is fitted to\n\n{table({'held out': Board(kept)})}\n")
    print(f"{len(rows)} start-ups of {len({row.source for row in rows})} sources\n")
    print(table(boards))
    ratio = worst(boards["fitted on all"], boards["each source left out"])
    print(f"\nleaving each source out: errors within {ratio:g} × those fitted on all (target 1.5)")
    once = [show(each_once(boards[name].rows), "") for name in ("fitted on all", "each source left out")]
    print(f"each source counted once: KV memory, median {once[0]} fitted on all, {once[1]} left out")
    print(f"half fitted on: {', '.join(sorted({row.source for row in train}))}")
    print(f"half tested on: {', '.join(sorted({row.source for row in test}))}\n")
    print(constants_table(pooled))
    for title, key in (("generation", _generation), ("family", _family), ("GPU", _card), ("source", _source)):
        print(f"\nby {title}\n\n{by(rows, key)}")
    for enough, (failed, of) in leanings(rows).items():
        print(f"\nunsure, likely {'enough' if enough else 'too little'}: {failed} of {of} failed")
    print("\n" + edges(rows))
    if args.plot:
        plot(rows, args.plot)
    return int(bool(boards["as packaged"].refused_starts))


def _generation(row: Row) -> str:
    return row.generation


def _family(row: Row) -> str:
    return row.family


def _card(row: Row) -> str:
    return row.card


def _source(row: Row) -> str:
    return row.source


def _model(row: Row) -> str:
    return str(row.case["model"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
