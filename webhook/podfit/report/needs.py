"""What a model needs, as a table for people, and as plain JSON values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podfit.kube.quantity import human
from podfit.rules.engine import Engine
from podfit.vllm.gpu import by_name, distinct
from podfit.vllm.memory.needs import Offer
from podfit.vllm.model import Model


@dataclass(frozen=True)
class Asked:
    """The question."""

    model: Model
    context: int
    """Tokens of each request."""
    users: int
    """Requests at once."""
    version: str
    """vLLM's release."""
    assumed: bool = False
    """It is the newest one, since none is given."""


@dataclass(frozen=True)
class Way:
    """One answer."""

    offer: Offer
    words: tuple[str, ...]
    """What is behind `vllm serve`."""
    engine: Engine
    refused: str | None
    """Why it would be denied all the same, None where it would not."""


def tree(asked: Asked, ways: Sequence[Way]) -> dict[str, Any]:
    """For machines (docs/schemas/needs.json)."""
    return {
        "model": asked.model.id,
        "context": asked.context,
        "users": asked.users,
        "vllm_version": asked.version,
        "offers": [_row(one) for one in ways],
    }


def _row(way: Way) -> dict[str, Any]:
    offer = way.offer
    return {
        "product": offer.stock.product,
        "gpus": offer.gpus,
        "replicas": offer.replicas,
        "gpu_memory_bytes": offer.memory,
        "requests_at_once": offer.held,
        "kv_cache_tokens": None if offer.ledger.kv_cache_tokens is None else offer.ledger.kv_cache_tokens[0],
        "argv": ["vllm", "serve", *way.words],
        "changes": dict(offer.changes),
        "changes_output": bool(offer.changes),
        "in_cluster": None if offer.stock.gpus is None else {"gpus": offer.stock.gpus, "nodes": offer.stock.nodes},
        "refused": way.refused,
    }


FARTHEST = 4
"""Times the least GPU memory; offers with more are left out of the table."""


def table(asked: Asked, ways: Sequence[Way], *, looked: Sequence[str], sizes: Sequence[int]) -> str:
    """For people: what keeps the model's output, then what changes it, each with the least GPU memory first."""
    size = f" ({asked.model.parameters / 1e9:.1f} B parameters)" if asked.model.parameters else ""
    requests = f"{asked.users} requests at once" if asked.users > 1 else "one request"
    newest = " (the newest that podfit knows)" if asked.assumed else ""
    out = [f"{asked.model.id}{size}: {requests} of {asked.context:,} tokens, vLLM {asked.version}{newest}", ""]
    if not ways:
        shorter = asked.context // 2
        out += [f"nothing holds them: tried {_and(sizes)} of {', '.join(looked)}"]
        out += [f"next: podfit plan {asked.model.id} --context {shorter} --users {asked.users}; or --gpu NAME"]
        return "\n".join(out) + "\n"
    least = min(one.offer.memory for one in ways)
    shown = [one for one in ways if one.offer.memory <= FARTHEST * least]
    groups = {
        "same output": [one for one in shown if not one.offer.changes],
        "changed output": [one for one in shown if one.offer.changes],
    }
    names = distinct(gpu.name for one in shown for gpu in by_name(one.offer.stock.product))
    rows = {title: [_cells(one, names) for one in group] for title, group in groups.items() if group}
    cells = [HEADING, *(row for group in rows.values() for row in group)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADING))]
    one_replica = sum(widths[:4]) + 2 * 3
    out += [f"{'':18}{'per replica':<{one_replica}}    in total"]
    for title, group in rows.items():
        out += [_line(title, HEADING, widths), *(_line("", row, widths) for row in group), ""]
    if left_out := len(ways) - len(shown):
        out += [f"{left_out} more need over {FARTHEST} times the least GPU memory; --format json has all"]
    out += ["Least GPU memory first: podfit knows no prices. Each row is what the low end of the estimate holds."]
    best = next((one for one in shown if one.refused is None), None)
    if best is not None:
        out += ["", f"the first: vllm serve {shlex.join(best.words)}"]
        if best.offer.changes:
            out += ["  (changes the model's output)"]
        out += ["next: the same with `-o yaml > vllm.yaml` writes its manifest"]
    return "\n".join(out) + "\n"


HEADING = ("GPUs", "GPU memory", "KV cache", "holds", "GPUs", "GPU memory", "holds", "what changes")
"""The first four columns are for one replica, the next three for all."""


def _line(title: str, row: Sequence[str], widths: Sequence[int]) -> str:
    """A row below the heading of its group."""
    numbers = [f"{cell:>{width}}" for cell, width in zip(row[1:7], widths[1:7], strict=True)]
    cells = [f"{row[0]:<{widths[0]}}", *numbers[:3]]
    return f"{title:<18}{'  '.join(cells)}    {'  '.join([*numbers[3:], row[7]])}".rstrip()


def _and(sizes: Sequence[int]) -> str:
    *first, last = map(str, sizes)
    return f"{', '.join(first)} and {last}" if first else last


def _cells(way: Way, short_names: Mapping[str, str]) -> tuple[str, ...]:
    """The cells of one offer, as in HEADING."""
    offer = way.offer
    tokens = f"{offer.ledger.kv_cache_tokens[0]:,} tokens" if offer.ledger.kv_cache_tokens else "none"
    said = [f"--{dest.replace('_', '-')} {value}" for dest, value in offer.changes.items() if dest != "model"]
    said += [f"{offer.changes['model']}"] if "model" in offer.changes else []
    notes = [" ".join(said)] if said else []
    notes += [f"the cluster has {offer.stock.gpus}"] if not offer.there else []
    notes += [f"refused: {way.refused}"] if way.refused else []
    names = dict.fromkeys(short_names[one.name] for one in by_name(offer.stock.product)) or {offer.stock.product: None}
    return (
        f"{offer.gpus} × {' or '.join(names)}",
        human(offer.memory / offer.replicas),
        tokens,
        f"{offer.held // offer.replicas:,}",
        str(offer.gpus * offer.replicas),
        human(offer.memory),
        f"{offer.held:,}",
        "; ".join(notes),
    )
