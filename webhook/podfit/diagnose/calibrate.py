"""A start-up log → what vLLM printed of its memory, and how far the plan was off.

The texts are vLLM's, 0.6 … 0.33: v1/worker/gpu_worker.py, v1/worker/gpu_model_runner.py, v1/core/kv_cache_utils.py,
worker/worker.py (V0), entrypoints/common/startup.py.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from podfit.diagnose import line
from podfit.kube.quantity import GI
from podfit.rules.engine import Engine
from podfit.vllm import measured
from podfit.vllm.gpu import Gpu
from podfit.vllm.memory.line import SIZE
from podfit.vllm.memory.lines import KV_CACHE, LINES, TITLES
from podfit.vllm.model.given import key
from podfit.vllm.release import Release, parse

START_LINE = re.compile(
    r"(?:vLLM API server|█) +version v?(\d\S*)|Initializing an? (?:V\d )?LLM engine \(v([^)\s]+)\)|"
    r"^version v?(\d[^\s,]*), model "
)
ARGUMENTS = re.compile(r"non-default args: (\{.*\})")
MODEL = re.compile(r"LLM engine \(v[^)]*\) with config: .*?\bmodel='([^']+)'")
CAPTURED, CONSUMED, TOTAL = "captured", "consumed", "total"
"""Sizes next to those of the lines: CUDA graphs as they became, not as they were charged; weights with non-torch
memory; the GPU."""
OTHER_SIZES = (
    (KV_CACHE, rf"Available KV cache memory: {SIZE}"),
    (KV_CACHE, rf"the rest of the memory reserved for KV Cache is {SIZE}"),
    (KV_CACHE, rf"larger than the available KV cache memory \({SIZE}\)"),
    (CAPTURED, rf"Graph capturing finished in .* took {SIZE}"),
    (CAPTURED, rf"and {SIZE} for CUDAGraph"),
    (CONSUMED, rf"Actual usage is {SIZE} for consumed memory \(weights \+ non-torch\)"),
    (TOTAL, rf"total_gpu_memory \({SIZE}\)"),
    (TOTAL, rf"has a total capacity of {SIZE}"),
    (TOTAL, rf"Free memory on device (?:cuda:\d+ )?\(-?[\d.]+/{SIZE}\)"),
)
PRINTED = tuple(
    (re.compile(pattern), name)
    for name, pattern in (*((line.id, pattern) for line in LINES for pattern in line.printed), *OTHER_SIZES)
)
"""The texts of a log that print a size, and its name."""
TOKENS = re.compile(r"GPU KV cache size: (\d[\d,]*) tokens")
LENGTH = re.compile(r"Using max model len (\d+)|max seq len \((\d+)\)")
LONGEST = re.compile(
    r"estimated maximum model length is (\d+)|maximum number of tokens that can be stored in KV cache \((\d+)\)"
)
"""vLLM's own estimate of the longest request that fits, V1's and V0's."""
PRINTS = re.compile(r"GiB|GB|version|engine \(v|non-default args|model len|seq len|KV cache")
"""Every line that is read has one of these: most lines of a long log have none."""
LEAST = frozenset({KV_CACHE, TOTAL})
"""Values of which the smallest rank counts; of all others the largest counts."""
CHARGED = Release(0, 20)
"""From here an estimate of the graphs is charged to the budget, and not what they take."""


@dataclass
class Start:
    """One start of vLLM, as its log shows it."""

    line: int
    """Where it begins, from 1."""
    release: Release | None = None
    model: str | None = None
    given: Mapping[str, Any] | None = None
    """dest → value of the arguments that are not defaults; None where the log does not list them."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Line of the ledger → bytes of one GPU."""
    tokens: int | None = None
    max_model_len: int | None = None
    longest: int | None = None
    """Tokens of the longest request that fits, as vLLM estimates it when the KV cache is too small."""

    @property
    def complete(self) -> bool:
        """It got as far as the KV cache."""
        return "kv_cache" in self.sizes or self.tokens is not None

    def ledger(self) -> dict[str, int]:
        """Bytes charged to the budget, by the ledger's lines."""
        entries = {name: self.sizes[name] for name in TITLES if name in self.sizes}
        if "cuda_graphs" not in entries and CAPTURED in self.sizes and (self.release or CHARGED) < CHARGED:
            entries["cuda_graphs"] = self.sizes[CAPTURED]
        if "non_torch" not in entries and CONSUMED in self.sizes and "weights" in entries:
            entries["non_torch"] = max(0, self.sizes[CONSUMED] - entries["weights"])
        return {name: size for name, size in entries.items() if size >= 0}


def read(text: str) -> list[Start]:
    """The starts in a log that printed something of their memory, in their order."""
    return [start for start in starts(line.read(text)) if start.ledger() or start.tokens]


def starts(lines: Sequence[line.LogLine]) -> list[Start]:
    """The starts in a log, in their order. A line with a release begins one, unless the last one has no size yet; text
    before it is a start whose beginning the log lacks."""
    starts: list[Start] = []
    printed = line.per_shape(_printed)
    for log_line in lines:
        rows = printed(log_line)
        if rows is None:
            continue
        begins = bool(rows) and rows[0][0] is START_LINE
        if not starts or (begins and starts[-1].sizes):  # the server and the engine both say which release they are
            starts.append(Start(log_line.number))
        for pattern, take in rows:
            if match := pattern.search(log_line.text):
                take(starts[-1], match)
    return starts


def _take_release(start: Start, match: re.Match[str]) -> None:
    start.release = parse(match[1] or match[2] or match[3]) or start.release


def _take_model(start: Start, match: re.Match[str]) -> None:
    start.model = start.model or match[1]


def _take_arguments(start: Start, match: re.Match[str]) -> None:
    start.given = _python_dict(match[1])
    named = (start.given or {}).get("model_tag") or (start.given or {}).get("model")
    start.model = str(named) if named else start.model


def _take_tokens(start: Start, match: re.Match[str]) -> None:
    count = int(match[1].replace(",", ""))
    start.tokens = min(count, start.tokens or count)


def _take_number(name: str, start: Start, match: re.Match[str]) -> None:
    setattr(start, name, int(match[1] or match[2]))


def _take_size(name: str, start: Start, match: re.Match[str]) -> None:
    size = int(float(match[1]) * GI)
    before = start.sizes.get(name, size)
    start.sizes[name] = min(size, before) if name in LEAST else max(size, before)


_Row = tuple[re.Pattern[str], Callable[[Start, re.Match[str]], None]]
_ROWS: tuple[_Row, ...] = (
    (START_LINE, _take_release),
    (MODEL, _take_model),
    (ARGUMENTS, _take_arguments),
    (TOKENS, _take_tokens),
    (LENGTH, partial(_take_number, "max_model_len")),
    (LONGEST, partial(_take_number, "longest")),
    *((pattern, partial(_take_size, name)) for pattern, name in PRINTED),
)
"""Each text, and what takes its values. Digits alone never decide whether a line has one of them."""


def _printed(log_line: line.LogLine) -> tuple[_Row, ...] | None:
    """The rows whose texts a line has; None if the line is not read."""
    if not PRINTS.search(log_line.text):
        return None
    return tuple(row for row in _ROWS if row[0].search(log_line.text))


def _python_dict(text: str) -> Mapping[str, Any] | None:
    """The dict that Python printed; None where it holds objects that are not literals."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def argv(start: Start) -> list[str] | None:
    """The command line that a log lists, without arguments that have no effect on memory or no value; None if it lists
    no model or no arguments."""
    if start.model is None or start.given is None:
        return None
    words = ["vllm", "serve", start.model]
    for dest, value in start.given.items():
        flag = f"--{dest.replace('_', '-')}"
        if dest in ("model", "model_tag", *measured.HARMLESS, *measured.SETTINGS_WITHOUT_EFFECT) or value is None:
            continue
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words += [flag, value if isinstance(value, str) else json.dumps(value)]
    return words


@dataclass(frozen=True)
class PrintedLine:
    """A line of the ledger, planned and printed. Bytes of one GPU, or tokens."""

    name: str
    low: int
    likely: int
    high: int
    printed: int

    @property
    def is_in_interval(self) -> bool:
        """The print lies in the interval; logs round to a hundredth of a GiB."""
        slack = 0.005 * GI if self.name != "kv_cache_tokens" else 0
        return self.low - slack <= self.printed <= self.high + slack


@dataclass(frozen=True)
class StartComparison:
    """One start next to the plan of its engine."""

    source: str
    start: Start
    engine: Engine
    problem: str = ""
    """Why it can't be written down; empty where it can."""

    def printed_lines(self) -> Iterator[PrintedLine]:
        """Each line that was printed and planned."""
        gpu = self.engine.plan.gpu
        if gpu is None:
            return
        printed = self.start.ledger()
        for name in TITLES:
            if name in printed:
                planned = gpu.amount(name)
                yield PrintedLine(name, planned.low, planned.likely, planned.high, printed[name])
        if self.start.tokens and gpu.kv_cache_tokens:
            yield PrintedLine("kv_cache_tokens", *gpu.kv_cache_tokens, self.start.tokens)

    def measured_row(self) -> dict[str, Any] | None:
        """The measurement as a row of `vllm.measured`; None if a value that identifies the start is unknown."""
        engine, start = self.engine, self.start
        gpus = engine.gpu.value.gpus if engine.gpu else ()
        if self.problem or engine.release is None or len(gpus) != 1 or engine.model is None:
            return None
        own = measured.own_arguments(engine.args.given, engine.args.defaults, engine.command.env)
        row = {
            "model": key(engine.args.model or engine.model.value.id),
            "gpu": gpus[0].name,
            "vllm_version": str(engine.release),
            "arguments": own[0],
            "env": own[1],
            "gpu_memory_bytes": start.sizes.get("total"),
            **start.ledger(),
            "source": self.source,
        }
        return {name: value for name, value in row.items() if value is not None}


def _one_of(gpus: Sequence[Gpu]) -> str:
    """Names to choose from: the label of GPU feature discovery, where there is one."""
    *names, last = (gpu.labels[0] if gpu.labels else f"'{gpu.name}'" for gpu in gpus)
    return f"{', '.join(names)} or {last}"


def compare(source: str, start: Start, engine: Engine) -> StartComparison:
    """The start next to the engine that a manifest, or its own arguments, describe."""
    problem = ""
    if engine.gpu is None or not engine.gpu.value.gpus:
        problem = "which GPU it was is not known: --gpu NAME names it"
    elif len(engine.gpu.value.gpus) > 1:
        problem = f"which GPU it was is not certain: --gpu {_one_of(engine.gpu.value.gpus)} says so"
    elif engine.release is None:
        problem = "which release it was is not known: neither the log nor the image's tag names it"
    elif start.release is not None and start.release != engine.release:
        problem = f"the log is of vLLM {start.release}, the manifest of {engine.release}"
    elif engine.model is None:
        problem = "the model is not known: `podfit models add` teaches it"
    elif engine.plan.gpu is None:
        problem = f"there is no plan: {engine.plan.why}"
    elif (engine.args.given.get("pipeline_parallel_size") or 1) != 1:
        problem = "pipeline stages differ from each other: only engines without them are written down"
    elif engine.args.unresolved or engine.args.open:
        problem = "some of its arguments can't be known"
    elif "kv_cache" not in start.ledger() and "weights" not in start.ledger():
        problem = "the log prints neither the weights nor the KV cache memory"
    return StartComparison(source, start, engine, problem)
