"""An update that returns to what ran before is distinguished from one that brings something new."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from podfit.evaluation.lint import Report
from podfit.kube import snapshot
from podfit.vllm.facts import Facts
from tests.reviews import deployment, doomed

JSONDict = dict[str, Any]
Judge = Callable[..., Report]


def made_by(workload: JSONDict, **spec: Any) -> JSONDict:
    """Metadata of what a workload's controller made."""
    owner = {"kind": workload["kind"], "name": workload["metadata"]["name"], "controller": True, "uid": "1"}
    return {"name": "llama-8b-7f", "namespace": "chat", "ownerReferences": [owner], **spec}


def replica_set(workload: JSONDict) -> JSONDict:
    """The ReplicaSet that a Deployment's controller makes of it."""
    template = copy.deepcopy(workload["spec"]["template"])
    template["metadata"] |= {"creationTimestamp": None}
    template["metadata"]["labels"]["pod-template-hash"] = "7f"
    spec = {"replicas": 0, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": made_by(workload), "spec": spec}


def controller_revision(workload: JSONDict) -> JSONDict:
    """What a StatefulSet's controller keeps of it."""
    data = {"spec": {"template": {**copy.deepcopy(workload["spec"]["template"]), "$patch": "replace"}}}
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": made_by(workload), "data": data}


@pytest.mark.parametrize(
    ("kind", "kept"),
    [("Deployment", replica_set), ("StatefulSet", controller_revision), ("DaemonSet", controller_revision)],
)
def test_a_roll_back_is_warned_of_and_an_update_to_the_same_by_somebody_else_refused(
    kind: str, kept: Callable[[JSONDict], JSONDict], pod: JSONDict, judge: Judge
) -> None:
    old, new = deployment(pod) | {"kind": kind}, deployment(doomed(pod)) | {"kind": kind}
    other = {**new, "metadata": {**new["metadata"], "name": "other"}}
    seen = Facts(cluster=snapshot.from_objects([kept(new)]))

    assert judge(new, old=old).denied
    assert judge(new, old=old, facts=Facts(cluster=snapshot.from_objects([kept(other)]))).denied
    report = judge(new, old=old, facts=seen)
    assert not report.denied
    (finding,) = report.findings
    assert finding.mode == "warn"
    name = "ReplicaSet" if kind == "Deployment" else "ControllerRevision"
    assert finding.why_softened == f"the update returns to {name} llama-8b-7f, which ran before"


def test_what_a_roll_back_does_not_bring_is_refused_beside_it(pod: JSONDict, judge: Judge) -> None:
    old, new = deployment(pod), deployment(doomed(pod))
    seen = Facts(cluster=snapshot.from_objects([replica_set(new)]))
    new["spec"]["template"]["spec"]["containers"][0]["args"].append("--another-such-flag")

    assert judge(new, old=old, facts=seen).denied
    assert judge(deployment(doomed(pod)), facts=seen).denied, "at its creation nothing ran before"


def test_of_a_template_that_stays_nothing_is_returned_to(pod: JSONDict, judge: Judge) -> None:
    """Its own ReplicaSet always has it."""
    old = deployment(pod)
    old["spec"]["replicas"] = 0
    new = copy.deepcopy(old)
    new["spec"] |= {"replicas": 1, "progressDeadlineSeconds": 1}
    seen = Facts(cluster=snapshot.from_objects([replica_set(new)]))

    assert [one.why_softened for one in judge(new, old=old, facts=seen).findings] == [
        one.why_softened for one in judge(new, old=old).findings
    ]


def test_odd_shapes_are_kept_as_nothing() -> None:
    for obj in ({}, {"metadata": {"ownerReferences": [None, 1]}}, {"metadata": {"ownerReferences": "a"}, "spec": []}):
        seen = snapshot.from_objects([{"apiVersion": "apps/v1", "kind": "ReplicaSet", **obj}])
        assert list(seen.objects["replicasets"].values()) == [{}]


def test_a_template_nested_too_deep_is_no_revision(pod: JSONDict, judge: Judge) -> None:
    old, new = deployment(pod), deployment(doomed(pod))
    deep: JSONDict = {}
    for _ in range(900):
        deep = {"a": deep}
    new["spec"]["template"]["spec"]["deep"] = deep
    kept = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": made_by(new)}
    seen = Facts(cluster=snapshot.from_objects([{**kept, "spec": {"template": {"spec": {"deep": deep}}}}]))

    assert judge(new, old=old, facts=seen).denied


@pytest.mark.parametrize(
    ("kind", "keeper", "namespace", "is_denied"),
    [
        ("Deployment", "replicasets", "chat", False),
        ("StatefulSet", "controllerrevisions", "chat", False),
        ("Deployment", "controllerrevisions", "chat", True),
        ("Deployment", "replicasets", "another", True),
    ],
)
def test_a_revision_that_cannot_be_known_may_be_the_one(
    kind: str, keeper: str, namespace: str, is_denied: bool, pod: JSONDict, judge: Judge
) -> None:
    old, new = deployment(pod) | {"kind": kind}, deployment(doomed(pod)) | {"kind": kind}
    seen = Facts(cluster=snapshot.Snapshot({keeper: {}}, unknown={keeper: frozenset({namespace})}))
    report = judge(new, old=old, facts=seen)

    assert report.denied == is_denied
    assert judge(new, facts=seen).denied, "at its creation nothing ran before"
    if not is_denied:
        assert [finding.why_softened for finding in report.findings] == [
            f"the update may return to what ran before: not all {keeper} of the namespace can be known"
        ]
