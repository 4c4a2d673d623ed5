"""All kinds together: one snapshot, which gets old if no watch receives anything, and the facts that are made of it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podfit.cluster import STALE, Cluster
from podfit.cluster.watch import WatchState
from podfit.kube.snapshot import (
    JSON,
    MODEL_CONFIG,
    WATCHED_BY_DEFAULT,
    WATCHED_KINDS,
    Key,
    Snapshot,
    from_objects,
    key,
)
from podfit.vllm.facts import Facts, GivenModel
from tests.cluster.script import Clock, access, node


def kept(kind: str, *objects: dict[str, Any]) -> dict[Key, JSON]:
    """Objects as a watch keeps them."""
    keep = next(one.keep for one in WATCHED_KINDS if one.name == kind)
    return {key(obj): keep(obj) for obj in objects}


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="cluster")
def _cluster(clock: Clock) -> Cluster:
    """A cluster without watches: tests say what is seen."""
    return Cluster(access(), ("nodes", "configmaps"), clock)


def see(cluster: Cluster, clock: Clock, kind: str, *objects: dict[str, Any], digest: int = 1) -> None:
    cluster._publish(WatchState(kind, kept(kind, *objects), clock(), digest=digest))


def test_before_anything_is_seen_everything_is_unknown(cluster: Cluster) -> None:
    assert cluster.snapshot().nodes is None
    assert not cluster.snapshot().complete("nodes")
    assert cluster.report() == ["nodes: not seen yet", "configmaps: not seen yet"]


def test_what_is_seen_is_in_the_next_snapshot_and_the_last_one_stays_as_it_was(cluster: Cluster, clock: Clock) -> None:
    before = cluster.snapshot()
    see(cluster, clock, "nodes", node("a"))

    assert before.nodes is None
    assert [one.name for one in cluster.snapshot().nodes or ()] == ["a"]
    assert cluster.snapshot().complete("nodes")
    assert cluster.snapshot() is cluster.snapshot()


def test_silence_makes_stale_and_a_word_makes_fresh(cluster: Cluster, clock: Clock) -> None:
    see(cluster, clock, "nodes", node("a"))
    fresh = cluster.snapshot()
    clock.now += STALE + 1
    stale = cluster.snapshot()
    cluster._publish(WatchState("nodes", fresh.objects["nodes"], clock(), digest=1))

    assert fresh.complete("nodes")
    assert stale.nodes
    assert not stale.complete("nodes")
    assert stale.version != fresh.version
    assert cluster.snapshot().version == fresh.version
    assert cluster.report()[0] == "nodes: 1, fresh"


def test_a_kind_that_is_refused_says_so_and_the_others_go_on(cluster: Cluster, clock: Clock) -> None:
    see(cluster, clock, "nodes", node("a"))
    cluster._publish(WatchState("configmaps", None, 0.0, "403: forbidden"))

    assert cluster.report() == ["nodes: 1, fresh", "configmaps: not seen (403: forbidden)"]
    assert [one.fresh for one in cluster.status()] == [True, False]


def test_two_replicas_that_see_the_same_have_one_version(cluster: Cluster, clock: Clock) -> None:
    other = Cluster(access("https://127.0.0.1:2"), ("nodes", "configmaps"), clock)
    for one in (cluster, other):
        see(one, clock, "nodes", node("a"), digest=7)

    assert cluster.snapshot().version == other.snapshot().version
    see(other, clock, "nodes", node("b"), digest=8)
    assert cluster.snapshot().version != other.snapshot().version


def test_unknown_objects_make_a_kind_incomplete_and_are_counted(cluster: Cluster, clock: Clock) -> None:
    see(cluster, clock, "nodes", node("a"))
    whole = cluster.snapshot()
    cluster._publish(WatchState("nodes", whole.objects["nodes"], clock(), digest=1, unknown={"": 2}))
    partial = cluster.snapshot()

    assert (whole.complete("nodes"), partial.complete("nodes")) == (True, False)
    assert (whole.has_unknown("nodes", None), partial.has_unknown("nodes", None)) == (False, True)
    assert partial.version != whole.version
    assert cluster.report()[0] == "nodes: 1, fresh, 2 too large or too many to be known"


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2}


def config_map(name: str, config: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "podfit-system",
        "labels": labels or {MODEL_CONFIG: "true"},
        "annotations": {"podfit.dev/model": "acme/ours"},
    }
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"config.json": config}}


def test_a_labelled_config_map_teaches_a_model_and_what_was_given_by_hand_wins(
    cluster: Cluster, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    base = Facts()
    see(cluster, clock, "configmaps", config_map("a", json.dumps(CONFIG)), config_map("b", "no JSON"))
    by_hand = Facts(models={"acme/ours": GivenModel({}, "by hand")})

    assert cluster.facts(base).models["acme/ours"].config["hidden_size"] == 64
    assert cluster.facts(base) is cluster.facts(base)
    assert cluster.facts(by_hand).models["acme/ours"].source == "by hand"
    assert cluster.facts(base).version != base.version
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_node_without_an_accelerator_is_counted_and_no_more() -> None:
    plain = {"metadata": {"name": "cpu", "labels": {"disk": "ssd"}}, "status": {"allocatable": {"cpu": "4"}}}
    (one,) = Snapshot({"nodes": kept("nodes", plain)}).nodes or ()

    assert (one.name, one.labels, one.allocatable) == ("cpu", {}, {})


def test_files_are_a_cluster_where_they_hold_its_nodes() -> None:
    written_out = {"apiVersion": "v1", **node("a")}
    by_hand = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"},
        "spec": {"spec": {}},
    }
    found = from_objects([written_out, by_hand, template, {"kind": "Pod"}])

    assert [one.name for one in found.nodes or ()] == ["a"]
    assert found.get("resourceclaimtemplates", "anywhere", "one")
    assert from_objects([by_hand, template]).nodes is None


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(["metadata", "spec", "status", "data", "labels", "taints", "allocatable", "name", "resources"])


@example({"spec": {"scopes": True, "scopeSelector": {"matchExpressions": 1}}})
@given(st.dictionaries(WORDS, st.dictionaries(WORDS, ODD, max_size=4) | ODD, max_size=5))
def test_no_odd_object_raises(obj: dict[str, Any]) -> None:
    for kind in WATCHED_KINDS:
        kind.keep(obj)
        key(obj)


def test_every_kind_has_a_path_and_most_are_watched() -> None:
    paths = {kind.name: kind.path(kind.versions[0], "ns" if kind.own_namespace else "") for kind in WATCHED_KINDS}

    assert paths["nodes"] == "/api/v1/nodes"
    assert paths["configmaps"] == "/api/v1/namespaces/ns/configmaps"
    assert paths["deviceclasses"] == "/apis/resource.k8s.io/v1/deviceclasses"
    assert set(paths) - set(WATCHED_BY_DEFAULT) == {"resourceclaims"}
