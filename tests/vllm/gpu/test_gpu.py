"""What a Pod says of its GPU: names, labels, resources, and what does not name a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.kube import workload
from podfit.vllm import gpu
from podfit.vllm.facts import Fact, Facts
from podfit.vllm.gpu import Accelerator

GI = 1 << 30


def names(text: str) -> list[str]:
    return [one.name for one in gpu.by_name(text)]


@pytest.mark.parametrize(
    ("text", "product"),
    [
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA A100 80GB SXM4"),
        ("NVIDIA-A100-SXM4-80GB-SHARED", "NVIDIA A100 80GB SXM4"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA A100 80GB SXM4 MIG 1g.10gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED", "NVIDIA A100 80GB SXM4 MIG 1g.10gb"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB SXM5"),
        ("Tesla T4", "Tesla T4"),
        ("t4", "Tesla T4"),
        ("l4", "NVIDIA L4"),
        ("L40S", "NVIDIA L40S"),
        ("nvidia-l4", "NVIDIA L4"),
        ("a10", "NVIDIA A10"),
        ("a10g", "NVIDIA A10G"),
        ("rtx4090", "GeForce RTX 4090"),
        ("2080ti", "GeForce RTX 2080 Ti"),
        ("nvidia-gtx-2080ti", "GeForce RTX 2080 Ti"),
        ("RTX 4070", "GeForce RTX 4070"),
        ("rtx 4070 ti", "GeForce RTX 4070 Ti"),
        ("H100-NVL", "NVIDIA H100 NVL 94GB"),
        ("h100 pcie", "NVIDIA H100 80GB PCIe"),
        ("b200-192gb", "NVIDIA B200 180GB"),
        ("GB200", "NVIDIA GB200"),
        ("mi300x", "AMD Instinct MI300X"),
        ("AMD_Instinct_MI300X_OAM", "AMD Instinct MI300X"),
        ("mi325x", "AMD Instinct MI325X"),
        ("tpu-v5p-slice", "Google TPU v5p"),
        ("gaudi3", "Intel Gaudi 3 (HL-325/HL-338)"),
    ],
)
def test_a_name_that_people_have_is_one_product(text: str, product: str) -> None:
    assert names(text) == [product]


@pytest.mark.parametrize(
    ("text", "gigabytes"),
    [("a100", {40, 80}), ("a100-80gb", {80}), ("A100 40GB", {40}), ("v100", {16, 32}), ("h100", {80}),
     ("gh200", {96, 143}), ("NVIDIA-GeForce-RTX-4060-Ti", {8, 16})],
)  # fmt: skip
def test_an_ambiguous_name_is_every_product_it_may_mean(text: str, gigabytes: set[int]) -> None:
    found = gpu.by_name(text)

    assert len(found) > 1
    assert {round(one.memory_high / GI) for one in found} == gigabytes


@pytest.mark.parametrize("text", ["", "nvidia", "l4-foo", "gpu", "a1000000", "80gb", "true", "present", "a100-20gb"])
def test_what_names_no_product_is_nothing(text: str) -> None:
    assert gpu.by_name(text) == ()


def test_a_slice_named_by_its_profile_is_every_card_that_has_it() -> None:
    found = gpu.by_name("nvidia.com/mig-1g.18gb")

    assert {one.mig for one in found} == {"1g.18gb"}
    assert all(one.memory < 17 * GI for one in found), "the name's GB are rounded up"


def test_a_mistyped_name_has_neighbours() -> None:
    assert "mi300x" in gpu.nearest("mi300-x")
    assert "l40s" in gpu.nearest("l40ss")
    assert gpu.nearest("a potato") == ()


@given(st.text(max_size=40))
def test_no_name_raises(text: str) -> None:
    assert isinstance(gpu.by_name(text), tuple)


# ---------------------------------------------------------------------------------------------------------- Pods


def pod(limits: Any = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.27.1", "resources": {"limits": limits}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


def find(obj: dict[str, Any], facts: Facts | None = None) -> Fact[Accelerator] | None:
    (one,) = workload.find(obj)
    return gpu.find(one, one.containers[0], facts or Facts())


def asked(obj: dict[str, Any]) -> tuple[str, int | None] | None:
    (one,) = workload.find(obj)
    return gpu.requested_resource(one, one.containers[0])


def required(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """A required node affinity of these alternatives."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def is_in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


ONE: dict[str, Any] = {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("limits", "request_"),
    [
        ({"nvidia.com/gpu": "4"}, ("nvidia.com/gpu", 4)),
        ({"nvidia.com/gpu": 4, "memory": "64Gi"}, ("nvidia.com/gpu", 4)),
        ({"nvidia.com/mig-3g.40gb": 1}, ("nvidia.com/mig-3g.40gb", 1)),
        ({"amd.com/gpu": "8"}, ("amd.com/gpu", 8)),
        ({"google.com/tpu": 4}, ("google.com/tpu", 4)),
        ({"aliyun.com/gpu-mem": 12}, ("aliyun.com/gpu-mem", 1)),
        ({"nvidia.com/gpu": "{{ .Values.gpus }}"}, ("nvidia.com/gpu", None)),
        ({"nvidia.com/gpu": "0"}, None),
        ({"rdma/ib": 1, "vpc.amazonaws.com/efa": 4}, None),
        ("a string", None),
        (None, None),
    ],
)
def test_the_request_is_known_even_where_the_product_is_not(
    limits: Any, request_: tuple[str, int | None] | None
) -> None:
    assert asked(pod(limits)) == request_


def test_a_dra_claim_is_a_request_of_an_unknown_count() -> None:
    obj = pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])
    obj["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}

    assert asked(obj) == (gpu.CLAIM, None)


@pytest.mark.parametrize(
    ("selector", "products"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-L4"}, ["NVIDIA L4"]),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, ["NVIDIA H100 80GB SXM5"]),
        ({"karpenter.k8s.aws/instance-gpu-name": "h100"}, ["NVIDIA H100 80GB SXM5"]),
        ({"nvidia.com/gpu.product": "NVIDIA-H100"}, ["NVIDIA H100 64GB / 96GB SXM (HPC custom)"]),
        ({"node.kubernetes.io/instance-type": "g6.xlarge"}, ["NVIDIA L4"]),
        ({"node.kubernetes.io/instance-type": "standard_nc24ads_a100_v4"}, ["NVIDIA A100 80GB PCIe"]),
        ({"karpenter.k8s.aws/instance-family": "g6"}, ["NVIDIA L4"]),
        ({"gpu.nvidia.com/model": "H200"}, ["NVIDIA H200 SXM 141GB"]),
        ({"amd.com/gpu.device-id": "74a1"}, ["AMD Instinct MI300X"]),
        ({"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": "81920"},
         ["NVIDIA A100 80GB SXM4"]),
        ({"nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB", "node.kubernetes.io/instance-type": "unheard.of"},
         ["Tesla V100 16GB"]),
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-a100", "cloud.google.com/gke-gpu-partition-size": "1g.5gb"},
         ["NVIDIA A100 40GB SXM4 MIG 1g.5gb"]),
    ],
)  # fmt: skip
def test_a_label_that_a_cloud_sets_names_the_product_and_may_deny(
    selector: dict[str, str], products: list[str]
) -> None:
    found = find(pod(ONE, nodeSelector=selector))

    assert found is not None
    assert [one.name for one in found.value.gpus] == products
    assert found.may_deny
    assert found.value.count == 1
    assert next(iter(selector)) in found.source


def test_a_label_of_the_clusters_own_making_only_informs() -> None:
    found = find(pod(ONE, nodeSelector={"example.com/gpu-type": "a10g"}))

    assert found is not None
    assert found.value.name == "NVIDIA A10G"
    assert not found.may_deny


def test_required_affinity_terms_are_alternatives() -> None:
    product = "nvidia.com/gpu.product"
    either = find(pod(ONE, affinity=required([is_in(product, "NVIDIA-L4")], [is_in(product, "Tesla-T4")])))
    open_end = find(pod(ONE, affinity=required([is_in(product, "NVIDIA-L4")], [is_in("zone", "a")])))
    two_values = find(pod(ONE, affinity=required([is_in(product, "NVIDIA-L4", "NVIDIA-L40S")])))

    assert either is not None
    assert two_values is not None
    assert either.value.name == "NVIDIA L4 or Tesla T4"
    assert two_values.value.name == "NVIDIA L4 or NVIDIA L40S"
    assert open_end is None, "a node of the other alternative may have any GPU"


def test_a_memory_label_chooses_between_products_of_one_name() -> None:
    more = {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]}
    found = find(pod(ONE, affinity=required([is_in("nvidia.com/gpu.product", "a100"), more])))

    assert found is not None
    assert {one.name for one in found.value.gpus} >= {"NVIDIA A100 80GB SXM4"}
    assert find(pod(ONE, affinity=required([more]))) is None, "more than 40 GB is no product"


def test_preferred_affinity_and_tolerations_say_nothing() -> None:
    preference = {"weight": 1, "preference": {"matchExpressions": [is_in("nvidia.com/gpu.product", "NVIDIA-L4")]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    toleration = {"key": "nvidia.com/gpu.product", "operator": "Equal", "value": "NVIDIA-L4"}

    assert find(pod(ONE, affinity=affinity, tolerations=[toleration])) is None


def test_a_mig_resource_names_its_slices() -> None:
    alone = find(pod({"nvidia.com/mig-1g.18gb": 1}))
    on_h200 = find(pod({"nvidia.com/mig-1g.18gb": 1}, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H200"}))

    assert alone is not None
    assert on_h200 is not None
    assert alone.may_deny
    assert len(alone.value.gpus) > 1
    assert on_h200.value.name == "NVIDIA H200 SXM 141GB MIG 1g.18gb"
    assert on_h200.value.gpus[0].memory < 17 * GI


@pytest.mark.parametrize(
    ("limits", "selector"),
    [
        ({"nvidia.com/gpu.shared": 1}, {"nvidia.com/gpu.product": "NVIDIA-L4"}),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.sharing-strategy": "mps"}),
    ],
)
def test_a_replica_of_a_card_is_shared(limits: dict[str, Any], selector: dict[str, str]) -> None:
    found = find(pod(limits, nodeSelector=selector))

    assert found is not None
    assert found.value.shared
    assert found.value.gpus[0].memory > 22 * GI, "a time slice sees the whole card"


def test_a_software_slice_sees_its_limit() -> None:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10240}
    found = find(pod(limits, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}))

    assert found is not None
    assert found.value.gpus[0].memory == found.value.gpus[0].memory_high == 10 * GI


def test_a_gpu_on_the_command_line_stands_where_the_pod_names_none() -> None:
    facts = Facts(gpu=Accelerator(gpus=gpu.by_name("l4"), count=2))
    bare, labelled = find(pod(ONE), facts), find(pod(ONE, nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"}), facts)
    no_request = find(pod(), facts)

    assert bare is not None
    assert labelled is not None
    assert no_request is not None
    assert (bare.value.name, bare.value.count, bare.source, bare.may_deny) == ("NVIDIA L4", 1, "--gpu", True)
    assert labelled.value.name == "Tesla T4"
    assert no_request.value.count == 2


def test_measured_memory_wins_over_any_name() -> None:
    ti = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4060-Ti"}
    chosen = find(pod(ONE, nodeSelector=ti), Facts(gpu_memory=int(15.6 * GI)))
    unknown = find(pod(ONE), Facts(gpu_memory=20 * GI))

    assert chosen is not None
    assert unknown is not None
    assert chosen.value.name == "GeForce RTX 4060 Ti 16GB"
    assert chosen.value.gpus[0].memory == chosen.value.gpus[0].memory_high == int(15.6 * GI)
    assert unknown.value.gpus[0].memory == 20 * GI


def test_nothing_known_is_nothing() -> None:
    assert find(pod(ONE)) is None
    assert find(pod()) is None


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(limits=ODD, selector=ODD, affinity=ODD, claims=ODD)
def test_odd_manifests_raise_nothing(limits: Any, selector: Any, affinity: Any, claims: Any) -> None:
    for hard in (affinity, {"nodeAffinity": affinity}, required([affinity])):
        obj = pod(limits, nodeSelector=selector, affinity=hard, resourceClaims=claims)
        for one in workload.find(obj):
            for container in one.containers:
                gpu.find(one, container, Facts())
                gpu.requested_resource(one, container)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nvidia/gpu", "nvidia.com/gpu"),
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("nvidia.com/GPU", "nvidia.com/gpu"),
        ("nvdia.com/gpu", "nvidia.com/gpu"),
        ("nivdia.com/gpu", "nvidia.com/gpu"),
        ("nvidia.io/gpu", "nvidia.com/gpu"),
        ("nvidia.com/gup", "nvidia.com/gpu"),
        ("amd/gpu", "amd.com/gpu"),
        ("amd.com/gpus", "amd.com/gpu"),
        ("gpu", "nvidia.com/gpu"),
        ("amd-gpu", "amd.com/gpu"),
        ("nvidia.com.gpu", "nvidia.com/gpu"),
    ],
)
def test_a_misspelt_resource_is_told_from_those_of_other_plugins(name: str, meant: str) -> None:
    assert gpu.misspelled_resource({"memory": "8Gi", name: 1}) == (name, meant)


@pytest.mark.parametrize(
    "name",
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/pgpu", "nvidia.com/vgpu", "nvidia.com/gpu-10gb",
     "amd.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpumem", "hami.io/gpu", "volcano.sh/vgpu-number",
     "example.org/gpu", "nebius.com/gpu", "rdma/hca_shared", "deviceclass.resource.kubernetes.io/gpu.nvidia.com"],
)  # fmt: skip
def test_a_resource_of_a_plugin_is_no_slip(name: str) -> None:
    assert gpu.misspelled_resource({name: 1}) is None


def test_what_sounds_like_an_accelerator_may_be_one() -> None:
    assert gpu.may_be_one({"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1})
    assert gpu.may_be_one({"nvidia.com/gpu-10gb": "1"})
    assert gpu.may_be_one({"example.org/npu": 1})
    assert not gpu.may_be_one({"rdma/hca_shared_devices_a": 1, "cpu": 8, "ephemeral-storage": "1Gi"})
    assert not gpu.may_be_one({"example.org/npu": 0})
