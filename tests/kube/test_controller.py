"""Which owner references are believed to say who made an object."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.kube.workload import controller_of
from podfit.kube.workload.controller import BUILT_IN_GROUPS, MAKES
from podfit.kube.workload.table import WORKLOAD_KINDS

JSONDict = dict[str, Any]
LEADER = {"leaderworkerset.sigs.k8s.io/name": "llama"}
"""The label of what LeaderWorkerSet makes."""


def owned(child: str, owner: str, **metadata: Any) -> JSONDict:
    """An object, and the reference to its controller; each as `apiVersion Kind`."""
    reference = {**_named(owner), "name": "a", "uid": "1", "controller": True}
    return {**_named(child), "metadata": {"ownerReferences": [reference], **metadata}}


def _named(words: str) -> dict[str, str]:
    api_version, kind = words.split()
    return {"apiVersion": api_version, "kind": kind}


BELIEVED = [
    ("v1 Pod", "apps/v1 ReplicaSet"),
    ("v1 Pod", "apps/v1 StatefulSet"),
    ("v1 Pod", "apps/v1 DaemonSet"),
    ("v1 Pod", "extensions/v1beta1 ReplicaSet"),
    ("v1 Pod", "batch/v1 Job"),
    ("v1 Pod", "v1 ReplicationController"),
    ("v1 Pod", "v1 Node"),
    ("apps/v1 ReplicaSet", "apps/v1 Deployment"),
    ("batch/v1 Job", "batch/v1 CronJob"),
    # Operators' kinds, also in groups below k8s.io that Kubernetes itself does not serve.
    ("apps/v1 ReplicaSet", "argoproj.io/v1alpha1 Rollout"),
    ("apps/v1 Deployment", "serving.knative.dev/v1 Revision"),
    ("v1 ReplicationController", "apps.openshift.io/v1 DeploymentConfig"),
    ("batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet"),
    ("apps/v1 StatefulSet", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet"),
    ("v1 Pod", "sparkoperator.k8s.io/v1beta2 SparkApplication"),
    ("v1 PodTemplate", "autoscaling.x-k8s.io/v1 ProvisioningRequest"),
    ("leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", "inference.llmaz.io/v1alpha1 Service"),
    ("v1 Pod", "example.com/v1 Pod"),
]
NOT_BELIEVED = [
    *((child, f"v1 {kind}") for child in ("v1 Pod", "apps/v1 Deployment", "batch/v1 Job", "ray.io/v1 RayCluster")
      for kind in ("ConfigMap", "Secret", "Service", "Namespace", "Pod", "ServiceAccount", "PersistentVolumeClaim")),
    ("apps/v1 Deployment", "apps/v1 Deployment"),
    ("apps/v1 ReplicaSet", "apps/v1 ReplicaSet"),
    ("apps/v1 ReplicaSet", "v1 Deployment"),
    ("v1 Pod", "apps/v1 Deployment"),
    ("v1 Pod", "batch/v1 CronJob"),
    ("v1 Pod", "apps/v1 ControllerRevision"),
    ("apps/v1 StatefulSet", "v1 Pod"),
    ("batch/v1 CronJob", "batch/v1 CronJob"),
    ("batch.volcano.sh/v1alpha1 Job", "batch/v1 CronJob"),
    ("apps/v1 Deployment", "autoscaling/v2 HorizontalPodAutoscaler"),
    ("apps/v1 Deployment", "rbac.authorization.k8s.io/v1 ClusterRole"),
    ("apps/v1 Deployment", "apiextensions.k8s.io/v1 CustomResourceDefinition"),
]  # fmt: skip


@pytest.mark.parametrize(("child", "owner"), BELIEVED)
def test_a_controller_that_makes_such_objects_is_believed(child: str, owner: str) -> None:
    obj = owned(child, owner)

    assert controller_of(obj) == obj["metadata"]["ownerReferences"][0]


@pytest.mark.parametrize(("child", "owner"), NOT_BELIEVED)
def test_a_built_in_kind_that_never_makes_such_objects_is_not_believed(child: str, owner: str) -> None:
    assert controller_of(owned(child, owner)) is None


def test_the_workers_of_a_leader_worker_set_are_controlled_by_their_leaders_pod() -> None:
    assert controller_of(owned("apps/v1 StatefulSet", "v1 Pod", labels=LEADER))
    assert not controller_of(owned("apps/v1 Deployment", "v1 Pod", labels=LEADER))


def test_an_owner_that_is_no_controller_does_not_count() -> None:
    obj = owned("v1 Pod", "apps/v1 ReplicaSet")
    reference = obj["metadata"]["ownerReferences"].pop()
    obj["metadata"]["ownerReferences"] = [{**reference, "controller": value} for value in (False, None, "true", 1)]

    assert controller_of(obj) is None
    obj["metadata"]["ownerReferences"].append(reference)
    assert controller_of(obj) == reference


@pytest.mark.parametrize("references", [None, "a", {}, [None, 1, "a", []], [{"controller": True, "apiVersion": None}]])
def test_odd_references_are_no_error(references: object) -> None:
    controller_of({"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": references}})


def test_every_group_of_the_table_is_built_in_or_an_operators() -> None:
    """A new operator's kind must never be mistaken for one of Kubernetes."""
    operators = {group for group, _ in WORKLOAD_KINDS if "." in group}

    assert not operators & BUILT_IN_GROUPS
    assert {group for group, _ in MAKES} | {one for owners in MAKES.values() for one, _ in owners} <= BUILT_IN_GROUPS
