"""The oldest Kubernetes that the chart allows: its API server takes the chart and its CRD, and podfit answers it.

The conditions' tests (`test_conditions.py`) run there as well.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from tests.chart.test_chart import CHART
from tests.conftest import GOOD_POD
from tests.e2e.controlplane import Cluster
from tests.e2e.process import until
from tests.e2e.release import installed, make_namespace
from tests.e2e.test_helm import check_every_variant, prepare
from tests.reviews import doomed, without_shm

JSONDict = dict[str, Any]
POLICIES = "/apis/podfit.dev/v1alpha1/policies"


@pytest.fixture(name="prepared", scope="module")
def _prepared(oldest: Cluster) -> Cluster:
    """With the kinds of others that the chart may render."""
    prepare(oldest)
    return oldest


def test_it_is_the_oldest_that_the_chart_allows(oldest: Cluster) -> None:
    version = oldest.call("GET", "/version")[1]
    allowed = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]

    assert re.match(rf">={version['major']}\.{version['minor']}\.", allowed), (version, allowed)


def test_every_variant_is_taken_there(prepared: Cluster) -> None:
    check_every_variant(prepared)


def test_policies_are_checked_by_schema_and_webhook_and_pods_are_judged_there(oldest: Cluster) -> None:
    def policy(**spec: Any) -> JSONDict:
        return {
            "apiVersion": "podfit.dev/v1alpha1",
            "kind": "Policy",
            "metadata": {"name": "chat"},
            "spec": {"rules": {"unpinned-image": {"mode": "deny"}}, **spec},
        }

    with installed(
        oldest, "podfit", {"policy": {"spec": {"enforce": {"mode": "deny"}, "trustMutation": True}}}, reads=True
    ):
        make_namespace(oldest, "chat", "podfit")
        pods = "/api/v1/namespaces/chat/pods?dryRun=All"

        status, answer = oldest.call("POST", pods, doomed(GOOD_POD))
        assert (status, "unknown-flag" in answer["message"]) == (403, True)
        status, answer = oldest.call("POST", pods, without_shm(GOOD_POD))
        assert status == 201
        assert "/dev/shm" in json.dumps(answer["spec"]["containers"][0]["volumeMounts"])

        by_schema = oldest.call("POST", POLICIES, policy(rules={"unpinned-image": {"mode": "refuse"}}))
        by_webhook = oldest.call("POST", POLICIES, policy(rules={"no-such-rule": {"mode": "deny"}}))
        assert (by_schema[0], by_webhook[0]) == (422, 403)
        assert 'Unsupported value: "refuse"' in by_schema[1]["message"]
        assert "no-such-rule" in by_webhook[1]["message"]
        assert oldest.call("POST", POLICIES, policy())[0] == 201

        def accepted() -> bool:
            status = oldest.call("GET", f"{POLICIES}/chat")[1].get("status", {})
            return {one["type"]: one["status"] for one in status.get("conditions", [])} == {
                "Accepted": "True",
                "Ready": "True",
            }

        until("podfit to accept the policy", accepted)
