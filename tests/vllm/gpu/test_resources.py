"""Resources of every device plugin: how many devices, and what memory a process sees of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podfit.kube import workload
from podfit.vllm import gpu
from podfit.vllm.facts import Facts
from tests.vllm.gpu.pods import asked, find, pod

GI, MI = 1 << 30, 1 << 20
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


@pytest.mark.parametrize(
    ("limits", "request_"),
    [
        ({"nvidia.com/gpu": "8"}, ("nvidia.com/gpu", 8)),
        ({"nvidia.com/gpu.shared": "1"}, ("nvidia.com/gpu.shared", 1)),
        ({"nvidia.com/mig-1g.10gb.me": "1"}, ("nvidia.com/mig-1g.10gb.me", 1)),
        ({"nvidia.com/mig-1g.24gb-me": "1"}, ("nvidia.com/mig-1g.24gb-me", 1)),
        ({"nvidia.com/mig-3g.20gb.shared": "1"}, ("nvidia.com/mig-3g.20gb.shared", 1)),
        ({"amd.com/gpu": "8"}, ("amd.com/gpu", 8)),
        ({"amd.com/cpx_nps4": "2"}, ("amd.com/cpx_nps4", 2)),
        ({"habana.ai/gaudi": "8"}, ("habana.ai/gaudi", 8)),
        ({"gpu.intel.com/xe": "1"}, ("gpu.intel.com/xe", 1)),
        ({"gpu.intel.com/xe_monitoring": "1"}, None),
        ({"google.com/tpu": "4"}, ("google.com/tpu", 4)),
        ({"aws.amazon.com/neuron": "2"}, ("aws.amazon.com/neuron", 2)),
        ({"aws.amazon.com/neuroncore": "4", "vpc.amazonaws.com/efa": "1"}, ("aws.amazon.com/neuroncore", 4)),
        ({"huawei.com/Ascend910B4": "1", "huawei.com/Ascend910B4-memory": "16384"}, ("huawei.com/Ascend910B4", 1)),
        ({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "10000", "nvidia.com/gpucores": "30"}, ("nvidia.com/gpu", 2)),
        ({"nvidia.com/gpumem": "10000"}, ("nvidia.com/gpumem", 1)),
        ({"nvidia.com/gpucores": "30"}, ("nvidia.com/gpucores", 1)),
        ({"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "4000"}, ("volcano.sh/vgpu-number", 2)),
        ({"aliyun.com/gpu-mem": "20"}, ("aliyun.com/gpu-mem", 1)),
        ({"aliyun.com/gpu-mem": "40", "aliyun.com/gpu-count": "2"}, ("aliyun.com/gpu-mem", 2)),
        ({"nvidia.com/a100": "2"}, ("nvidia.com/a100", 2)),
        ({"nvidia.com/hostdev": "1", "nvidia.com/priority": "1"}, None),
        ({"rdma/ib": "1", "smarter-devices/fuse": "1", "hugepages-2Mi": "1Gi"}, None),
    ],
)
def test_each_plugins_resource_is_counted(limits: dict[str, str], request_: tuple[str, int] | None) -> None:
    assert asked(pod(limits)) == request_


def test_a_request_without_a_limit_counts_too() -> None:
    obj = pod()
    obj["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": "2"}}

    assert asked(obj) == ("nvidia.com/gpu", 2)


def test_several_accelerators_in_one_container_are_one_answer_that_denies_nothing() -> None:
    obj = pod({"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "1"}, nodeSelector=A100)
    found = find(obj)

    assert asked(obj) == ("nvidia.com/gpu + nvidia.com/mig-1g.10gb", None)
    assert found is not None
    assert {one.name for one in found.value.gpus} == {"NVIDIA A100 80GB SXM4", "NVIDIA A100 80GB SXM4 MIG 1g.10gb"}
    assert not found.may_deny


@pytest.mark.parametrize(
    ("annotations", "request_"),
    [
        ({"gpu-fraction": "0.5"}, ("gpu-fraction", 1)),
        ({"gpu-memory": "20000", "gpu-fraction-num-devices": "2"}, ("gpu-memory", 2)),
        ({"gpu-fraction": "0.5", "gpu-fraction-container-name": "vllm"}, ("gpu-fraction", 1)),
        ({"gpu-fraction": "0.5", "gpu-fraction-container-name": "sidecar"}, None),
        ({"runai/gpu-fraction": "0.25"}, ("runai/gpu-fraction", 1)),
    ],
)
def test_a_fraction_is_promised_by_an_annotation(annotations: dict[str, str], request_: tuple[str, int] | None) -> None:
    assert asked(pod(annotations=annotations)) == request_


def test_a_promised_fraction_sees_the_whole_card_and_shares_it() -> None:
    found = find(pod(annotations={"gpu-fraction": "0.5"}, nodeSelector=A100))

    assert found is not None
    assert found.value.shared
    assert found.value.gpus[0].memory > 79 * GI


@pytest.mark.parametrize(
    ("limits", "selector", "memory"),
    [
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10000"}, {}, 10000 * MI),
        ({"nvidia.com/gpumem": "10000"}, {}, 10000 * MI),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096"}, {}, 4096 * MI),
        ({"aliyun.com/gpu-mem": "20"}, {"ack.node.gpu.schedule": "cgpu"}, 20 * GI),
    ],
)
def test_a_slice_that_software_enforces_is_all_that_is_seen(
    limits: dict[str, str], selector: dict[str, str], memory: int
) -> None:
    found = find(pod(limits, nodeSelector={**A100, **selector}))

    assert found is not None
    assert (found.value.gpus[0].memory, found.value.gpus[0].memory_high) == (memory, memory)


def test_a_resource_called_after_a_card_names_it_and_denies_nothing() -> None:
    found = find(pod({"nvidia.com/gpu-l40s": "1"}))

    assert found is not None
    assert (found.value.name, found.may_deny) == ("NVIDIA L40S", False)


def test_half_of_the_memory_by_percentage_is_half() -> None:
    found = find(pod({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}, nodeSelector=A100))
    whole = find(pod({"nvidia.com/gpu": "1"}, nodeSelector=A100))

    assert found is not None
    assert whole is not None
    assert found.value.gpus[0].memory == whole.value.gpus[0].memory // 2


def test_open_source_gpushare_enforces_nothing() -> None:
    found = find(pod({"aliyun.com/gpu-mem": "20"}, nodeSelector=A100))

    assert found is not None
    assert found.value.shared
    assert found.value.gpus[0].memory > 79 * GI


def test_mps_is_a_limit_for_the_process_and_no_proof() -> None:
    shares = {**A100, "nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}
    gke = {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-gpu-sharing-strategy": "mps",
        "cloud.google.com/gke-max-shared-clients-per-gpu": "2",
    }
    by_plugin, by_gke = (
        find(pod({"nvidia.com/gpu": "1"}, nodeSelector=shares)),
        find(pod({"nvidia.com/gpu": "1"}, nodeSelector=gke)),
    )

    assert by_plugin is not None
    assert by_gke is not None
    assert (by_plugin.value.gpus[0].memory, by_plugin.value.shared) == (20480 * MI, True)
    assert by_plugin.value.gpus[0].memory_high > 79 * GI
    assert by_gke.value.gpus[0].memory == 23034 * MI // 2


def ray_service(accelerator: str) -> dict[str, Any]:
    serve = {
        "applications": [
            {
                "args": {
                    "llm_configs": [
                        {
                            "model_loading_config": {"model_id": "qwen", "model_source": "Qwen/Qwen3-8B"},
                            "accelerator_type": accelerator,
                        }
                    ]
                }
            }
        ]
    }
    worker = {"spec": {"containers": [{"name": "ray", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "r"},
        "spec": {
            "serveConfigV2": json.dumps(serve),
            "rayClusterConfig": {"workerGroupSpecs": [{"replicas": 1, "template": worker}]},
        },
    }


@pytest.mark.parametrize(
    ("accelerator", "products"),
    [
        ("L4", {"NVIDIA L4"}),
        ("A10G", {"NVIDIA A10G"}),
        ("A100-40G", {"NVIDIA A100 40GB SXM4", "NVIDIA A100 40GB PCIe"}),
        ("H100", {"NVIDIA H100 80GB SXM5", "NVIDIA H100 80GB PCIe"}),
        ("unheard-of", set()),
    ],
)
def test_rays_accelerator_type_names_the_card_of_its_workers(accelerator: str, products: set[str]) -> None:
    (worker,) = [one for one in workload.find(ray_service(accelerator)) if "workerGroupSpecs" in one.path.parts]
    found = gpu.find(worker, worker.containers[0], Facts())

    assert {one.name for one in found.value.gpus} == products if found else not products
