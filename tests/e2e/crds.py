"""Custom resources that serve vLLM: definitions without a schema, and an object of each around one PodSpec.

Both are made from the table that podfit reads them by, so that a kind which joins the table is tested, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.workload.table import TABLE

JSONDict = dict[str, Any]
CLUSTER_WIDE = frozenset({"ClusterServingRuntime"})
MAPPINGS = frozenset({"services"})
"""Fields in which a `*` of the table stands for a word, not for a number (Dynamo's services)."""
KINDS = [(group, kind) for group, kind in TABLE if "." in group and group != "extensions"]
REFINED = {"DynamoGraphDeployment": "spec.services.*.extraPodSpec"}
"""Where a PodSpec stands in kinds that the table does not describe by a path."""
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
    pods = TABLE[group, kind].pods
    parts = (pods[0].path if pods else REFINED[kind]).split(".")
    for index in range(len(parts) - 1, -1, -1):
        named = index > 0 and parts[index - 1] in MAPPINGS
        value = ({"worker": value} if named else [value]) if parts[index] == "*" else {parts[index]: value}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": kind.lower()}, **value}
