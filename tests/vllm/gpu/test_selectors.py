"""How real Pods say which accelerator they want, in every dialect: what each of them means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.vllm.gpu import labels
from tests.vllm.gpu.pods import ONE, demand, find, pod, required

H100, H100_PCIE, H200 = "NVIDIA H100 80GB SXM5", "NVIDIA H100 80GB PCIe", "NVIDIA H200 SXM 141GB"
A100_40, A100_40P = "NVIDIA A100 40GB SXM4", "NVIDIA A100 40GB PCIe"
A100_80, A100_80P = "NVIDIA A100 80GB SXM4", "NVIDIA A100 80GB PCIe"
L4, L40S, T4, A10, A10G = "NVIDIA L4", "NVIDIA L40S", "Tesla T4", "NVIDIA A10", "NVIDIA A10G"
V100_16, V100_32 = "Tesla V100 16GB", "Tesla V100 32GB"
B200, GB200, MI300X = "NVIDIA B200 180GB", "NVIDIA GB200", "AMD Instinct MI300X"

SELECTORS: list[tuple[str, dict[str, str], list[str]]] = [
    # GPU feature discovery: what NVML prints, its blanks as dashes
    ("gfd", {"nvidia.com/gpu.product": "Tesla-T4"}, [T4]),
    ("gfd", {"nvidia.com/gpu.product": "Tesla-T4-SHARED"}, [T4]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-L4"}, [L4]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-L40S"}, [L40S]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-L40"}, ["NVIDIA L40"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-A10"}, [A10]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-A10G"}, [A10G]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-A30"}, ["NVIDIA A30"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-A40"}, ["NVIDIA A40"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, [A100_40]),
    ("gfd", {"nvidia.com/gpu.product": "A100-SXM4-40GB"}, [A100_40]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB"}, [A100_40P]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, [A100_80]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-A100-80GB-PCIe"}, [A100_80P]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-A100-80GB-PCIe-SHARED"}, [A100_80P]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, [H100]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-H100-PCIe"}, [H100_PCIE]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-H100-NVL"}, ["NVIDIA H100 NVL 94GB"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-H200"}, [H200]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-H20"}, ["NVIDIA H20 96GB"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-B200"}, [B200]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-GB200"}, [GB200]),
    ("gfd", {"nvidia.com/gpu.product": "Tesla-V100-SXM2-16GB"}, [V100_16]),
    ("gfd", {"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB"}, [V100_32]),
    ("gfd", {"nvidia.com/gpu.product": "Tesla-V100"}, [V100_16, V100_32]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-RTX-A6000"}, ["RTX A6000"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-RTX-6000-Ada-Generation"}, ["RTX 6000 Ada"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3090"}, ["GeForce RTX 3090"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}, ["GeForce RTX 4090"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090"}, ["GeForce RTX 5090"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"},
     ["RTX PRO 6000 Blackwell Server Edition"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4060-Ti", "nvidia.com/gpu.memory": "16380"},
     ["GeForce RTX 4060 Ti 16GB"]),
    ("gfd", {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-3080", "nvidia.com/gpu.memory": "12288"},
     ["GeForce RTX 3080 12GB"]),
    ("gfd", {"nvidia.com/gpu.memory": "23034"}, [L4, "NVIDIA L2"]),
    ("gfd", {"nvidia.com/gpu.product": "Tesla-V100", "nvidia.com/gpu.memory": "34359738368"}, [V100_32]),
    ("gfd", {"nvidia.com/gpu.family": "volta"}, [V100_16, V100_32]),
    ("gfd", {"nvidia.com/gpu.compute.major": "10", "nvidia.com/gpu.compute.minor": "3"},
     ["NVIDIA B300 (Blackwell Ultra) SXM6", "NVIDIA GB300"]),
    # MIG by the GPU's label, if all slices of a node are alike
    ("mig", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, [f"{A100_40} MIG 1g.5gb"]),
    ("mig", {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb-SHARED"}, [f"{A100_80} MIG 3g.40gb"]),
    ("mig", {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me"}, [f"{H100} MIG 1g.10gb.me"]),
    ("mig", {"nvidia.com/gpu.product": "NVIDIA-H200-MIG-3g.71gb"}, [f"{H200} MIG 3g.71gb"]),
    # GKE
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, [T4]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-l4"}, [L4]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-accelerator-count": "2"}, [L4]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}, [A100_40]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-a100-80gb"}, [A100_80]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, [H100]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}, [H100]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-h200-141gb"}, [H200]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-b200"}, [B200]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-gb200"}, [GB200]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-rtx-pro-6000"}, ["RTX PRO 6000 Blackwell Server Edition"]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-tesla-v100"}, [V100_16]),
    ("gke", {"cloud.google.com/gke-accelerator": "nvidia-a100-80gb", "cloud.google.com/gke-gpu-partition-size":
             "2g.20gb"}, [f"{A100_80} MIG 2g.20gb"]),
    ("gke", {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-tpu-topology":
             "2x4"}, ["Google TPU v5e"]),
    ("gke", {"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice"}, ["Google TPU v5p"]),
    ("gke", {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}, ["Google TPU v6e (Trillium)"]),
    ("gke", {"cloud.google.com/machine-family": "a4"}, [B200]),
    # AWS: Karpenter, EKS Auto Mode, the autoscaler's old label
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "t4"}, [T4]),
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "a10g"}, [A10G]),
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "l4"}, [L4]),
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "l40s"}, [L40S]),
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "h100"}, [H100]),
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "h200"}, [H200]),
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "b200"}, [B200]),
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "a100"}, [A100_40, A100_80]),
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-memory": "40960"},
     [A100_40]),
    ("aws", {"karpenter.k8s.aws/instance-gpu-name": "v100", "karpenter.k8s.aws/instance-family": "p3dn"}, [V100_32]),
    ("aws", {"karpenter.k8s.aws/instance-family": "g5"}, [A10G]),
    ("aws", {"karpenter.k8s.aws/instance-family": "g6e"}, [L40S]),
    ("aws", {"karpenter.k8s.aws/instance-family": "p4d"}, [A100_40]),
    ("aws", {"karpenter.k8s.aws/instance-family": "p4de"}, [A100_80]),
    ("aws", {"karpenter.k8s.aws/instance-family": "p5en"}, [H200]),
    ("aws", {"karpenter.k8s.aws/instance-category": "p", "karpenter.k8s.aws/instance-generation": "5"},
     [H100, H200]),
    ("aws", {"eks.amazonaws.com/instance-gpu-name": "l4"}, [L4]),
    ("aws", {"eks.amazonaws.com/instance-family": "g6"}, [L4]),
    ("aws", {"k8s.amazonaws.com/accelerator": "nvidia-tesla-v100"}, [V100_16]),
    ("aws", {"node.kubernetes.io/instance-type": "g4dn.xlarge"}, [T4]),
    ("aws", {"node.kubernetes.io/instance-type": "g5.12xlarge"}, [A10G]),
    ("aws", {"node.kubernetes.io/instance-type": "p4d.24xlarge"}, [A100_40]),
    ("aws", {"node.kubernetes.io/instance-type": "p5.48xlarge"}, [H100]),
    ("aws", {"beta.kubernetes.io/instance-type": "p3.2xlarge"}, [V100_16]),
    ("aws", {"node.kubernetes.io/instance-type": "inf2.48xlarge"}, ["AWS Inferentia2"]),
    ("aws", {"node.kubernetes.io/instance-type": "trn1.32xlarge"}, ["AWS Trainium1"]),
    # Azure: the vendor's label names no GPU, the machine type does
    ("azure", {"node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4"}, [A100_80P]),
    ("azure", {"node.kubernetes.io/instance-type": "Standard_NC40ads_H100_v5"}, ["NVIDIA H100 NVL 94GB"]),
    ("azure", {"node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5"}, [H100]),
    ("azure", {"node.kubernetes.io/instance-type": "Standard_NC4as_T4_v3"}, [T4]),
    ("azure", {"accelerator": "nvidia", "node.kubernetes.io/instance-type": "Standard_NV36ads_A10_v5"}, [A10]),
    ("azure", {"kubernetes.azure.com/accelerator": "nvidia", "node.kubernetes.io/instance-type":
               "Standard_NC6s_v3"}, [V100_16]),
    ("azure", {"node.kubernetes.io/instance-type": "Standard_ND96isr_MI300X_v5"}, [MI300X]),
    # Google's, Oracle's and others' machine types
    ("gcp", {"node.kubernetes.io/instance-type": "a2-highgpu-1g"}, [A100_40]),
    ("gcp", {"node.kubernetes.io/instance-type": "a2-ultragpu-4g"}, [A100_80]),
    ("gcp", {"node.kubernetes.io/instance-type": "a3-highgpu-8g"}, [H100]),
    ("gcp", {"node.kubernetes.io/instance-type": "a3-ultragpu-8g"}, [H200]),
    ("gcp", {"node.kubernetes.io/instance-type": "g2-standard-8"}, [L4]),
    ("oci", {"node.kubernetes.io/instance-type": "BM.GPU.H100.8"}, [H100]),
    ("oci", {"node.kubernetes.io/instance-type": "BM.GPU.A10.4"}, [A10]),
    ("oci", {"node.kubernetes.io/instance-type": "VM.GPU.A10.1"}, [A10]),
    # Clouds with labels of their own
    ("coreweave", {"gpu.nvidia.com/class": "L40S"}, [L40S]),
    ("coreweave", {"gpu.nvidia.com/model": "H100_NVLINK_80GB"}, [H100]),
    ("coreweave", {"gpu.nvidia.com/model": "A100_PCIE_80GB"}, [A100_80P]),
    ("coreweave", {"gpu.nvidia.com/model": "H200"}, [H200]),
    ("nebius", {"nebius.com/gpu-name": "H100"}, [H100]),
    ("nebius", {"nebius.com/gpu-name": "L40S"}, [L40S]),
    ("skypilot", {"skypilot.co/accelerator": "h100"}, [H100, H100_PCIE]),
    ("volcengine", {"machine.cluster.vke.volcengine.com/gpu-name": "NVIDIA-L20"}, ["NVIDIA L20"]),
    ("volcengine", {"machine.cluster.vke.volcengine.com/gpu-name": "Tesla-A100-80G"}, [A100_80, A100_80P]),
    ("volcengine", {"machine.cluster.vke.volcengine.com/gpu-name": "NVIDIA-H20-SXM5-96GB"}, ["NVIDIA H20 96GB"]),
    ("alibaba", {"aliyun.accelerator/nvidia_name": "Tesla-V100-SXM2-32GB"}, [V100_32]),
    ("alibaba", {"aliyun.accelerator/nvidia_name": "NVIDIA-A10"}, [A10]),
    ("alibaba", {"alibabacloud.com/gpu-card-model": "Tesla-V100-SXM2-16GB"}, [V100_16]),
    ("baidu", {"baidu/nvidia_name": "NVIDIA-A100-SXM4-80GB"}, [A100_80]),
    # AMD's labeller: GPU name, device id, and both with the value in the key
    ("amd", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, [MI300X]),
    ("amd", {"amd.com/gpu.product-name": "AMD_Instinct_MI325_OAM"}, ["AMD Instinct MI325X"]),
    ("amd", {"beta.amd.com/gpu.device-id": "74a1"}, [MI300X]),
    ("amd", {"amd.com/gpu.device-id": "74b5"}, [MI300X]),
    ("amd", {"beta.amd.com/gpu.product-name.AMD_Instinct_MI300X_OAM": "8"}, [MI300X]),
    ("amd", {"amd.com/gpu.device-id.74a1": "8"}, [MI300X]),
    ("amd", {"amd.com/gpu.device-id": "74a1", "amd.com/compute-memory-partition": "cpx_nps4"}, [f"{MI300X} CPX"]),
    # Intel, Huawei
    ("intel", {"habana.ai/device-type": "gaudi3"}, ["Intel Gaudi 3 (HL-325/HL-338)"]),
    ("intel", {"gpu.intel.com/product": "Max_1100"}, ["Intel Data Center GPU Max 1100"]),
    # Labels that people invent
    ("own", {"gpu-type": "a10g"}, [A10G]),
    ("own", {"accelerator": "nvidia-tesla-t4"}, [T4]),
    ("own", {"example.com/gpu": "h100"}, [H100, H100_PCIE]),
    ("own", {"gpu.product": "NVIDIA-L4"}, [L4]),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "selector", "products"), SELECTORS)
def test_a_selector_names_these_products(dialect: str, selector: dict[str, str], products: list[str]) -> None:
    found = find(pod(ONE, nodeSelector=selector))

    assert found is not None
    assert sorted(one.name for one in found.value.gpus) == sorted(products)
    assert found.may_deny is (dialect != "own")


@pytest.mark.parametrize(("dialect", "selector", "products"), SELECTORS)
def test_a_required_affinity_says_the_same(dialect: str, selector: dict[str, str], products: list[str]) -> None:
    expressions = [demand(key, "In", value) for key, value in selector.items()]
    found = find(pod(ONE, affinity=required(expressions)))

    assert found is not None
    assert sorted(one.name for one in found.value.gpus) == sorted(products)


@pytest.mark.parametrize(
    "selector",
    [
        {"accelerator": "nvidia"},
        {"kubernetes.azure.com/accelerator": "nvidia"},
        {"nvidia.com/gpu.present": "true"},
        {"feature.node.kubernetes.io/pci-10de.present": "true"},
        {"cloud.google.com/gke-spot": "true"},
        {"cloud.google.com/compute-class": "gpu"},
        {"node.kubernetes.io/instance-type": "m5.large"},
        {"nvidia.com/gpu.count": "8"},
        {"nvidia.com/gpu.family": "ampere"},
        {"karpenter.k8s.aws/instance-category": "g"},
        {"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"},
        {"gpu": "true"},
        {"kubernetes.io/hostname": "h100-worker-1"},
        {"nvidia.com/gpu.product": "NVIDIA-X9999"},
    ],
)
def test_a_selector_that_leaves_the_product_open_names_none(selector: dict[str, str]) -> None:
    assert find(pod(ONE, nodeSelector=selector)) is None


PRODUCT = "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("term", "products"),
    [
        ([demand(PRODUCT, "In", "NVIDIA-L4", "NVIDIA-L40S")], [L4, L40S]),
        ([demand(PRODUCT, "In", "NVIDIA-L4", "NVIDIA-L40S"), demand(PRODUCT, "NotIn", "NVIDIA-L40S")], [L4]),
        ([demand(PRODUCT, "In", "Tesla-V100"), demand("nvidia.com/gpu.memory", "Gt", "20000")], [V100_32]),
        ([demand(PRODUCT, "In", "Tesla-V100"), demand("nvidia.com/gpu.memory", "Lt", "20000")], [V100_16]),
        ([demand(PRODUCT, "In", "NVIDIA-L4", "NVIDIA-A10G"), demand("nvidia.com/gpu.family", "In", "ampere")], [A10G]),
        ([demand(PRODUCT, "In", "NVIDIA-L4", "Tesla-T4"), demand("nvidia.com/gpu.compute.major", "Gt", "7")], [L4]),
        ([demand(PRODUCT, "In", "NVIDIA-A10", "NVIDIA-A30"), demand("nvidia.com/mig.capable", "In", "true")],
         ["NVIDIA A30"]),
        ([demand(PRODUCT, "In", "NVIDIA-L4"), demand(PRODUCT, "Exists")], [L4]),
        ([demand("amd.com/gpu.product-name.AMD_Instinct_MI300X_OAM", "Exists")], [MI300X]),
        ([demand("karpenter.k8s.aws/instance-category", "In", "p"),
          demand("karpenter.k8s.aws/instance-generation", "Gt", "5")],
         [B200, "NVIDIA B300 (Blackwell Ultra) SXM6", GB200, "NVIDIA GB300"]),
        ([demand("karpenter.k8s.aws/instance-family", "In", "g5", "g6"),
          demand("karpenter.k8s.aws/instance-family", "NotIn", "g5")], [L4]),
        ([demand("karpenter.k8s.aws/instance-family", "In", "p4d", "p4de"),
          demand("karpenter.k8s.aws/instance-gpu-memory", "Gt", "50000")], [A100_80]),
    ],
)  # fmt: skip
def test_operators_narrow_what_is_named(term: list[dict[str, Any]], products: list[str]) -> None:
    found = find(pod(ONE, affinity=required(term)))

    assert found is not None
    assert sorted(one.name for one in found.value.gpus) == sorted(products)


@pytest.mark.parametrize(
    "term",
    [
        [demand(PRODUCT, "NotIn", "Tesla-T4")],
        [demand(PRODUCT, "Exists")],
        [demand(PRODUCT, "DoesNotExist")],
        [demand("nvidia.com/gpu.memory", "Gt", "40000")],
        [demand("nvidia.com/gpu.compute.major", "Gt", "7")],
    ],
)
def test_operators_alone_name_nothing(term: list[dict[str, Any]]) -> None:
    assert find(pod(ONE, affinity=required(term))) is None


RTX_4090 = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}


@pytest.mark.parametrize(
    ("label", "more", "high"),
    [
        (None, None, 24564),
        ("24564", None, 24564),
        ("49140", None, 49140),
        (None, demand("nvidia.com/gpu.memory", "Gt", "20000"), 24564),
        (None, demand("nvidia.com/gpu.memory", "Gt", "40000"), 2 * 24564),
        (None, demand("nvidia.com/gpu.memory", "In", "24564", "49140"), 49140),
    ],
)
def test_a_card_may_have_as_much_memory_as_its_node_must_report(
    label: str | None, more: dict[str, Any] | None, high: int
) -> None:
    selector = {**RTX_4090, **({"nvidia.com/gpu.memory": label} if label else {})}
    found = find(pod(ONE, nodeSelector=selector, affinity=required([more]) if more else None))

    assert found is not None
    (one,) = found.value.gpus
    assert one.memory_high >> 20 == high
    assert one.memory < one.memory_high


def test_a_selector_holds_in_every_alternative() -> None:
    terms = [demand("zone", "In", "a")], [demand("zone", "In", "b")]
    found = find(pod(ONE, nodeSelector={PRODUCT: "NVIDIA-L4"}, affinity=required(*terms)))

    assert found is not None
    assert found.value.name == L4


LABELS = ("nvidia.com/gpu.product", "nvidia.com/gpu.memory", "accelerator", "node.kubernetes.io/instance-type", "zone")
VALUES = st.sampled_from(["NVIDIA-L4", "NVIDIA-A100-SXM4-80GB", "l4", "23034", "g6.xlarge", "", 1, True, 1.0, None])


@given(st.dictionaries(st.sampled_from(LABELS), VALUES) | st.none() | st.just([]))
def test_a_selector_alone_says_what_it_says_beside_an_affinity(selector: Any) -> None:
    """Whatever its values are: an affinity that demands nothing changes nothing."""
    alone, beside = {"nodeSelector": selector}, {"nodeSelector": selector, "affinity": {}}

    assert labels._of_spec(alone) == labels._of_spec(beside)
