"""The GPUs on which an engine fits, for the page: the sides of an unnamed GPU, and a grid of models and counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from podfit.rules import gpu_set
from podfit.rules.engine import Engine
from podfit.vllm.memory import sweep
from podfit.vllm.memory.ledger import IN_WORDS
from podfit.vllm.memory.partition import VERDICTS


def sides(engine: Engine) -> list[dict[str, Any]]:
    """The GPUs that an engine without a named GPU may get, as `podfit check` names them: where it fits, where not, and
    where that is unsure. Empty if its GPU is named or none is planned."""
    if engine.gpu is not None or engine.gpus is None:
        return []
    planned, lacking = gpu_set.placements(engine)
    rows = []
    for verdict in VERDICTS:
        if gpus := [gpu for gpu in planned if gpu.verdict == verdict]:
            rows.append(_side(verdict, IN_WORDS[verdict], gpus))
    rows += [_side("lacking", f"room, but {reason}", gpus) for reason, gpus in lacking.items() if gpus]
    return rows


def _side(verdict: str, words: str, named_gpus: Iterable[gpu_set.Named]) -> dict[str, Any]:
    """GPUs with one result as plain JSON values, each name once. `words`: the result for people."""
    return {"verdict": verdict, "words": words, "gpus": list(dict.fromkeys(map(_sized, named_gpus)))}


def _sized(gpu: gpu_set.Named) -> str:
    """The GPU with the size by which it is sold: "NVIDIA L4 (24 GB)"."""
    return f"{gpu.name} ({gpu.gigabytes} GB)"


def grid(engine: Engine) -> list[dict[str, Any]]:
    """A row per GPU, a cell per count: how many requests of the context that is set run at once (None: unknown). Empty
    if the model or the context is unknown."""
    resolved = engine.plan.resolved
    length = resolved.budget.max_model_len if resolved is not None else None
    if engine.model is None or not length:
        return []
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in sweep.sweep(engine.args, engine.model.value, env=engine.command.env, context_lengths=[length]):
        cell = row.cells[length]
        count = None if cell.concurrency is None else round(cell.concurrency, 1)
        rows.setdefault(row.product, []).append(
            {"gpus": row.gpus, "verdict": cell.verdict, "words": IN_WORDS[cell.verdict], "concurrency": count}
        )
    return [{"product": product, "cells": cells} for product, cells in rows.items()]
