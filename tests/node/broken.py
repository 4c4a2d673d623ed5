"""Each check fails when what it checks is broken: `make node ARGS=--broken`. Not part of a run without that option."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.cluster import LOST
from tests.e2e.process import until
from tests.e2e.release import OWN, make_namespace
from tests.node import test_disruptions as disruptions
from tests.node import test_install as install
from tests.node.admin import Admin
from tests.node.stream import Stream, streaming

NAMESPACE = "broken"
RESTART = (
    f"kubectl -n {OWN} rollout restart deploy/podfit && kubectl -n {OWN} rollout status deploy/podfit --timeout 90s"
)
TRIES = 5
"""Replicas that are deleted in turn: one time in four, both connections of the stream are to the other replica."""
CONTAINER = "/spec/template/spec/containers/0"


@pytest.fixture(name="strict", autouse=True)
def _strict(podfit: Admin) -> Iterator[None]:
    """`Fail`, and the chart as it is; what a test changes is undone by the next upgrade."""
    make_namespace(podfit.cluster, NAMESPACE, "podfit")
    podfit.upgrade("webhooks.failurePolicy=Fail", "webhooks.timeoutSeconds=10")
    until("two replicas", podfit.two_ready, podfit.describe)
    yield
    podfit.types(f"helm rollback podfit --namespace {OWN}; kubectl delete namespace {NAMESPACE}", exits=None)


def _patch(podfit: Admin, kind: str, *changes: dict[str, Any]) -> None:
    """Changes podfit's own object, and replaces all Pods: connections to the earlier ones end."""
    podfit.types(f"kubectl -n {OWN} patch {kind} podfit --type json -p '{json.dumps(changes)}'")
    podfit.types(RESTART)
    until("the earlier Pods to end", podfit.two_ready, podfit.describe)


def test_one_replica(podfit: Admin) -> None:
    podfit.types(f"kubectl -n {OWN} scale deployment/podfit --replicas 1")
    until("one replica", lambda: len(podfit.pods()) == 1, podfit.describe)

    with streaming(podfit.cluster, NAMESPACE) as stream:
        with pytest.raises(AssertionError, match="no replica is ready"):
            disruptions.test_an_eviction(podfit)
        until("one replica", lambda: len(podfit.pods()) == 1, podfit.describe)
        with pytest.raises((AssertionError, TimeoutError)) as found:
            disruptions.test_a_container_out_of_memory(podfit, stream, Counter())
    print(f"\none replica: {stream.seen}\n{str(found.value)[:300]}")


def test_no_time_to_leave(podfit: Admin) -> None:
    """Neither preStop nor --drain."""
    deployment = podfit.cluster.call("GET", f"/apis/apps/v1/namespaces/{OWN}/deployments/podfit")[1]
    words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    drain = next(index for index, word in enumerate(words) if word.startswith("--drain="))
    _patch(
        podfit, "deployment",
        {"op": "remove", "path": f"{CONTAINER}/lifecycle"},
        {"op": "replace", "path": f"{CONTAINER}/args/{drain}", "value": "--drain=0"},
    )  # fmt: skip

    with streaming(podfit.cluster, NAMESPACE) as stream, pytest.raises(AssertionError, match=f"'{LOST}'"):
        _replicas_are_deleted(podfit, stream)


def _replicas_are_deleted(podfit: Admin, stream: Stream) -> None:
    for _ in range(TRIES):
        with disruptions.unharmed(podfit, stream):
            disruptions.test_a_deleted_pod_of_which_the_service_hears_late(podfit, stream)


def test_a_wrong_port_of_the_service(podfit: Admin) -> None:
    _patch(podfit, "service", {"op": "replace", "path": "/spec/ports/0/targetPort", "value": 9})

    with pytest.raises(AssertionError):
        install.test_installed_by_the_guide_it_is_ready_and_denies(podfit)
    with pytest.raises(AssertionError, match="podfit-test"):
        install.test_helm_test(podfit)


def test_a_root_that_is_not_read_only(podfit: Admin) -> None:
    path = f"{CONTAINER}/securityContext/readOnlyRootFilesystem"
    _patch(podfit, "deployment", {"op": "replace", "path": path, "value": False})

    with pytest.raises(AssertionError):
        install.test_its_pods_have_the_charts_limits_and_may_write_nothing(podfit)
