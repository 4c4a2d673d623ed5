from __future__ import annotations

import math
from collections.abc import Iterator

from podfit.kube.path import FieldPath, mapping
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule


class RollingUpdateNeedsSpareGpus(Rule):
    """A rolling update starts a new Pod before it stops an old one, which needs spare GPUs.

    Kubernetes' defaults are maxSurge 25 %, rounded up, and maxUnavailable 25 %, rounded down. With them a Deployment of
    up to three replicas must not lose one during an update, so a new Pod needs as many free GPUs as an old one holds.
    On a cluster without spare GPUs the new Pod waits forever, since the old Pods keep their GPUs:

        0/4 nodes are available: 4 Insufficient nvidia.com/gpu.
        deployment "llama-70b" exceeded its progress deadline

    `maxSurge: 0` with `maxUnavailable: 1` updates in place, one replica at a time; `Recreate` stops all first.
    """

    plane = "cluster"
    event = "an update waits until the cluster has a free GPU"
    of_vllm = False
    threatens = "practice"
    mode = "audit"
    never_denies = "the manifest does not show whether the cluster has spare GPUs"
    where = frozenset({"check", "scan"})

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Possible: the manifest does not show whether the cluster has spare GPUs. None if the update may stop a
        replica before it starts a new one."""
        if engine.workload.kind != "Deployment" or engine.container.init or engine.requested is None:
            return
        strategy = mapping(mapping(engine.workload.object.get("spec")).get("strategy"))
        if strategy.get("type") not in (None, "RollingUpdate"):
            return
        replicas = 1 if engine.workload.replicas is None else engine.workload.replicas
        max_unavailable = mapping(strategy.get("rollingUpdate")).get("maxUnavailable", DEFAULT_MAX_UNAVAILABLE)
        if replicas == 0 or _pod_count(max_unavailable, replicas) > 0:
            return
        resource, count = engine.requested
        yield Finding(
            path=FieldPath(("spec", "strategy")),
            message=f"an update needs {count or 'as many'} × {resource} in addition to those of the {replicas} replica"
            f"{'' if replicas == 1 else 's'}",
            certainty="possible",
            suggestions=("rollingUpdate: {maxSurge: 0, maxUnavailable: 1}", "strategy type: Recreate"),
        )


DEFAULT_MAX_UNAVAILABLE = "25%"
"""Kubernetes' default of a Deployment's maxUnavailable (API reference, RollingUpdateDeployment)."""


def _pod_count(value: object, replicas: int) -> int:
    """maxUnavailable in Pods: a number, or a percentage of the replicas, rounded down (kubernetes
    pkg/controller/deployment/util, ResolveFenceposts). 1, which reports nothing, for a value of another type."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        return math.floor(int(value[:-1]) * replicas / 100)
    return value if isinstance(value, int) else 1
