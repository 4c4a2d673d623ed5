"""The ways to serve a number of users: each offer checked by the rules, as a table for people, and as JSON values."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from podfit import generate
from podfit.evaluation.lint import GradedFinding, lint
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
    """The ways of the offers, each checked by the rules: in the order of the offers, but those that would be denied
    last."""
    checked = [_way(offer, serving, facts, policy) for offer in offers]
    return sorted(checked, key=lambda way: way.refused is not None)


def _way(offer: Offer, serving: Serving, facts: Facts, policy: Policy) -> Way:
    """The offer as a command line, checked by the rules for problems other than memory (a dtype, a format)."""
    model = _served_model(offer, serving)
    words = _command_words(offer, serving, model)
    deployment = _deployment(offer, serving, generate.slug(model), words)
    planned_facts = replace(facts, gpu=Accelerator(by_name(offer.stock.product), offer.gpus))
    (result,) = lint(deployment, policy, planned_facts, where="check").results
    return Way(offer, tuple(words), result.engine, _refusal(result.findings))


def _served_model(offer: Offer, serving: Serving) -> str:
    """The model that the offer serves: the asked one, or its quantized copy if the offer changes it."""
    return str(offer.changes.get("model") or serving.model)


def _command_words(offer: Offer, serving: Serving, model: str) -> list[str]:
    """The words after `vllm serve`: the model, the user's arguments, then those that the offer needs."""
    words = [model, *serving.arguments, "--max-model-len", str(serving.context or offer.ledger.max_model_len)]
    if serving.users:
        users_per_replica = -(-serving.users // offer.replicas)  # rounded up
        words += ["--max-num-seqs", str(users_per_replica)]
    if offer.gpus > 1:
        words += ["--tensor-parallel-size", str(offer.gpus)]
    if "kv_cache_dtype" in offer.changes:
        words += ["--kv-cache-dtype", str(offer.changes["kv_cache_dtype"])]
    return words


def _deployment(offer: Offer, serving: Serving, name: str, words: list[str]) -> JSON:
    """The smallest Deployment in which the rules can check the command line."""
    container = {
        "name": "vllm",
        "image": f"vllm/vllm-openai:v{serving.version}",
        "command": ["vllm", "serve"],
        "args": words,
        "resources": {"limits": {"nvidia.com/gpu": str(offer.gpus)}},
        "volumeMounts": [{"name": "dshm", "mountPath": SHM}],
    }
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **({"namespace": serving.namespace} if serving.namespace else {})},
        "spec": {"replicas": offer.replicas, "template": {"spec": {"containers": [container], "volumes": volumes}}},
    }


def _refusal(findings: Iterable[GradedFinding]) -> str | None:
    """The rule and message of the first finding for which the offer would not start; None if there is none.

    Warnings count if they are about the GPU. All others are about what the generated manifest has and this Deployment
    lacks: the token, the volumes and the tolerations."""
    for finding in findings:
        is_serious = finding.mode == "deny" or (finding.mode == "warn" and finding.plane == "gpu")
        if is_serious and finding.threatens == "start":
            return f"{finding.rule}: {finding.finding.message}"
    return None


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
"""Times the least GPU memory; offers with more are left out of the table. A choice, to keep it short: --format json has
all."""


def table(need: NeedsQuestion, ways: Sequence[Way], *, looked: Sequence[str], sizes: Sequence[int]) -> str:
    """The answer for people: a table of the ways that keep the model's output, then of those that change it, each with
    the least GPU memory first. Then the command of the first way.

    `looked`, `sizes`: the names of the GPUs, and the numbers of them per replica, that were tried; shown without a way.
    """
    out = [_question(need), ""]
    if not ways:
        shorter = need.context // 2  # half the memory of a request
        out += [f"nothing holds them: tried {_and(sizes)} of {', '.join(looked)}"]
        out += [f"next: podfit plan {need.model.id} --context {shorter} --users {need.users}; or --gpu NAME"]
        return "\n".join(out) + "\n"
    items = near(ways)
    out += _rows(items)
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


def _question(need: NeedsQuestion) -> str:
    """The question in one line: model, requests, tokens and release."""
    size = f" ({need.model.parameters / 1e9:.1f} B parameters)" if need.model.parameters else ""
    requests = f"{need.users} requests at once" if need.users > 1 else "one request"
    newest = " (the newest that podfit knows)" if need.assumed else ""
    return f"{need.model.id}{size}: {requests} of {need.context:,} tokens, vLLM {need.version}{newest}"


def _rows(ways: Sequence[Way]) -> list[str]:
    """The lines of the table: a group of ways that keep the model's output, and one of those that change it. An empty
    group is left out."""
    groups = {
        "same output": [way for way in ways if not way.offer.changes],
        "changed output": [way for way in ways if way.offer.changes],
    }
    names = short_names(ways)
    rows = {title: [cells(way, names) for way in group] for title, group in groups.items() if group}
    lines = [HEADING, *(row for group in rows.values() for row in group)]
    widths = [max(len(row[column]) for row in lines) for column in range(len(HEADING))]
    replica_width = len(_GAP.join(" " * width for width in widths[:REPLICA_COLUMNS]))
    out = [f"{'':{_TITLE_WIDTH}}{'per replica':<{replica_width}}{_WIDE_GAP}in total"]
    for title, group in rows.items():
        out += [_line(title, HEADING, widths), *(_line("", row, widths) for row in group), ""]
    return out


def near(ways: Sequence[Way]) -> list[Way]:
    """The ways with at most FARTHEST times the least GPU memory of one, in their order."""
    least = min((way.offer.memory for way in ways), default=0)
    return [way for way in ways if way.offer.memory <= FARTHEST * least]


def short_names(ways: Iterable[Way]) -> Mapping[str, str]:
    """The shortest distinct name of each of their GPU models, by its full name."""
    return distinct(gpu.name for way in ways for gpu in by_name(way.offer.stock.product))


HEADING = ("GPUs", "GPU memory", "KV cache", "holds", "GPUs", "GPU memory", "holds", "what changes")
"""The first REPLICA_COLUMNS are for one replica, the next three for all."""
REPLICA_COLUMNS = 4
_TITLE_WIDTH = 18
"""Characters of the column with the groups' titles."""
_GAP, _WIDE_GAP = "  ", "    "
"""Between two columns; between those of one replica and those of all."""


def _line(title: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    """One line of the table, with the cells of HEADING in columns of these widths: names to the left, numbers to the
    right. `title`: of the group, empty below its first line."""
    name, *numbers, notes = cells
    name_width, *number_widths, _ = widths
    columns = [f"{name:<{name_width}}"]
    columns += [f"{number:>{width}}" for number, width in zip(numbers, number_widths, strict=True)]
    replica = _GAP.join(columns[:REPLICA_COLUMNS])
    total = _GAP.join([*columns[REPLICA_COLUMNS:], notes])
    return f"{title:<{_TITLE_WIDTH}}{replica}{_WIDE_GAP}{total}".rstrip()


def _and(sizes: Sequence[int]) -> str:
    """The numbers as words of a sentence: "1, 2 and 4". At least one."""
    *first, last = map(str, sizes)
    return f"{', '.join(first)} and {last}" if first else last


def cells(way: Way, labels: Mapping[str, str]) -> tuple[str, ...]:
    """The cells of one way, as in HEADING. `labels`: short names, as `short_names` gives them."""
    offer = way.offer
    tokens = f"{offer.ledger.kv_cache_tokens[0]:,} tokens" if offer.ledger.kv_cache_tokens else "none"  # the low end
    return (
        f"{offer.gpus} × {_gpu_names(offer, labels)}",
        human(offer.memory / offer.replicas),
        tokens,
        f"{offer.held // offer.replicas:,}",
        str(offer.gpus * offer.replicas),
        human(offer.memory),
        f"{offer.held:,}",
        "; ".join(_notes(way)),
    )


def _gpu_names(offer: Offer, labels: Mapping[str, str]) -> str:
    """The GPU models of the offer by their short names; its label or name as it is if podfit does not know it."""
    names = dict.fromkeys(labels[gpu.name] for gpu in by_name(offer.stock.product))
    return " or ".join(names) or offer.stock.product


def _notes(way: Way) -> list[str]:
    """The arguments that change the model's output, that the cluster has too few GPUs, and why it would be denied."""
    offer = way.offer
    changes = [f"--{dest.replace('_', '-')} {value}" for dest, value in offer.changes.items() if dest != "model"]
    if "model" in offer.changes:
        changes.append(str(offer.changes["model"]))
    notes = [" ".join(changes)] if changes else []
    notes += [f"the cluster has {offer.stock.gpus}"] if not offer.there else []
    notes += [f"refused: {way.refused}"] if way.refused else []
    return notes
