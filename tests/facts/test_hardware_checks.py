"""A wrong value of a GPU, a MIG profile or a machine type is caught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scripts.facts import fields
from scripts.facts.hardware_checks import (
    capability_problems,
    gpu_problems,
    instance_problems,
    mig_problems,
    size_problems,
)
from scripts.facts.table import entries

GPUS = {row["name"]: row for row in entries("gpus")}
MIGS = {(row["gpu"], row["profile"]): row for row in entries("mig")}
INSTANCES = {row["type"]: row for row in entries("instances")}
L4 = GPUS["NVIDIA L4"]


def said_of_gpu(changes: dict[str, Any]) -> Iterator[str]:
    """What is said of an L4 with other values."""
    row = {**L4, **changes}
    yield from fields.problems("gpus", row)
    yield from gpu_problems(row)
    yield from (f"{name}: {why}" for name, why in capability_problems([*(GPUS | {"NVIDIA L4": row}).values()]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cuda_mib": 45_126}, "cuda_mib 45,126, expected 0.85 to 1.01 of 24 GB"),
        ({"cuda_mib": 24_000}, "cuda_mib 24,000, expected at most nvidia_smi_mib 23,034"),
        ({"marketing_gb": 48}, "cuda_mib 22,563, expected 0.85 to 1.01 of 48 GB"),
        ({"name": "NVIDIA L4 48GB"}, "marketing_gb 24, expected 48 as in its name"),
        ({"seen": [{"mib": 24_152_899_584, "by": "cuda"}]}, "seen 24,152,899,584 MiB, expected 0.8 to 1.02 of 24 GB"),
        (
            {"compute_capability": "9.8"},
            "NVIDIA L4: compute capability 9.x, expected 8.x as all others of ada-lovelace",
        ),
        ({"compute_capability": "7.5"}, "bf16 True, expected that of compute capability 7.5"),
        ({"compute_capability": "89"}, "compute_capability: string should match pattern"),
        ({"bf16": False}, "bf16 False, expected that of compute capability 8.9"),
        ({"vendor": "amd"}, "vendor amd, compute_capability 8.9: NVIDIA's GPUs have one"),
        ({"nvidia_smi_mib": 46_068}, "nvidia_smi_mib 46,068, expected 0.85 to 1.01 of 24 GB"),
        ({"architecture": "ada-lovelance"}, "architecture"),
        ({"names": {**L4["names"], "gfd": ["NVIDIA-L40"]}}, "names.gfd ['NVIDIA-L40'], expected a name of names.smi"),
        ({"names": {"smi": ["NVIDIA L4"], "gdf": ["NVIDIA-L4"]}}, "names.gdf"),
        ({"names": {"smi": ["NVIDIA L4 "]}}, "names.smi.0: string should match pattern"),
        ({"vendor": "nvidea"}, "vendor: input should be 'nvidia', 'amd'"),
        ({"memory": 24}, "memory: extra inputs are not permitted (24)"),
        ({"cuda_mib": 22_563.5}, "cuda_mib: input should be a valid integer (22563.5)"),
    ],
)
def test_a_wrong_value_of_a_gpu_is_caught(changes: dict[str, Any], said: str) -> None:
    assert not [*said_of_gpu({})]
    found = [*said_of_gpu(changes)]
    assert any(said in one for one in found), found


@pytest.mark.parametrize(
    ("profile", "changes", "said"),
    [
        ("2g.10gb", {"mib": 4_928}, "mib 4,928, expected 0.88 to 1.0 of the 10 GB in its name"),
        ("2g.10gb", {"mib": 19_968}, "3 × 19,968 MiB, expected at most the GPU's"),
        ("3g.20gb", {"max": 3}, "max 3, expected at most 2"),
        ("1g.5gb", {"gpu": "NVIDIA A1000"}, "no such GPU"),
    ],
)
def test_a_wrong_value_of_a_mig_profile_is_caught(profile: str, changes: dict[str, Any], said: str) -> None:
    row = MIGS["NVIDIA A100 40GB SXM4", profile]
    assert not [*mig_problems(row, GPUS)]
    found = [*mig_problems({**row, **changes}, GPUS)]
    assert any(said in one for one in found), found


def said_of_type(name: str, changes: dict[str, Any]) -> Iterator[str]:
    """What is said of a machine type with other values."""
    row = {**INSTANCES[name], **changes}
    yield from fields.problems("instances", row)
    yield from instance_problems(row, GPUS)
    yield from (f"{one}: {why}" for one, why in size_problems((INSTANCES | {name: row}).values(), GPUS))


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("p5.48xlarge", {"count": 4}, "p5.48xlarge: count 4, expected 8 as the other types of the size 48xlarge"),
        ("g6.12xlarge", {"count": 3}, "count 3, expected one of 0, 1, 2, 4, 8, 16"),
        ("a2-highgpu-4g", {"count": 8}, "count 8, expected 4 as in its name"),
        ("gpu_8x_a100", {"count": 1}, "count 1, expected 8 as in its name"),
        ("BM.GPU.H100.8", {"count": 4}, "count 4, expected 8 as in its name"),
        ("Standard_NC96ads_A100_v4", {"count": 1}, "count 1, expected at least the 2 of the smaller Standard_NC48ads"),
        ("Standard_NV6ads_A10_v5", {"count": 2}, "of a GPU, and count 2: expected at most 1"),
        ("Standard_NV6ads_A10_v5", {"fraction": 6.0}, "fraction: input should be less than 1 (6.0)"),
        ("g5.xlarge", {"gpu": "NVIDIA A10H"}, "gpu 'NVIDIA A10H', expected one of gpus.jsonl"),
        ("g5.xlarge", {"host_ram_gib": 16_384}, "host_ram_gib: input should be less than or equal to 8192"),
        ("g5.48xlarge", {"host_ram_gib": 16.0}, "host_ram_gib 16.0, expected 0.4 to 40.0 GiB for each GB of 8 ×"),
        ("g5.xlarge", {"gpu_memory_label_mib": 81_920}, "gpu_memory_label_mib 81,920, expected 0.85 to 1.02 of 24,576"),
        ("g4ad.16xlarge", {"allocatable_memory": "999999Mi"}, "allocatable_memory 999999Mi, expected less than"),
        (
            "g5.2xlarge",
            {"gpu": "NVIDIA L4"},
            "gpu 'NVIDIA L4', expected 'NVIDIA A10G' as the other types of its family",
        ),
        ("g6.4xlarge", {"host_ram_gib": 128.0}, "host_ram_gib 128.0, expected about 64 as in its family"),
        ("Standard_NC96ads_A100_v4", {"gpu": "NVIDIA L4"}, "expected 'NVIDIA A100 80GB PCIe' as the other types"),
        ("a2-highgpu-4g", {"host_ram_gib": 85.0}, "host_ram_gib 85.0, expected about 340 as in its family"),
        ("g5.xlarge", {"provider": "asw"}, "provider: input should be 'aws', 'azure'"),
    ],
)
def test_a_wrong_value_of_a_machine_type_is_caught(name: str, changes: dict[str, Any], said: str) -> None:
    assert not [*said_of_type(name, {})]
    found = [*said_of_type(name, changes)]
    assert any(said in one for one in found), found
