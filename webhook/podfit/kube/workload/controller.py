"""The controller that made an object, by its owner references.

Any user may write an owner reference. If it names a built-in kind that never makes such an object (a ConfigMap that
controls a Deployment), it does not show that the object was checked at its owner. A reference to any other API group
may be an operator's. In a review, the requester decides whether the references of a workload count at all
(`may_be_controller`). The chart's match conditions decide the same (charts/podfit/templates/_helpers.tpl,
`podfit.hasNoController`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.kube.path import mapping
from podfit.kube.workload.template import JSON, as_list

CORE = "v1"
"""The whole apiVersion of the core group, which has no name."""
BUILT_IN_GROUPS = frozenset(
    {
        CORE, "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps",
        "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io",
        "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "extensions", "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io",
        "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
    }
)  # fmt: skip
"""API groups that Kubernetes itself serves (kubernetes pkg/controlplane and pkg/apis, 1.30 to 1.36). Other groups below
k8s.io are of custom resources: `leaderworkerset.x-k8s.io`, `sparkoperator.k8s.io`."""
MAKES: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    (CORE, "Pod"): (
        *((group, kind) for group in ("apps", "extensions") for kind in ("DaemonSet", "ReplicaSet", "StatefulSet")),
        ("batch", "Job"),
        (CORE, "Node"),
        (CORE, "ReplicationController"),
    ),
    ("apps", "ReplicaSet"): (("apps", "Deployment"), ("extensions", "Deployment")),
    ("batch", "Job"): (("batch", "CronJob"),),
}
"""(API group, kind) → the built-in kinds whose controllers make it; a Node's kubelet makes mirror Pods."""
_LEADER = "leaderworkerset.sigs.k8s.io/name"
"""The label of all that LeaderWorkerSet makes. The workers' StatefulSet is controlled by the leader's Pod (lws
pkg/controllers/pod_controller.go, setControllerReferenceWithStatefulSet)."""

SYSTEM_USERS = "system:"
"""The prefix of the names of service accounts, nodes and Kubernetes' own controllers; Kubernetes reserves it
(k8s.io/apiserver pkg/authentication/user, pkg/authentication/serviceaccount)."""


def may_be_controller(username: str) -> bool:
    """True if the requester may be a controller, which alone knows who owns a workload; an unknown one may."""
    return not username or username.startswith(SYSTEM_USERS)


def controller_of(obj: JSON) -> Mapping[Any, Any] | None:
    """The owner reference of the controller that made `obj`; None if no reference is believed."""
    references = mapping(obj.get("metadata")).get("ownerReferences")
    for owner in as_list(references):
        if mapping(owner).get("controller") is True and _may_create(owner, obj):
            return mapping(owner)
    return None


def _may_create(owner: Mapping[Any, Any], obj: JSON) -> bool:
    """True if a controller of the owner's kind creates such objects; kinds outside of Kubernetes may. A Pod owns a
    StatefulSet only if it leads a LeaderWorkerSet's group, whose label that has."""
    group, kind = _group(owner), str(owner.get("kind"))
    if group not in BUILT_IN_GROUPS:
        return True
    names = (_group(obj), str(obj.get("kind")))
    if names == ("apps", "StatefulSet") and (group, kind) == (CORE, "Pod"):
        return _LEADER in mapping(mapping(obj.get("metadata")).get("labels"))
    return (group, kind) in MAKES.get(names, ())


def _group(obj: Mapping[Any, Any]) -> str:
    """The API group of an object or an owner reference; CORE for the core group."""
    return str(obj.get("apiVersion") or "").partition("/")[0]
