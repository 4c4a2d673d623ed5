"""OME's serving runtimes, whose containers are runners of an engine and a decoder."""

from __future__ import annotations

from dataclasses import replace

from podfit.kube.path import FieldPath, is_object, mapping
from podfit.kube.workload.kserve import OF_SERVICE
from podfit.kube.workload.template import JSON, Container, Workload, containers_of, replica_count


def runtime(obj: JSON, workloads: list[Workload]) -> list[Workload]:
    """A runtime of OME: each of `engineConfig` and `decoderConfig` is a PodSpec with a `runner`, its first container;
    of several nodes, `leader` and `worker` are (ome.io/v1beta1 pkg/apis/ome/v1beta1/servingruntime_types.go)."""
    items = [*workloads]
    for name in ("engineConfig", "decoderConfig"):
        config = mapping(mapping(obj.get("spec")).get(name))
        worker = mapping(config.get("worker"))
        size = replica_count(worker.get("size")) if worker.get("size") is not None else 1
        pods = 1 if not worker else None if size is None else 1 + size
        for part, pod in (((), config), (("leader",), mapping(config.get("leader"))), (("worker",), worker)):
            at = FieldPath(("spec", name, *part))
            if is_object(runner := pod.get("runner")):
                first = Container(str(runner.get("name") or "ome-container"), at / "runner", runner)
                containers = (first, *containers_of(pod, at))
                items.append(Workload(obj, at, mapping(obj.get("metadata")), pod, containers, pods_per_replica=pods))
    return [replace(workload, completes=OF_SERVICE) for workload in items]
