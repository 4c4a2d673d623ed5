"""Objects of a cluster by the names that people type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from podfit.cluster import listing, objects
from podfit.cluster.access import Client, StatusError, from_kubeconfig
from tests.cluster.server import DISCOVERY, Server, serving


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, tls=False) as server:
        server.answers |= DISCOVERY
        yield server


@pytest.fixture(name="client")
def _client(server: Server) -> Iterator[Client]:
    with closing(Client(from_kubeconfig(server.kubeconfig()))) as client:
        yield client


@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("po", "pods"),
        ("Pod", "pods"),
        ("deploy", "deployments.apps"),
        ("deployments", "deployments.apps"),
        ("Deployment.apps", "deployments.apps"),
        ("deployments.v1.apps", "deployments.apps"),
        ("isvc", "inferenceservices.serving.kserve.io"),
        ("inferenceservice", "inferenceservices.serving.kserve.io"),
        ("inferenceservices.serving.kserve.io", "inferenceservices.serving.kserve.io"),
        ("no", "nodes"),
    ],
)
def test_a_kind_is_found_by_every_name_that_kubectl_knows(client: Client, word: str, title: str) -> None:
    assert listing.group_resource(objects.resource(client, word)) == title


@pytest.mark.parametrize("word", ["bindings", "log", "deployments.v2.apps", "pods.apps", "llama"])
def test_what_is_no_kind_is_told(client: Client, word: str) -> None:
    with pytest.raises(ValueError, match=f"this cluster has no kind '{word}'"):
        objects.resource(client, word)


def test_an_object_is_read_of_the_contexts_namespace_or_another_one(server: Server, client: Client) -> None:
    server.answers["/apis/apps/v1/namespaces/chat/deployments/a"] = {"metadata": {"managedFields": [], "name": "a"}}
    server.answers["/apis/apps/v1/namespaces/prod/deployments/a"] = {"status": {"conditions": [1]}}
    server.answers["/api/v1/nodes/n"] = {"kind": "Node"}

    assert objects.get(client, "deploy", "a") == {"metadata": {"name": "a"}}
    assert objects.get(client, "deploy", "a", "prod") == {"status": {"conditions": [1]}}
    assert objects.get(client, "node", "n", "prod") == {"kind": "Node"}
    with pytest.raises(StatusError, match="404: not found"):
        objects.get(client, "deploy", "b")


def test_a_workloads_pods_are_those_that_it_selects(server: Server, client: Client) -> None:
    server.answers["/api/v1/namespaces/chat/pods"] = [{"items": [{"metadata": {"name": "p"}}]}, {"items": None}]
    workload = {
        "kind": "Deployment",
        "metadata": {"namespace": "chat"},
        "spec": {"selector": {"matchLabels": {"a": "b", "c": "d"}}},
    }

    assert objects.pods(client, workload) == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}]
    assert server.asked[-1].query == {"labelSelector": "a=b,c=d"}
    with pytest.raises(ValueError, match="no Pod has the labels a=b,c=d"):
        objects.pods(client, workload)
    with pytest.raises(ValueError, match="Job has no selector by labels"):
        objects.pods(client, {"kind": "Job", "spec": {}})
