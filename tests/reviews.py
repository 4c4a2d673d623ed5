"""AdmissionReviews as an API server sends them."""

from __future__ import annotations

import copy
from typing import Any

RESOURCES = {
    "Pod": "pods",
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "Job": "jobs",
    "Scale": "deployments",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "Eviction": "pods",
}
UID = "5b2d8a3e-7f7f-4d0c-9f3e-0d4c3a2b1f00"


def admission_review(
    obj: dict[str, Any] | None,
    operation: str = "CREATE",
    *,
    old: dict[str, Any] | None = None,
    subresource: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The review of an operation on `obj`; `more` overrides fields of the request."""
    named = obj or old or {}
    metadata = named["metadata"]
    group, _, version = named["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": named["kind"]}
    resource = {"group": group, "version": version, "resource": RESOURCES[named["kind"]]}
    request = {
        "uid": UID,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": metadata.get("name"),
        "namespace": metadata.get("namespace"),
        "operation": operation,
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.title()}Options"},
    }
    if subresource is not None:
        request |= {"subResource": subresource, "requestSubResource": subresource}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**request, **more}}


def deployment(pod: dict[str, Any]) -> dict[str, Any]:
    """A Deployment of the Pod."""
    metadata = {"labels": {"app": "llama"}, **copy.deepcopy(pod["metadata"])}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": copy.deepcopy(pod["metadata"]),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "llama"}},
            "template": {"metadata": {"labels": metadata["labels"]}, "spec": copy.deepcopy(pod["spec"])},
        },
    }


def doomed(pod: dict[str, Any]) -> dict[str, Any]:
    """The Pod, with a flag that no vLLM release knows: certainly denied."""
    bad = copy.deepcopy(pod)
    bad["spec"]["containers"][0]["args"].append("--no-such-flag")
    return bad


def without_shm(pod: dict[str, Any]) -> dict[str, Any]:
    """The Pod with two GPUs and nothing at /dev/shm, which this release rejects: certainly repaired."""
    bare = copy.deepcopy(pod)
    container = bare["spec"]["containers"][0]
    container["args"] += ["--tensor-parallel-size", "2"]
    container["resources"]["limits"]["nvidia.com/gpu"] = "2"
    return bare
