"""Targets for an autoscaler of vLLM, and its speed: numbers from the plan of one replica.

CPU says nothing of vLLM's load and GPU use is always high: what counts is who waits, and how full the KV cache is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from podfit.generate import workload
from podfit.generate.workload import Object
from podfit.rules.engine import Engine
from podfit.vllm.release import Release, newest_read

WAITING = "vllm:num_requests_waiting"
_USAGE, _USAGE_BEFORE, _USAGE_SINCE = "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", Release(0, 10, 2)
"""vLLM 0.10.2 v1/metrics/loggers.py has both; the old name is gone in 0.12."""

MIN_REPLICAS = 2
"""Replicas that there always are: one can be drained, or crash, and requests are answered."""
MOST_WAITING = 5
"""Requests that may wait for each replica; the alert in charts/podfit/monitoring/alerts.yaml begins at 10."""
FULLEST, EMPTIEST = 0.8, 0.5
"""The highest and the lowest share of the KV caches in use at which a replica is added. The alert in
charts/podfit/monitoring/alerts.yaml begins at 0.9."""
UP_PODS, UP_SECONDS = 2, 60
DOWN_PODS, DOWN_SECONDS, DOWN_WINDOW = 1, 300, 600


@dataclass(frozen=True)
class Targets:
    """When one more replica is wanted."""

    waiting: int
    """Requests that wait, on average over the replicas."""
    usage: float
    """Share of the KV cache in use, on average over the replicas."""
    usage_metric: str
    requests: float
    """Requests of the full length that one replica holds at once."""
    length: int
    """Tokens of such a request."""
    window: int
    """Seconds in which the load must have been low before a replica goes."""
    start: float
    """Seconds of a start, likely."""
    least: int
    most: int


def scaling_targets(engine: Engine) -> Targets:
    """The numbers of an autoscaler by the plan: a replica more at a quarter of its requests waiting, or when its KV
    cache has room for only one more. Raises ValueError if concurrency or start-up are unknown, or if not one request
    fits."""
    ledger, startup = engine.plan.gpu, engine.plan.startup
    many = ledger.max_concurrency if ledger else None
    if ledger is None or many is None or startup is None or ledger.max_model_len is None:
        raise ValueError("how many requests one replica holds is not known")
    if many < 1:
        raise ValueError("vLLM would not start: the KV cache holds less than one request; see `podfit plan` without -o")
    most = engine.args.given.get("max_num_seqs")
    requests = min(many, most) if isinstance(most, int) and most > 0 else many
    least = max(MIN_REPLICAS, engine.workload.replicas or 1)
    return Targets(
        waiting=max(1, min(MOST_WAITING, int(requests / 4))),
        usage=max(EMPTIEST, min(FULLEST, math.floor((1 - 1 / many) * 20) / 20)),
        usage_metric=usage_metric(engine.release or newest_read()),
        requests=requests,
        length=ledger.max_model_len,
        window=max(DOWN_WINDOW, math.ceil(startup.high / 60) * 60),
        start=startup.likely,
        least=least,
        most=2 * least,
    )


def usage_metric(release: Release) -> str:
    """The metric by which a release reports how full its KV cache is, 0 to 1."""
    return _USAGE if release >= _USAGE_SINCE else _USAGE_BEFORE


def behavior(targets: Targets) -> Object:
    """Up at once, down one by one: a replica that went is missed for a whole start."""
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Pods", "value": UP_PODS, "periodSeconds": UP_SECONDS}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": targets.window,
            "policies": [{"type": "Pods", "value": DOWN_PODS, "periodSeconds": DOWN_SECONDS}],
        },
    }


def write_manifests(engine: Engine, autoscaler: Object, targets: Targets, head: Iterator[str]) -> str:
    """The workload with at least two replicas, whose number the autoscaler alone sets, and the autoscaler."""
    items = list(workload.objects(scaled(engine, targets)))
    del items[-1]["spec"]["replicas"]
    text = "".join(
        f"# {line}".rstrip() + "\n" for line in (*head, *_explain_targets(targets, items[-1]["metadata"]["name"]))
    )
    return text + "---\n".join(yaml.safe_dump(item, sort_keys=False, width=120) for item in (*items, autoscaler))


def scaled(engine: Engine, targets: Targets) -> Engine:
    """The engine with the minimum number of replicas."""
    return replace(engine, workload=replace(engine.workload, replicas=targets.least))


def target(engine: Engine) -> dict[str, Any]:
    """The `scaleTargetRef` of the generated Deployment."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload.name_of(engine)}


def _explain_targets(targets: Targets, name: str) -> Iterator[str]:
    """Comment lines that explain the numbers."""
    yield (
        f"one replica holds {targets.requests:.1f} requests of {targets.length:,} tokens at once, and starts in about "
        f"{targets.start:.0f} s"
    )
    waiting = f"{targets.waiting} request{'s' * (targets.waiting > 1)} for each waiting"
    yield f"a replica more: {waiting} (a quarter of what it holds, {MOST_WAITING} at most),"
    yield f"  or {targets.usage:.0%} of the KV caches in use (room for one more request of the full length)"
    yield (
        f"a replica less: not before {targets.window} s of less load, one in {DOWN_SECONDS} s: a start is paid for it "
        "when the load is back"
    )
    yield f"at most {targets.most} replicas: what your quota of GPUs allows is yours to say"
    yield "the replicas read one claim, which needs a storage class with ReadWriteMany"
    yield f"where Deployment {name} is there already, apply the budget and the autoscaler alone"
