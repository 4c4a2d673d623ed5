"""GPUs of pools in the same input: what a Pod's demands name of them, and when nothing is known."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.kube.snapshot import from_objects
from podfit.vllm.facts import Facts
from tests.vllm.gpu.pods import ONE, demand, find, pod, required

JSONDict = dict[str, Any]
POOL, CLASS = "karpenter.sh/nodepool", "cloud.google.com/compute-class"
TYPE = "node.kubernetes.io/instance-type"


def node_pool(name: str, *requirements: JSONDict, labels: JSONDict | None = None) -> JSONDict:
    """Karpenter's."""
    template = {"metadata": {"labels": labels or {}}, "spec": {"requirements": list(requirements)}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


def compute_class(name: str, *priorities: JSONDict) -> JSONDict:
    """GKE's."""
    return {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": name},
        "spec": {"priorities": list(priorities)},
    }


A10G = node_pool("a10g", demand(TYPE, "In", "g5.xlarge", "g5.2xlarge"), labels={"role": "inference"})
L4 = node_pool("l4", demand("karpenter.k8s.aws/instance-gpu-name", "In", "l4"), labels={"role": "inference"})
PLAIN = node_pool("plain", demand("karpenter.sh/capacity-type", "In", "spot"), labels={"role": "web"})
T4 = compute_class("t4", {"gpu": {"type": "nvidia-tesla-t4", "count": 1}})
L4_OR_T4 = compute_class("any", {"machineType": "g2-standard-4"}, {"gpu": {"type": "nvidia-tesla-t4", "count": 1}})
OPEN = compute_class("open", {"gpu": {"type": "nvidia-tesla-t4"}}, {"nodepools": ["blue"]})
EVERYTHING = A10G, L4, PLAIN, T4, L4_OR_T4, OPEN


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({"nodeSelector": {POOL: "a10g"}}, ["NVIDIA A10G"]),
        ({"nodeSelector": {"role": "inference"}}, ["NVIDIA A10G", "NVIDIA L4"]),
        ({"nodeSelector": {"role": "inference", POOL: "l4"}}, ["NVIDIA L4"]),
        ({"affinity": required([demand(POOL, "In", "a10g", "l4")])}, ["NVIDIA A10G", "NVIDIA L4"]),
        ({"affinity": required([demand(POOL, "In", "l4")], [demand(CLASS, "In", "t4")])}, ["NVIDIA L4", "Tesla T4"]),
        ({"nodeSelector": {CLASS: "t4"}}, ["Tesla T4"]),
        ({"nodeSelector": {CLASS: "any"}}, ["NVIDIA L4", "Tesla T4"]),
        ({"nodeSelector": {CLASS: "open"}}, None),
        ({"nodeSelector": {CLASS: "absent"}}, None),
        ({"nodeSelector": {POOL: "plain"}}, None),
        ({"nodeSelector": {"role": "inference", "disk": "fast"}}, ["NVIDIA A10G", "NVIDIA L4"]),
        ({"nodeSelector": {"disk": "fast"}}, None),
        ({}, None),
    ],
)
def test_a_pool_that_the_pod_names_says_which_gpus(spec: JSONDict, names: list[str] | None) -> None:
    found = find(pod(ONE, **spec), Facts(cluster=from_objects(EVERYTHING)))

    assert (sorted(gpu.name for gpu in found.value.gpus) if found else None) == names


def test_what_a_pool_says_only_informs() -> None:
    found = find(pod(ONE, nodeSelector={CLASS: "t4"}), Facts(cluster=from_objects([T4])))

    assert found is not None
    assert not found.may_deny


def test_a_label_of_the_pod_comes_before_its_pool() -> None:
    spec = {POOL: "a10g", "nvidia.com/gpu.product": "NVIDIA-L40S"}
    found = find(pod(ONE, nodeSelector=spec), Facts(cluster=from_objects([A10G])))

    assert found is not None
    assert [gpu.name for gpu in found.value.gpus] == ["NVIDIA L40S"]


@pytest.mark.parametrize(
    "spec",
    [None, [], {"template": 1}, {"template": {"spec": {"requirements": [1, {"values": 2}, {}]}}}, {"priorities": [1]}],
)
def test_odd_shapes_name_nothing(spec: Any) -> None:
    odd = [{**one, "spec": spec} for one in (A10G, T4)]

    assert find(pod(ONE, nodeSelector={POOL: "a10g"}), Facts(cluster=from_objects(odd))) is None
    assert find(pod(ONE, nodeSelector={CLASS: "t4"}), Facts(cluster=from_objects(odd))) is None
