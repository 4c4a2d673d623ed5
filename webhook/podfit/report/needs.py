"""The ways to serve a number of users: each offer checked by the rules, as a table for people, and as JSON values."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from podfit import generate
from podfit.evaluation.lint import lint
from podfit.evaluation.policy import Policy
from podfit.kube.quantity import human
from podfit.kube.workload import JSON
from podfit.rules.engine import Engine
from podfit.rules.shm import SHM
from podfit.vllm.facts import Facts
from podfit.vllm.gpu import Accelerator, by_name, distinct
from podfit.vllm.memory.needs import Offer
from podfit.vllm.model import Model


@dataclass(frozen=True)
class NeedsQuestion:
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
    """The words after `vllm serve`."""
    engine: Engine
    refused: str | None
    """Why it would be denied all the same, None where it would not."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """The inputs that all ways of one question share."""

    model: str
    """As the user writes it."""
    arguments: tuple[str, ...] = ()
    """More arguments of vLLM than an offer sets."""
    context: int | None
    """Tokens of each request; None: the model's own limit."""
    users: int | None
    """Requests at once; None: at least one, and vLLM's own --max-num-seqs."""
    version: str
    """vLLM's release."""
    namespace: str | None = None
    """The namespace of the manifests."""


def check_offers(offers: Iterable[Offer], serving: Serving, facts: Facts, policy: Policy) -> list[Way]:
    """Each offer as a command line that the rules check, those that would be denied last."""
    checked = [_way(offer, serving, facts, policy) for offer in offers]
    return sorted(checked, key=lambda way: way.refused is not None)


def _way(offer: Offer, serving: Serving, facts: Facts, policy: Policy) -> Way:
    """The offer as a command line, checked by the rules for problems other than memory (a dtype, a format)."""
    served = str(offer.changes.get("model") or serving.model)
    words = [served, *serving.arguments, "--max-model-len", str(serving.context or offer.ledger.max_model_len)]
    words += ["--max-num-seqs", str(-(-serving.users // offer.replicas))] if serving.users else []
    words += ["--tensor-parallel-size", str(offer.gpus)] if offer.gpus > 1 else []
    words += ["--kv-cache-dtype", str(offer.changes["kv_cache_dtype"])] if "kv_cache_dtype" in offer.changes else []
    known = replace(facts, gpu=Accelerator(by_name(offer.stock.product), offer.gpus))
    container = {
        "name": "vllm",
        "image": f"vllm/vllm-openai:v{serving.version}",
        "command": ["vllm", "serve"],
        "args": words,
        "resources": {"limits": {"nvidia.com/gpu": str(offer.gpus)}},
        "volumeMounts": [{"name": "dshm", "mountPath": SHM}],
    }
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    metadata = {"name": generate.slug(served), **({"namespace": serving.namespace} if serving.namespace else {})}
    obj: JSON = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": offer.replicas, "template": {"spec": {"containers": [container], "volumes": volumes}}},
    }
    (result,) = lint(obj, policy, known, where="check").results
    findings = (
        finding for finding in result.findings if finding.mode in ("deny", "warn") and finding.threatens == "start"
    )
    # the manifest itself has the token, the volumes and the tolerations that the others are about
    denied = next((finding for finding in findings if finding.mode == "deny" or finding.plane == "gpu"), None)
    return Way(offer, tuple(words), result.engine, f"{denied.rule}: {denied.finding.message}" if denied else None)


def tree(need: NeedsQuestion, ways: Sequence[Way]) -> dict[str, Any]:
    """The question and its ways as plain JSON values (docs/schemas/needs.json)."""
    return {
        "model": need.model.id,
        "context": need.context,
        "users": need.users,
        "vllm_version": need.version,
        "offers": [_row(way) for way in ways],
    }


def _row(way: Way) -> dict[str, Any]:
    """One way to run the model as in docs/schemas/needs.json; memory in bytes."""
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


def table(need: NeedsQuestion, ways: Sequence[Way], *, looked: Sequence[str], sizes: Sequence[int]) -> str:
    """For people: what keeps the model's output, then what changes it, each with the least GPU memory first."""
    size = f" ({need.model.parameters / 1e9:.1f} B parameters)" if need.model.parameters else ""
    requests = f"{need.users} requests at once" if need.users > 1 else "one request"
    newest = " (the newest that podfit knows)" if need.assumed else ""
    out = [f"{need.model.id}{size}: {requests} of {need.context:,} tokens, vLLM {need.version}{newest}", ""]
    if not ways:
        shorter = need.context // 2
        out += [f"nothing holds them: tried {_and(sizes)} of {', '.join(looked)}"]
        out += [f"next: podfit plan {need.model.id} --context {shorter} --users {need.users}; or --gpu NAME"]
        return "\n".join(out) + "\n"
    items = near(ways)
    groups = {
        "same output": [way for way in items if not way.offer.changes],
        "changed output": [way for way in items if way.offer.changes],
    }
    names = short_names(items)
    rows = {title: [cells(way, names) for way in group] for title, group in groups.items() if group}
    lines = [HEADING, *(row for group in rows.values() for row in group)]
    widths = [max(len(row[column]) for row in lines) for column in range(len(HEADING))]
    one_replica = sum(widths[:4]) + 2 * 3
    out += [f"{'':18}{'per replica':<{one_replica}}    in total"]
    for title, group in rows.items():
        out += [_line(title, HEADING, widths), *(_line("", row, widths) for row in group), ""]
    if left_out := len(ways) - len(items):
        out += [f"{left_out} more need over {FARTHEST} times the least GPU memory; --format json has all"]
    out += ["Least GPU memory first: podfit knows no prices. Each row is what the low end of the estimate holds."]
    best = next((way for way in items if way.refused is None), None)
    if best is not None:
        out += ["", f"the first: vllm serve {shlex.join(best.words)}"]
        if best.offer.changes:
            out += ["  (changes the model's output)"]
        out += ["next: the same with `-o yaml > vllm.yaml` writes its manifest"]
    return "\n".join(out) + "\n"


def near(ways: Sequence[Way]) -> list[Way]:
    """The ways with at most FARTHEST times the least GPU memory."""
    least = min((way.offer.memory for way in ways), default=0)
    return [way for way in ways if way.offer.memory <= FARTHEST * least]


def short_names(ways: Iterable[Way]) -> Mapping[str, str]:
    """The shortest distinct name of each of their GPU models, by its full name."""
    return distinct(gpu.name for way in ways for gpu in by_name(way.offer.stock.product))


HEADING = ("GPUs", "GPU memory", "KV cache", "holds", "GPUs", "GPU memory", "holds", "what changes")
"""The first four columns are for one replica, the next three for all."""


def _line(title: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    """A row below the heading of its group."""
    numbers = [f"{cell:>{width}}" for cell, width in zip(cells[1:7], widths[1:7], strict=True)]
    replica = [f"{cells[0]:<{widths[0]}}", *numbers[:3]]
    return f"{title:<18}{'  '.join(replica)}    {'  '.join([*numbers[3:], cells[7]])}".rstrip()


def _and(sizes: Sequence[int]) -> str:
    *first, last = map(str, sizes)
    return f"{', '.join(first)} and {last}" if first else last


def cells(way: Way, labels: Mapping[str, str]) -> tuple[str, ...]:
    """The cells of one offer, as in HEADING."""
    offer = way.offer
    tokens = f"{offer.ledger.kv_cache_tokens[0]:,} tokens" if offer.ledger.kv_cache_tokens else "none"
    changes = [f"--{dest.replace('_', '-')} {value}" for dest, value in offer.changes.items() if dest != "model"]
    changes += [f"{offer.changes['model']}"] if "model" in offer.changes else []
    notes = [" ".join(changes)] if changes else []
    notes += [f"the cluster has {offer.stock.gpus}"] if not offer.there else []
    notes += [f"refused: {way.refused}"] if way.refused else []
    models = dict.fromkeys(labels[model.name] for model in by_name(offer.stock.product)) or {offer.stock.product: None}
    return (
        f"{offer.gpus} × {' or '.join(models)}",
        human(offer.memory / offer.replicas),
        tokens,
        f"{offer.held // offer.replicas:,}",
        str(offer.gpus * offer.replicas),
        human(offer.memory),
        f"{offer.held:,}",
        "; ".join(notes),
    )
