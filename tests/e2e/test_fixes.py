"""What `podfit fix` writes, a real API server takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.docs import EXAMPLES, beside
from tests.e2e.controlplane import Cluster
from tests.e2e.process import until
from webhook.evaluation.policy import builtin
from webhook.evaluation.repair import repair
from webhook.kube import manifest
from webhook.kube.manifest.parameters import Filled
from webhook.kube.patch import apply, json_patch

ROOT = Path(__file__).parents[2]
PATHS = {
    ("v1", "Pod"): "/api/v1/namespaces/default/pods",
    ("apps/v1", "Deployment"): "/apis/apps/v1/namespaces/default/deployments",
    ("apps/v1", "StatefulSet"): "/apis/apps/v1/namespaces/default/statefulsets",
    ("apps/v1", "DaemonSet"): "/apis/apps/v1/namespaces/default/daemonsets",
    ("batch/v1", "Job"): "/apis/batch/v1/namespaces/default/jobs",
}
"""Kubernetes' own kinds, in a namespace that podfit does not judge."""


@pytest.fixture(name="server", scope="session")
def _server(cluster: Cluster) -> Cluster:
    """The API server, as soon as Pods can be made: each gets the namespace's service account."""
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    until("the default service account", lambda: cluster.call("GET", account)[0] == 200, lambda: "")
    for name in ("gvisor", "kata-qemu"):  # examples run in them
        runtime = {"metadata": {"name": name}, "handler": name}
        status, said = cluster.call("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)
        assert status == 201, said
    return cluster


def answer(server: Cluster, obj: dict[str, Any]) -> str:
    """What the API server says of an object, "" where it takes it; nothing is stored."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
    path = PATHS[obj["apiVersion"], obj["kind"]] + "?dryRun=All&fieldValidation=Strict"
    status, said = server.call("POST", path, {**obj, "metadata": metadata})
    return "" if status == 201 else str(said.get("message"))


def repaired(path: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each object of a file that has a repair, before and after it."""
    read = manifest.read(path.read_bytes(), path.name)
    for document in read.documents:
        if isinstance(document.object, Filled) and document.object.unfilled:
            continue  # a Template's object, of which the API server never gets `$(NAME)`
        edits = repair(document.object, builtin(), beside(read)).edits
        if edits and (document.object["apiVersion"], document.object["kind"]) in PATHS:
            yield document.object, apply(document.object, json_patch(document.object, edits))


def test_every_repaired_example_is_taken(server: Cluster) -> None:
    files = [
        *EXAMPLES.glob("*/bad*.yaml"),
        *(ROOT / "examples").glob("*.yaml"),
        *(ROOT / "tests").glob("never*/*.yaml"),
    ]
    objects = [(path, after) for path in sorted(files) for _, after in repaired(path)]

    refused = {path.name: said for path, after in objects if (said := answer(server, after))}

    assert len(objects) > 30
    assert not refused


def test_a_gpu_request_without_a_limit_is_refused_as_the_rule_says(server: Cluster) -> None:
    ((before, after),) = repaired(EXAMPLES / "gpu-request-without-limit" / "bad.yaml")

    assert "Limit must be set for non overcommitable resources" in answer(server, before)
    assert not answer(server, after)


def test_a_request_that_differs_from_its_limit_is_refused_as_the_rule_says(server: Cluster) -> None:
    path = EXAMPLES / "gpu-request-without-limit" / "bad-differ.yaml"
    (document,) = manifest.read(path.read_bytes(), path.name).documents

    assert "must be equal to nvidia.com/gpu limit of 1" in answer(server, document.object)
