"""Advice uses the labels of the Pod's own selectors, so that a Pod that follows it is scheduled."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vllm.gpu import advice, by_name
from tests.vllm.gpu.pods import demand, required

PRODUCT, GKE = "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"
TYPE, A100 = "node.kubernetes.io/instance-type", "NVIDIA-A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, f"nodeSelector {PRODUCT}: {A100}"),
        ({"nodeSelector": {PRODUCT: "NVIDIA-L4"}}, f"nodeSelector {PRODUCT}: {A100}"),
        ({"nodeSelector": {"team": "a"}}, f"nodeSelector {PRODUCT}: {A100}"),
        ({"nodeSelector": {GKE: "nvidia-l4"}}, f"nodeSelector {GKE}: nvidia-a100-80gb"),
        ({"nodeSelector": {"amd.com/gpu.product-name": "x"}},
         f"nodeSelector {PRODUCT}: {A100} instead of amd.com/gpu.product-name: x"),
        ({"nodeSelector": {GKE: "nvidia-l4", "cloud.google.com/machine-type": "g2-standard-8"}},
         f"nodeSelector {GKE}: nvidia-a100-80gb, cloud.google.com/machine-type: a2-ultragpu-1g"),
        ({"nodeSelector": {"karpenter.k8s.aws/instance-family": "g6"}},
         f"nodeSelector {PRODUCT}: {A100} instead of karpenter.k8s.aws/instance-family: g6"),
        ({"nodeSelector": {TYPE: "no-such-machine"}}, f"nodeSelector {PRODUCT}: {A100}"),
        ({"affinity": required([demand(PRODUCT, "In", "NVIDIA-L4", A100)])},
         f"required affinity {PRODUCT} In [{A100}] instead of [NVIDIA-L4, {A100}]"),
        ({"affinity": required([demand("team", "In", "a")])}, f"nodeSelector {PRODUCT}: {A100}"),
        ({"nodeSelector": {"cloud.google.com/gke-spot": "true"}}, f"nodeSelector {GKE}: nvidia-a100-80gb"),
        ({"tolerations": [{"key": "cloud.google.com/gke-spot"}]}, f"nodeSelector {GKE}: nvidia-a100-80gb"),
        ({"tolerations": [{"key": "nvidia.com/gpu"}, "odd"]}, f"nodeSelector {PRODUCT}: {A100}"),
        ({"affinity": required([demand("cloud.google.com/gke-spot", "Exists")])},
         f"nodeSelector {GKE}: nvidia-a100-80gb"),
        ({"nodeSelector": {"karpenter.k8s.aws/instance-size": "x"}}, f"nodeSelector {PRODUCT}: {A100}"),
    ],
)  # fmt: skip
def test_a_product_is_asked_for_in_the_pods_own_words(spec: dict[str, Any], text: str) -> None:
    assert str(advice.of_product(spec, A100)) == text


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({}, ("NVIDIA-L4", "NVIDIA-L40S", A100)),
        ({"nodeSelector": {PRODUCT: "NVIDIA-L4"}}, ("NVIDIA-L4", "NVIDIA-L40S", A100)),
        ({"nodeSelector": {GKE: "nvidia-l4"}}, ("NVIDIA-L4", A100)),
        ({"nodeSelector": {"cloud.google.com/gke-spot": "true"}}, ("NVIDIA-L4", A100)),
        ({"nodeSelector": {"karpenter.k8s.aws/instance-size": "x"}}, ("NVIDIA-L4", "NVIDIA-L40S")),
    ],
)
def test_a_cloud_has_the_products_that_its_label_names(spec: dict[str, Any], left: tuple[str, ...]) -> None:
    """Karpenter's `a100` is one of two sizes."""
    assert advice.nameable(spec, ("NVIDIA-L4", "NVIDIA-L40S", A100)) == left


def test_of_products_without_a_name_in_the_cloud_all_are_left() -> None:
    assert advice.nameable({"nodeSelector": {GKE: "nvidia-l4"}}, ("NVIDIA-L40S",)) == ("NVIDIA-L40S",)


@pytest.mark.parametrize(
    ("machine", "count", "text"),
    [
        ("g6.xlarge", 4, f" and nodeSelector {TYPE}: g6.12xlarge"),
        ("g6.12xlarge", 4, ""),
        ("g6.xlarge", 16, None),
        ("no-such-machine", 4, ""),
    ],
)
def test_more_gpus_need_a_machine_that_has_them(machine: str, count: int, text: str | None) -> None:
    assert advice.of_count({"nodeSelector": {TYPE: machine}}, by_name("l4"), count) == text


def test_an_affinity_lists_the_products_to_choose_from() -> None:
    values = [A100, "NVIDIA-L4", "NVIDIA-L4-SHARED", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "no such card"]

    assert advice.own_labels({"affinity": required([demand(PRODUCT, "In", *values)])}) == ("NVIDIA-L4", A100)
    assert advice.own_labels({"nodeSelector": {PRODUCT: A100}}) == ()
