"""Helpers of the rules about replicas: the kinds that have them, and the objects that set them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from podfit.kube.companions import replicas as bounds
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload import JSON, as_list
from podfit.rules._parallel import joins_ray
from podfit.rules.engine import Engine

REPLICATED_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "Rollout", "DeploymentConfig", "LeaderWorkerSet")
"""Kinds whose `spec.replicas` are copies that serve alike."""


class Metric(NamedTuple):
    """A metric that an autoscaler scales on."""

    name: str
    """ "cpu", "memory", or the name or type of another metric."""
    path: FieldPath
    """The field that names it; of an autoscaler that names none, `spec`."""


def leads(engine: Engine) -> bool:
    """True if the container serves HTTP and each replica is a whole server. False for other kinds than
    `REPLICATED_KINDS`, and if the replicas may be the nodes of one engine."""
    if not engine.served or engine.container.init or engine.workload.kind not in REPLICATED_KINDS:
        return False
    if engine.workload.kind == "LeaderWorkerSet":
        return True  # a replica is a group: a leader and its workers
    return not engine.spans_pods and not joins_ray(engine)


def autoscalers(engine: Engine) -> list[JSON]:
    """The autoscalers of the workload that are known."""
    return engine.facts.companions.autoscalers(engine.workload)


def least(engine: Engine) -> int:
    """The number of replicas below which the workload is not scaled: the highest minimum of its autoscalers. Without
    an autoscaler `spec.replicas`. 1, Kubernetes' default, if the object does not set the number."""
    minimums = [bounds(autoscaler)[0] for autoscaler in autoscalers(engine)]
    if minimums:
        return max(1 if minimum is None else minimum for minimum in minimums)
    return 1 if engine.workload.replicas is None else engine.workload.replicas


def metrics(obj: JSON) -> Iterator[Metric]:
    """The metrics of an autoscaler: of a HorizontalPodAutoscaler in `autoscaling/v1` or `v2`, or KEDA's triggers."""
    spec = mapping(obj.get("spec"))
    if "triggers" in spec:
        for index, item in enumerate(as_list(spec["triggers"])):
            yield Metric(name=str(mapping(item).get("type")), path=FieldPath(("spec", "triggers", index)))
        return
    if "targetCPUUtilizationPercentage" in spec:
        yield Metric(name="cpu", path=FieldPath(("spec", "targetCPUUtilizationPercentage")))
        return
    items = as_list(spec.get("metrics"))
    if not items:
        yield Metric(name="cpu", path=FieldPath(("spec",)))  # Kubernetes' default: 80 % of the CPU request
    for index, item in enumerate(items):
        metric = mapping(item)
        resource = mapping(metric.get("resource") or metric.get("containerResource"))
        yield Metric(name=str(resource.get("name") or metric.get("type")), path=FieldPath(("spec", "metrics", index)))


def scale_down(obj: JSON) -> JSON:
    """`behavior.scaleDown` of a HorizontalPodAutoscaler, or of the one that KEDA makes; empty if it is not set."""
    keda = ("advanced", "horizontalPodAutoscalerConfig") if obj.get("kind") == "ScaledObject" else ()
    return mapping(FieldPath(("spec", *keda, "behavior", "scaleDown")).get(obj))
