"""Pods that controllers make: no user reads a denial there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import GOOD_POD
from tests.e2e import crds
from tests.e2e.controlplane import Cluster
from tests.e2e.manifests import named, workloads
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
    """A bad Deployment that podfit has not evaluated, still without Pods."""
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
    assert not [one for one in owner["spec"]["template"]["spec"]["volumes"] if one["name"] != "models"]


@pytest.mark.parametrize("resource", ["apps/deployments", "apps/statefulsets", "batch/jobs", "apps/replicasets"])
def test_the_pods_of_good_workloads_are_made(resource: str, user: User) -> None:
    user.write("good.yaml", workloads(GOOD_POD)[resource])

    user.kubectl("apply -f good.yaml")

    (pod,) = pods(user)
    assert pod["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_workload_that_a_controller_made_is_not_judged_again(install: Install, user_of: UserOf) -> None:
    """Its owner was denied; the denial of a Deployment's ReplicaSet would show in events only."""
    user = user_of(install())
    user.write("llama-8b.yaml", deployment(GOOD_POD))

    user.kubectl("apply -f llama-8b.yaml")

    pods(user)
    assert user.listed("apps/replicasets")
    assert user.podfit.reviews(kind="ReplicaSet") == 0
    assert user.podfit.reviews(kind="Deployment", dry_run="false") == 1


OPERATORS = (*crds.KINDS, ("argoproj.io", "Workflow"), ("example.com", "Widget"))
"""The kinds of operators that podfit knows, and an unknown one."""


def owned(obj: JSONDict, name: str, api_version: str, kind: str, **metadata: Any) -> JSONDict:
    """The object under that name, made by the controller of an object of that kind."""
    owner = {"apiVersion": api_version, "kind": kind, "name": "llama", "uid": "1", "controller": True}
    made = named(obj, name)
    made["metadata"] |= {"ownerReferences": [owner], **metadata}
    return made


def test_the_children_of_operators_are_warned_of_and_not_denied(install: Install, user_of: UserOf) -> None:
    """A denial there would stop the operator; its own object was evaluated, or is of an unknown kind."""
    user = user_of(install())
    bad = doomed(GOOD_POD)
    pods = [owned(bad, f"p{n}", f"{group}/v1", kind) for n, (group, kind) in enumerate(OPERATORS)]
    children = [
        owned(obj, f"c{n}-{number}", f"{group}/v1", kind)
        for number, (group, kind) in enumerate(OPERATORS)
        for n, (resource, obj) in enumerate(workloads(bad).items())
        if resource != "pods"
    ]
    labels = {"leaderworkerset.sigs.k8s.io/name": "llama"}
    children.append(owned(workloads(bad)["apps/statefulsets"], "llama-0", "v1", "Pod", labels=labels))
    user.write("pods.yaml", *pods)
    user.write("children.yaml", *children)
    before = user.podfit.findings(rule="unknown-flag", mode="warn")

    made = user.kubectl("apply --dry-run=server -f pods.yaml")

    assert made.count(" created (server dry run)") == len(pods)
    assert "Warning: podfit unknown-flag" in made
    assert user.podfit.findings(rule="unknown-flag", mode="warn") == before + len(pods)
    operator = "--as=system:serviceaccount:operators:operator --as-group=system:masters"
    made = user.kubectl(f"apply --dry-run=server -f children.yaml {operator}")
    assert made.count(" created (server dry run)") == len(children)
    assert "Warning" not in made


def test_an_author_who_names_an_invented_owner_reads_the_denial(user: User) -> None:
    user.write("llama-8b.yaml", owned(deployment(doomed(GOOD_POD)), "llama-8b", "example.com/v1", "Anything"))

    said = user.kubectl("apply --dry-run=server -f llama-8b.yaml", exits=1)

    assert "denied the request: vLLM would not start: 1 problem (unknown-flag)" in said
    assert "of Anything" not in said


def test_a_service_account_of_the_namespace_that_names_one_is_warned(user: User) -> None:
    """It may be an operator of this namespace, which a denial would stop; or a tenant, whose bypass is now counted."""
    user.write("llama-8b.yaml", owned(deployment(doomed(GOOD_POD)), "llama-8b", "example.com/v1", "Anything"))
    account = f"--as=system:serviceaccount:{user.namespace}:default --as-group=system:masters"
    before = user.podfit.findings(rule="unknown-flag", mode="warn")

    said = user.kubectl(f"apply --dry-run=server -f llama-8b.yaml {account}")

    assert "Warning: podfit unknown-flag" in said
    assert user.podfit.findings(rule="unknown-flag", mode="warn") == before + 1


def test_pods_with_an_invented_owner_are_only_warned_about(user: User) -> None:
    """A drain must not become an outage, whichever user makes the Pod."""
    user.write("pod.yaml", owned(doomed(GOOD_POD), "llama-8b", "example.com/v1", "Anything"))

    assert "Warning: podfit unknown-flag" in user.kubectl("apply --dry-run=server -f pod.yaml")


def test_the_children_of_kinds_that_make_none_are_denied(user: User) -> None:
    bad = doomed(GOOD_POD)
    for resource in ("pods", "apps/deployments", "batch/jobs", "apps/statefulsets"):
        user.write("child.yaml", owned(workloads(bad)[resource], "llama-8b", "v1", "ConfigMap"))

        said = user.kubectl("apply --dry-run=server -f child.yaml", exits=1)

        assert "denied the request: vLLM would not start: 1 problem (unknown-flag)" in said
        assert "of ConfigMap" not in said
