"""The KServe runtimes of a cluster: one that an InferenceService names, by the caller's own rights."""

from __future__ import annotations

from typing import Any

from podfit.cluster.access import Client, StatusError
from podfit.cluster.listing import get

VERSION = "serving.kserve.io/v1alpha1"
"""The only version of ServingRuntime and ClusterServingRuntime (KServe pkg/apis/serving/v1alpha1)."""


def read(client: Client, namespace: str, name: str) -> dict[str, Any] | None:
    """The runtime that an InferenceService of the namespace gets by this name; None if the cluster has none.

    The namespace's own comes first (KServe pkg/controller/v1beta1/inferenceservice/utils: `GetServingRuntime`). Raises
    StatusError, OSError or ValueError."""
    for kind, path in (
        ("ServingRuntime", f"/apis/{VERSION}/namespaces/{namespace}/servingruntimes/{name}"),
        ("ClusterServingRuntime", f"/apis/{VERSION}/clusterservingruntimes/{name}"),
    ):
        try:
            return {**get(client, path, {}), "apiVersion": VERSION, "kind": kind}
        except StatusError as error:
            if error.code != 404:
                raise
    return None
