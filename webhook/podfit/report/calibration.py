"""How far the plans were off, as a table for people and as plain JSON values; and what is written down."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from podfit.base.printable import clean
from podfit.diagnose.calibrate import PrintedLine, StartComparison
from podfit.evaluation.denial import many
from podfit.kube import snapshot
from podfit.kube.quantity import human
from podfit.vllm import measured
from podfit.vllm.memory import lines

TITLES = {**lines.TITLES, "kv_cache_tokens": "KV cache, tokens"}


def text(all_of_them: Sequence[StartComparison]) -> str:
    """A table for each start, and a line about all."""
    out = []
    for comparison in all_of_them:
        engine, start = comparison.engine, comparison.start
        gpu = engine.gpu.value.gpus[0].name if engine.gpu and engine.gpu.value.gpus else "GPU not known"
        count = engine.world_size
        where = f"{count} × {gpu}" if count > 1 else gpu
        model = engine.model.value.id if engine.model else start.model or "model not known"
        out.append(
            clean(f"{comparison.source}:{start.line}: {model} on {where}, vLLM {engine.release or start.release}")
        )
        rows = list(comparison.printed_lines())
        if rows:
            out.append(f"  {'of one GPU':18} {'planned':>10} {'95 % interval':>23} {'printed':>10}   off by")
        out += [_line(row, comparison) for row in rows]
        out.append(f"  not written down: {comparison.problem}" if comparison.problem else "  written down")
        out.append("")
    rows = [row for pair in all_of_them for row in pair.printed_lines()]
    if rows:
        inside = sum(row.is_in_interval for row in rows)
        out.append(f"{many(len(all_of_them), 'start')}: {inside} of {len(rows)} printed values lie in the interval")
    return "\n".join(out) + "\n"


def _line(row: PrintedLine, comparison: StartComparison) -> str:
    """One row: likely, interval, printed value and error, in bytes; of the KV cache in tokens."""
    if row.name == "kv_cache_tokens":
        texts = [f"{number:,}" for number in (row.likely, row.low, row.high, row.printed)]
    else:
        texts = [human(size) for size in (row.likely, row.low, row.high, row.printed)]
    likely, low, high, printed = texts
    off = _off(row, comparison)
    mark = "" if row.is_in_interval else "  outside"
    return f"  {TITLES[row.name]:18} {likely:>10} {f'{low} … {high}':>23} {printed:>10}   {off}{mark}"


def _off(row: PrintedLine, comparison: StartComparison) -> str:
    """The error as a share of the printed value, and for GPU memory also of the GPU. A small line may be off by a large
    part of itself."""
    difference = row.likely - row.printed
    share = _percent(difference / row.printed) if row.printed else f"{difference:+,}"
    if row.name == "kv_cache_tokens" or comparison.engine.plan.gpu is None:
        return share
    return f"{share}, {_percent(difference / max(1, comparison.engine.plan.gpu.total.likely))} of the GPU"


def _percent(share: float) -> str:
    sentence = f"{100 * share:+.1f}"
    return f"{'0.0' if sentence in ('-0.0', '+0.0') else sentence} %"


def tree(all_of_them: Sequence[StartComparison]) -> dict[str, Any]:
    """The comparisons as plain JSON values, for `podfit calibrate --format json`."""
    return {
        "results": [
            {
                "source": start.source,
                "line": start.start.line,
                "model": start.engine.model.value.id if start.engine.model else start.start.model,
                "gpu": gpu.value.gpus[0].name if (gpu := start.engine.gpu) and gpu.value.gpus else None,
                "vllm_version": str(start.engine.release) if start.engine.release else None,
                "lines": {
                    row.name: {
                        "low": row.low, "likely": row.likely, "high": row.high, "printed": row.printed,
                        "inside": row.is_in_interval,
                    }
                    for row in start.printed_lines()
                },
                "problem": start.problem or None,
                "measured": start.measured_row(),
            }
            for start in all_of_them
        ]
    }  # fmt: skip


def facts(all_of_them: Sequence[StartComparison], before: Sequence[Mapping[str, Any]] = ()) -> str:
    """A `*.measured.json`: what was there before, and the new starts in place of those of the same engine."""
    rows: dict[str, Mapping[str, Any]] = {}
    for row in [*before, *(fact for comparison in all_of_them if (fact := comparison.measured_row()))]:
        rows[json.dumps([row.get(word) for word in SAME], sort_keys=True)] = row
    return json.dumps({"measured": list(rows.values())}, indent=1) + "\n"


SAME = ("model", "gpu", "vllm_version", "arguments", "env")
"""A later start of the same engine replaces an earlier one."""


def config_map(all_of_them: Sequence[StartComparison], namespace: str | None) -> dict[str, Any]:
    """The ConfigMap from which webhook, scan and check read the same."""
    named = sorted({str(fact["model"]) for comparison in all_of_them if (fact := comparison.measured_row())})
    word = re.sub(r"[^a-z0-9.]+", "-", (named[0] if len(named) == 1 else "models").lower()).strip("-.")[:200]
    metadata: dict[str, Any] = {"name": f"podfit-measured-{word}", "labels": {snapshot.MODEL_CONFIG: "true"}}
    if namespace:
        metadata["namespace"] = namespace
    data = {f"podfit{measured.ENDING}": facts(all_of_them)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
