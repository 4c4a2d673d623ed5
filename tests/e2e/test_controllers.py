"""Pods that controllers make: a denial there reaches nobody who could read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import GOOD_POD
from tests.e2e.controlplane import Cluster
from tests.e2e.manifests import workloads
from tests.e2e.process import until
from tests.e2e.release import Podfit
from tests.e2e.user import User
from tests.reviews import deployment, doomed, without_shm

JSONDict = dict[str, Any]
Golden = Callable[[str], None]
UserOf = Callable[[Podfit], User]
Install = Callable[..., Podfit]


@pytest.fixture(autouse=True)
def _controllers(cluster: Cluster) -> None:
    if not cluster.controllers:
        pytest.skip("there is no kube-controller-manager in $KUBEBUILDER_ASSETS")


def pods(user: User) -> list[JSONDict]:
    """The namespace's Pods, once a controller has made one."""
    return until("a controller to make a Pod", lambda: user.listed("pods"), lambda: user.kubectl("get events"))


def bad_deployment_from_before(user: User) -> None:
    """A bad Deployment that nobody has judged, still without Pods."""
    bad = deployment(doomed(GOOD_POD))
    bad["spec"]["replicas"] = 0
    user.write("llama-8b.yaml", bad)
    with user.before_podfit():
        user.kubectl("apply -f llama-8b.yaml")
        until("the ReplicaSet", lambda: user.listed("apps/replicasets"))


def test_the_pod_of_a_bad_replica_set_is_admitted_with_a_warning_that_is_counted(
    install: Install, user_of: UserOf
) -> None:
    user = user_of(install())
    bad_deployment_from_before(user)
    before = user.podfit.findings(rule="unknown-flag", mode="warn")

    user.kubectl("scale deployment llama-8b --replicas=1")

    (pod,) = pods(user)
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    assert user.podfit.findings(rule="unknown-flag", mode="warn") == before + 1
    assert user.podfit.reviews(webhook="validate", kind="Pod", decision="allowed", dry_run="false") == 1


def test_a_policy_may_deny_the_pods_of_controllers_and_the_event_says_why(install: Install, user_of: UserOf) -> None:
    user = user_of(install({"policy": {"spec": {"enforce": {"ownedPods": "deny"}}}}))
    bad_deployment_from_before(user)

    user.kubectl("scale deployment llama-8b --replicas=1")

    def refused() -> list[str]:
        return [event["message"] for event in user.listed("events") if event["reason"] == "FailedCreate"]

    message = until("the ReplicaSet's event", refused)[0]
    first = message.splitlines()[0]
    assert 'admission webhook "pods.podfit.dev" denied the request: vLLM would not start: 1 problem' in first
    assert user.listed("pods") == []


def test_the_pods_of_a_deployment_are_patched_though_the_deployment_is_not(install: Install, user_of: UserOf) -> None:
    user = user_of(install({"policy": {"spec": {"trustMutation": True}}}))
    user.write("llama-8b.yaml", deployment(without_shm(GOOD_POD)))

    user.kubectl("apply -f llama-8b.yaml")

    (pod,) = pods(user)
    (owner,) = user.listed("apps/deployments")
    assert "/dev/shm" in [mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]]
    assert "volumes" not in owner["spec"]["template"]["spec"]


@pytest.mark.parametrize("resource", ["apps/deployments", "apps/statefulsets", "batch/jobs", "apps/replicasets"])
def test_the_pods_of_good_workloads_are_made(resource: str, user: User) -> None:
    user.write("good.yaml", workloads(GOOD_POD)[resource])

    user.kubectl("apply -f good.yaml")

    (pod,) = pods(user)
    assert pod["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_workload_that_a_controller_made_is_not_judged_again(install: Install, user_of: UserOf) -> None:
    """Its owner was; a Deployment's ReplicaSet that was refused would show in events only."""
    user = user_of(install())
    user.write("llama-8b.yaml", deployment(GOOD_POD))

    user.kubectl("apply -f llama-8b.yaml")

    pods(user)
    assert user.listed("apps/replicasets")
    assert user.podfit.reviews(kind="ReplicaSet") == 0
    assert user.podfit.reviews(kind="Deployment", dry_run="false") == 1
