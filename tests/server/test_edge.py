"""The server with a cluster: what /readyz, the metrics and the findings say while the view comes and goes."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.base import data
from podfit.cluster import STALE, Cluster
from podfit.cluster.watch import WatchState
from podfit.evaluation.policy import builtin
from podfit.server.app import create_app
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts
from tests.asgi import Client
from tests.cluster.script import Clock, access, node
from tests.cluster.test_cluster import kept
from tests.reviews import admission_review


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="cluster")
def _cluster(clock: Clock) -> Cluster:
    return Cluster(access(), ("nodes", "storageclasses"), clock)


@pytest.fixture(name="client")
def _client(cluster: Cluster) -> Client:
    metrics = Metrics("0", "p", "f")
    metrics.watch_cluster(cluster.status)
    return Client(create_app(builtin(), Facts(), metrics, cluster=cluster))


def pod() -> dict[str, Any]:
    """An 8B model on a GPU that nothing names."""
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.27.1",
        "args": ["unsloth/Llama-3.1-8B-Instruct", "--max-model-len", "8192"],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "48Gi"}},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def warnings(client: Client) -> str:
    answer = client.post("/validate", json=admission_review(pod())).get_json()["response"]
    assert answer["allowed"]
    return " ".join(answer.get("warnings", []))


def test_readiness_says_how_fresh_the_view_is_and_never_depends_on_it(
    client: Client, cluster: Cluster, clock: Clock
) -> None:
    before = client.get("/readyz")
    cluster._publish(WatchState("nodes", kept("nodes", node("a")), clock()))
    seen = client.get("/readyz")
    clock.now += STALE + 60
    stale = client.get("/readyz")

    assert [one.status_code for one in (before, seen, stale)] == [200, 200, 200]
    assert before.text == f"ok\nnodes: not seen yet\nstorageclasses: not seen yet\n{data.age()}\n"
    assert "nodes: 1, fresh\n" in seen.text
    assert "nodes: 1, stale for 300 s\n" in stale.text


def test_metrics_say_it_too(client: Client, cluster: Cluster, clock: Clock) -> None:
    cluster._publish(WatchState("nodes", kept("nodes", node("a"), node("b")), clock()))
    clock.now += 7
    said = client.get("/metrics").text

    assert 'podfit_cluster_objects{kind="nodes"} 2.0' in said
    assert 'podfit_cluster_silence_seconds{kind="nodes"} 7.0' in said
    assert 'podfit_cluster_fresh{kind="nodes"} 1.0' in said
    assert 'podfit_cluster_fresh{kind="storageclasses"} 0.0' in said
    assert 'podfit_cluster_objects{kind="storageclasses"}' not in said


def test_answers_follow_what_is_seen_and_go_on_without_it(client: Client, cluster: Cluster, clock: Clock) -> None:
    blind = warnings(client)
    cluster._publish(WatchState("nodes", kept("nodes", node("a", "Tesla-T4")), clock(), digest=1))
    seeing = warnings(client)
    cluster._publish(WatchState("nodes", None, 0.0, "403: forbidden"))
    again = warnings(client)

    assert "unknown-gpu" in blind
    assert "gpu-memory-exceeded" in seeing
    assert again == blind
