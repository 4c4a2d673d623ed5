"""A number of users, each with a request of the full context: how many of them an engine holds, and the ways to hold
them all, as `podfit plan MODEL --users N` lists them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from podfit.base.secret import Secrets
from podfit.evaluation.compare import settings_of
from podfit.evaluation.denial import many
from podfit.evaluation.policy import Policy
from podfit.report import needs as as_needs
from podfit.report.needs import Serving, Way
from podfit.rules.engine import Engine
from podfit.vllm.facts import Facts
from podfit.vllm.memory import needs
from podfit.vllm.memory.needs import CATALOGUE, Stock


def held(engine: Engine, users: int) -> dict[str, Any] | None:
    """How many of the users the engine holds at once; None if it does not start, or its KV cache is unknown.

    `state`: "fits" if the low end of the estimate holds all users, "unsure" if only the high end does. `text`: the
    result for people. `room`: what limits it, and the replicas that hold all."""
    ledger = engine.plan.gpu
    low = needs.capacity(ledger) if ledger is not None else None
    if ledger is None or low is None or engine.plan.verdict == "does-not-fit" or not ledger.max_concurrency:
        return None
    # max_concurrency is of the likely KV cache, and in proportion to its size.
    high = max(low, math.floor(ledger.max_concurrency * ledger.kv_cache.high / ledger.kv_cache.likely))
    max_num_seqs = settings_of(engine).get("max_num_seqs")
    limit = max_num_seqs if isinstance(max_num_seqs, int) else high
    least, most = min(low, limit), min(high, limit)
    room = [f"{ledger.max_model_len or 0:,} tokens each", f"KV cache for {_span(low, high)}"]
    if limit < min(low, users):
        room.append(f"--max-num-seqs {limit:,}")
    if least >= users:
        return {"state": "fits", "text": f"holds {many(users, 'user')}", "room": "; ".join(room)}
    state = "unsure" if most >= users else "does-not-fit"
    replicas = -(-users // least)  # rounded up
    room.append(f"{many(replicas, 'replica')} hold all")
    return {"state": state, "text": f"holds {_span(least, most)} of {many(users, 'user')}", "room": "; ".join(room)}


def _span(low: int, high: int) -> str:
    """The two numbers for people; one of them if they are equal."""
    return f"{low:,}" if low == high else f"{low:,} … {high:,}"


def ways(engine: Engine, serving: Serving, facts: Facts, policy: Policy, secrets: Secrets) -> dict[str, Any]:
    """The ways to hold the users, quantized copies among them, in the order of `podfit plan`; without a title for a
    model or a context that is unknown."""
    resolved = engine.plan.resolved
    context = resolved.budget.max_model_len if resolved is not None else None
    if engine.model is None or not context or engine.args.errors:
        return {"title": "", "rows": []}
    offers = needs.offers(
        engine.args, engine.model.value, context=context, users=serving.users, stocks=_stocks(engine),
        env=engine.command.env,
    )  # fmt: skip
    near = as_needs.near(as_needs.check_offers(offers, serving, facts, policy))
    names = as_needs.short_names(near)
    rows = [_row(way, [secrets.line(cell) for cell in as_needs.cells(way, names)]) for way in near]
    requests = many(serving.users, "user") if serving.users else "one request"
    return {
        "title": f"Ways to hold {requests} of {context:,} tokens",
        "rows": sorted(rows, key=lambda row: bool(row["changes"])),
    }


def _stocks(engine: Engine) -> Sequence[Stock]:
    """The GPUs that clusters usually have, and the chosen GPU."""
    usual = {stock.product for stock in CATALOGUE}
    chosen = engine.gpu.value.gpus if engine.gpu else ()
    first_labels = dict.fromkeys(label for gpu in chosen for label in gpu.labels[:1])
    return [*CATALOGUE, *(Stock(label) for label in first_labels if label not in usual)]


def _row(way: Way, cells: Sequence[str]) -> dict[str, Any]:
    """A row of the table, and the values of the page's controls that choose it. `cells`: as `report.needs.cells` gives
    them."""
    offer = way.offer
    sequences = _sequences(way.words)
    gpus, *_replica, _total_gpus, memory, holds, changes = cells  # report.needs.HEADING
    return {
        "gpus": gpus,
        "replicas": offer.replicas,
        "memory": memory,
        "holds": holds,
        "changes": changes,
        "refused": way.refused is not None,
        "controls": {
            "model": way.words[0],
            "gpu": offer.stock.product,
            "gpus": str(offer.gpus),
            "tensor_parallel_size": "",
            "max_model_len": str(offer.ledger.max_model_len or ""),
            **({"max_num_seqs": sequences} if sequences else {}),
            **({"kv_cache_dtype": str(offer.changes["kv_cache_dtype"])} if "kv_cache_dtype" in offer.changes else {}),
        },
    }


def _sequences(words: Sequence[str]) -> str:
    """The value of --max-num-seqs in the words of a way; "" without one."""
    flag = "--max-num-seqs"
    return words[words.index(flag) + 1] if flag in words else ""
