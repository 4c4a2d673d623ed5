"""Custom resources that serve vLLM: definitions without a schema, and an object of each around one PodSpec.

Both are made from the table that podfit reads them by, so that a kind which joins the table is tested, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podfit.kube.workload.table import WORKLOAD_KINDS

JSONDict = dict[str, Any]
CLUSTER_WIDE = frozenset({"ClusterServingRuntime"})
KINDS = [
    (group, kind)
    for (group, kind), row in WORKLOAD_KINDS.items()
    if "." in group and group != "extensions" and row.pods
]
"""Argo's Workflows hold no PodSpec; what they are read as, `tests/kube/test_workload.py` has."""
NOT_OURS = [("keda.sh", "ScaledObject")]
"""What belongs to serving and makes no Pods."""


def definitions() -> Iterator[JSONDict]:
    """A CustomResourceDefinition for each kind, which takes every object."""
    for group, kind in (*KINDS, *NOT_OURS):
        plural, version = f"{kind.lower()}s", "v1" if (group, kind) in KINDS else "v1alpha1"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{plural}.{group}",
                "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
            },
            "spec": {
                "group": group,
                "scope": "Cluster" if kind in CLUSTER_WIDE else "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
            },
        }


def around(group: str, kind: str, pod: JSONDict) -> JSONDict:
    """An object of the kind whose first Pod template is the Pod's."""
    value: Any = pod["spec"]
    for part in reversed(WORKLOAD_KINDS[group, kind].pods[0].path.split(".")):
        value = [value] if part == "*" else {part: value}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": kind.lower()}, **value}
