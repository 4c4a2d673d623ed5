"""Replicas come and go, certificates, CAs and policies change, and with failurePolicy Fail nobody notices."""

from __future__ import annotations

from benchmarks.cluster import BAD, GOOD, LOST, WRONG, churn
from tests.e2e.controlplane import Cluster


def test_nothing_fails_while_replicas_certificates_and_policies_change(cluster: Cluster) -> None:
    found = churn(cluster, 600, killing=False)

    assert found.told == []
    assert found.seen[GOOD] + found.seen[BAD] >= 600
    assert found.acts["restart"] >= 2
    assert found.acts["exit not 0"] == 0
    assert found.acts["certificate"] >= 1


def test_a_killed_worker_costs_no_more_than_was_in_flight(cluster: Cluster) -> None:
    found = churn(cluster, 600, killing=True)

    assert found.seen[WRONG] == 0
    assert found.seen[LOST] <= found.excused, found.told
