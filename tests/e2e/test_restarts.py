"""Replicas come and go, certificates, CAs and policies change, and with failurePolicy Fail no request fails."""

from __future__ import annotations

from contextlib import closing

from benchmarks.cluster import BAD, GOOD, LOST, WRONG, Creator, churn
from tests.e2e.controlplane import Cluster


def test_a_pod_without_an_answer_counts_and_its_caller_goes_on(cluster: Cluster) -> None:
    with closing(Creator(cluster, "default")) as creator:
        port, creator.connection.port = creator.connection.port, 1  # no process listens there
        what, why = creator.create(1)
        creator.connection.port = port
        again, _ = creator.create(1)

    assert (what, again) == (LOST, GOOD)
    assert "ConnectionRefusedError" in why


def test_nothing_fails_while_replicas_certificates_and_policies_change(cluster: Cluster) -> None:
    found = churn(cluster, 600, 5, killing=False)

    assert found.told == []
    assert found.failed == 0
    assert found.changes >= 5
    assert found.seen[GOOD] + found.seen[BAD] >= 600
    assert found.acts["restart"] >= 2
    assert found.acts["certificate"] >= 1


def test_a_killed_worker_costs_no_more_than_was_in_flight(cluster: Cluster) -> None:
    found = churn(cluster, 600, 5, killing=True)

    assert found.seen[WRONG] == found.failed == 0
    assert found.acts["kill"] >= 1
    assert found.seen[LOST] <= found.excused, found.told
