"""`-o hpa`: the workload, and a HorizontalPodAutoscaler that follows vLLM's own metrics through prometheus-adapter."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.generate import autoscale, workload
from podfit.generate.autoscale import Targets
from podfit.generate.workload import Object
from podfit.rules.engine import Engine


def render(engine: Engine) -> str:
    """The manifests, and in their head the two rules that prometheus-adapter needs; raises ValueError as the workload
    does, and where it is not known how many requests a replica holds."""
    targets = autoscale.scaling_targets(engine)
    return autoscale.write_manifests(engine, _autoscaler(engine, targets), targets, _comment_lines(engine, targets))


def _autoscaler(engine: Engine, targets: Targets) -> Object:
    """The HorizontalPodAutoscaler of the engine's Deployment, as a Kubernetes object."""
    name = workload.name_of(engine)
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": workload.metadata(engine, name),
        "spec": {
            "scaleTargetRef": autoscale.target(engine),
            "minReplicas": targets.least,
            "maxReplicas": targets.most,
            "metrics": [
                _pods(autoscale.WAITING, str(targets.waiting)),
                _pods(targets.usage_metric, f"{targets.usage * 1000:.0f}m"),
            ],
            "behavior": autoscale.behavior(targets),
        },
    }


def _pods(series: str, average: str) -> Object:
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "Pods", "pods": {"metric": {"name": _adapted(series)}, "target": target}}


def _adapted(series: str) -> str:
    """The name that prometheus-adapter gives it: a metric's name is part of a path."""
    return series.replace(":", "_")


def _comment_lines(engine: Engine, targets: Targets) -> Iterator[str]:
    """The comment at the top, with prometheus-adapter's rules for the metrics."""
    yield f"{engine.args.model}, scaled on what waits, written by `podfit plan -o hpa`"
    yield "the metrics come from prometheus-adapter (its Helm chart's values), of series with labels namespace and pod:"
    yield "  rules:"
    yield "    custom:"
    for series, how in ((autoscale.WAITING, "sum"), (targets.usage_metric, "avg")):
        yield f'    - seriesQuery: \'{series}{{namespace!="",pod!=""}}\''
        yield "      resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}"
        yield f"      name: {{as: {_adapted(series)}}}"
        yield f"      metricsQuery: '{how}(<<.Series>>{{<<.LabelMatchers>>}}) by (<<.GroupBy>>)'"
