"""Helpers of the rules about replicas: the kinds that have them, and the objects that set them."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.companions import replicas as bounds
from podfit.kube.path import FieldPath, mapping
from podfit.kube.workload import JSON, as_list
from podfit.rules._parallel import joins_ray
from podfit.rules.engine import Engine

REPLICATED_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "Rollout", "DeploymentConfig", "LeaderWorkerSet")
"""Kinds whose `spec.replicas` are copies that serve alike."""


def leads(engine: Engine) -> bool:
    """True if the container serves, in a kind with replicas that are alike (not the nodes of one engine)."""
    if not engine.served or engine.container.init or engine.workload.kind not in REPLICATED_KINDS:
        return False
    return engine.workload.kind == "LeaderWorkerSet" or not (engine.spans_pods or joins_ray(engine))


def autoscalers(engine: Engine) -> list[JSON]:
    """The autoscalers of the workload that are known."""
    return engine.facts.companions.autoscalers(engine.workload)


def least(engine: Engine) -> int:
    """Replicas that there always are: an autoscaler's minimum, else what the object says, else one."""
    known = [bounds(autoscaler)[0] for autoscaler in autoscalers(engine)]
    if known:
        return max(1 if low is None else low for low in known)
    return 1 if engine.workload.replicas is None else engine.workload.replicas


def metrics(obj: JSON) -> Iterator[tuple[str, FieldPath]]:
    """(metric, its field) of an autoscaler: "cpu", "memory", or the name of another metric."""
    spec = mapping(obj.get("spec"))
    if "triggers" in spec:
        for index, item in enumerate(as_list(spec["triggers"])):
            yield str(mapping(item).get("type")), FieldPath(("spec", "triggers", index))
        return
    if "targetCPUUtilizationPercentage" in spec:
        yield "cpu", FieldPath(("spec", "targetCPUUtilizationPercentage"))
        return
    items = as_list(spec.get("metrics"))
    if not items:
        yield "cpu", FieldPath(("spec",))  # Kubernetes' default: 80 % of the CPU request
    for index, item in enumerate(items):
        resource = mapping(mapping(item).get("resource") or mapping(item).get("containerResource"))
        yield str(resource.get("name") or mapping(item).get("type")), FieldPath(("spec", "metrics", index))


def scale_down(obj: JSON) -> JSON:
    """`behavior.scaleDown` of a HorizontalPodAutoscaler, or of the one that KEDA makes."""
    keda = ("advanced", "horizontalPodAutoscalerConfig") if obj.get("kind") == "ScaledObject" else ()
    return mapping(FieldPath(("spec", *keda, "behavior", "scaleDown")).get(obj))
