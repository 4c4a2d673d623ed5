"""What a model needs, as a table for people, and as plain JSON values."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webhook.kube.quantity import human
from webhook.rules.engine import Engine
from webhook.vllm.memory.needs import Offer
from webhook.vllm.model import Model


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


@dataclass(frozen=True)
class Way:
    """One answer."""

    offer: Offer
    words: tuple[str, ...]
    """What stands behind `vllm serve`."""
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


def table(asked: Asked, ways: Sequence[Way], *, looked: Sequence[str], sizes: Sequence[int]) -> str:
    """For people, the best first."""
    size = f" ({asked.model.parameters / 1e9:.1f} B parameters)" if asked.model.parameters else ""
    requests = f"{asked.users} requests at once" if asked.users > 1 else "one request"
    out = [f"{asked.model.id}{size}: {requests} of {asked.context:,} tokens, vLLM {asked.version}", ""]
    if not ways:
        shorter = asked.context // 2
        out += [f"nothing holds them: tried {_and(sizes)} of {', '.join(looked)}"]
        out += [f"next: podfit plan {asked.model.id} --context {shorter} --users {asked.users}; or --gpu NAME"]
        return "\n".join(out) + "\n"
    rows = [("", "GPUs", "GPU memory", "KV cache", "holds", "what changes")]
    rows += [_cells(number, one) for number, one in enumerate(ways, 1)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [f"{row[0]:>{widths[0]}}", f"{row[1]:<{widths[1]}}", *(f"{row[i]:>{widths[i]}}" for i in (2, 3, 4))]
        out.append("  ".join([*cells, row[5]]).rstrip())
    out += ["", "Least GPU memory first: podfit knows no prices. Each row is what the low end of the estimate holds."]
    best = next((one for one in ways if one.refused is None), None)
    if best is not None:
        out += ["", f"the first: vllm serve {shlex.join(best.words)}"]
        if best.offer.changes:
            out += ["  (changes the model's output)"]
        out += ["next: the same with `-o yaml > vllm.yaml` writes its manifest"]
    return "\n".join(out) + "\n"


def _and(sizes: Sequence[int]) -> str:
    *first, last = map(str, sizes)
    return f"{', '.join(first)} and {last}" if first else last


def _cells(number: int, way: Way) -> tuple[str, str, str, str, str, str]:
    """The cells of one offer: number, GPUs, memory, KV cache, users, notes."""
    offer = way.offer
    many = f"{offer.replicas} replicas of " if offer.replicas > 1 else ""
    tokens = f"{offer.ledger.kv_cache_tokens[0]:,} tokens" if offer.ledger.kv_cache_tokens else "none"
    said = [f"--{dest.replace('_', '-')} {value}" for dest, value in offer.changes.items() if dest != "model"]
    said += [f"{offer.changes['model']}"] if "model" in offer.changes else []
    notes = [f"{' '.join(said)} (changes the model's output)"] if said else []
    if not offer.there:
        notes.append(f"the cluster has {offer.stock.gpus}")
    if way.refused:
        notes.append(f"refused: {way.refused}")
    return (
        str(number),
        f"{many}{offer.gpus} × {offer.stock.product}",
        human(offer.memory),
        tokens,
        f"{offer.held:,}",
        "; ".join(notes),
    )
