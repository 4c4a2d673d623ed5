"""The GPUs on which an engine fits, for the page: the sides of an unnamed GPU, and a grid of models and counts."""

from __future__ import annotations

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
    rows: list[tuple[str, str, list[gpu_set.Named]]]
    rows = [(verdict, IN_WORDS[verdict], [gpu for gpu in planned if gpu.verdict == verdict]) for verdict in VERDICTS]
    rows += [("lacking", f"room, but {reason}", gpus) for reason, gpus in lacking.items()]
    return [
        {"verdict": verdict, "words": words, "gpus": list(dict.fromkeys(map(_sized, gpus)))}
        for verdict, words, gpus in rows
        if gpus
    ]


def _sized(gpu: gpu_set.Named) -> str:
    return f"{gpu.name} ({gpu.gigabytes} GB)"


def grid(engine: Engine) -> list[dict[str, Any]]:
    """A row per GPU, a cell per count: how many requests of the context that is set run at once."""
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
