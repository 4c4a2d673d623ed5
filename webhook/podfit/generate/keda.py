"""`-o keda`: the workload, and a ScaledObject that asks Prometheus for vLLM's own metrics."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.generate import autoscale, workload
from podfit.generate.autoscale import Targets
from podfit.generate.workload import Object
from podfit.rules.engine import Engine

PROMETHEUS = "http://prometheus-operated.monitoring.svc:9090"
"""The Service that the Prometheus operator makes; kube-prometheus-stack is mostly installed in `monitoring`."""
_POLL = 15


def render(engine: Engine) -> str:
    """The manifests; raises ValueError as the workload does, and where it is not known how many requests a replica
    holds."""
    targets = autoscale.scaling_targets(engine)
    return autoscale.write_manifests(engine, _scaled_object(engine, targets), targets, _comment_lines(engine))


def _scaled_object(engine: Engine, targets: Targets) -> Object:
    """The KEDA ScaledObject of the engine's Deployment, as a Kubernetes object."""
    name = workload.name_of(engine)
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": workload.metadata(engine, name),
        "spec": {
            "scaleTargetRef": autoscale.target(engine),
            "minReplicaCount": targets.least,
            "maxReplicaCount": targets.most,
            "pollingInterval": _POLL,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": autoscale.behavior(targets)}},
            "triggers": [
                _trigger(engine, f"sum({autoscale.WAITING}{{0}})", str(targets.waiting)),
                _trigger(engine, f"sum(avg by (pod) ({targets.usage_metric}{{0}}))", f"{targets.usage:g}"),
            ],
        },
    }


def _trigger(engine: Engine, query: str, threshold: str) -> Object:
    """AverageValue: the sum over the Pods, divided by their number."""
    metadata = {"serverAddress": PROMETHEUS, "query": query.replace("{0}", _labels(engine)), "threshold": threshold}
    return {"type": "prometheus", "metricType": "AverageValue", "metadata": metadata}


def _labels(engine: Engine) -> str:
    """A pattern for the names of the Deployment's Pods: name, the ReplicaSet's hash, five letters."""
    pods = f'pod=~"{workload.name_of(engine)}-[a-z0-9]+-[a-z0-9]{{5}}"'
    namespace = engine.workload.namespace
    return "{" + (f'namespace="{namespace}",' if namespace else "") + pods + "}"


def _comment_lines(engine: Engine) -> Iterator[str]:
    """The comment at the top."""
    yield f"{engine.args.model}, scaled on what waits, written by `podfit plan -o keda`"
    yield f"serverAddress: {PROMETHEUS} is the Prometheus operator's; say yours"
    if not engine.workload.namespace:
        yield "the queries take all namespaces: -n NAME writes one into them"
