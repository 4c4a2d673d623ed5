"""The table of GPU models and their slices, and what a container gets of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from podfit.base import data


@dataclass(frozen=True)
class Gpu:
    """A GPU model of the table, or a slice of one."""

    name: str
    """The table's name ("NVIDIA A100 80GB SXM4"); for a MIG slice "… MIG 1g.10gb"."""
    vendor: str
    """"nvidia", "amd", "intel", "google" …"""
    architecture: str | None
    compute_capability: tuple[int, int] | None
    memory: int
    """Bytes a process sees in total (`cudaMemGetInfo`): the smallest trustworthy value ever observed, the safe one."""
    memory_high: int
    """The largest total ever observed for this GPU model: a denial must assume this much."""
    supports_bf16: bool | None
    labels: tuple[str, ...]
    """Values of nvidia.com/gpu.product for this GPU model, for suggestions."""
    mig: str | None = None
    memory_likely: int | None = None
    """The middle of the totals that drivers leave on the GPU, if these differ much; else None."""
    unified_memory: bool = False
    lacks_nvlink: bool = False
    """It has no NVLink, not even with a bridge; False also if that is unknown."""
    memory_label_mib: int | None = None
    """MiB in nvidia-smi and in the label nvidia.com/gpu.memory: more than a process sees."""

    def with_memory(self, memory: int, high: int | None = None) -> Gpu:
        """A part of this GPU, or this GPU with its measured memory."""
        return replace(self, memory=memory, memory_high=memory if high is None else high, memory_likely=None)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The GPUs that a container gets."""

    gpus: tuple[Gpu, ...]
    """The GPU model; several if the name is ambiguous (an `a100` has 40 or 80 GB): each is planned."""
    count: int | None
    """GPUs that the container requests; None if unknown (a DRA claim, an operator decides)."""
    resource: str | None = None
    """The requested resource ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")."""
    shared: bool = False
    """Time-sliced, MPS or a fraction: other processes may use the same GPU."""

    @property
    def name(self) -> str:
        """The names of all possible GPU models, for people."""
        if len(self.gpus) > 1 and len(slices := {gpu.mig for gpu in self.gpus}) == 1 and (profile := slices.pop()):
            return f"MIG {profile} of one of {len(self.gpus)} GPUs"
        return " or ".join(gpu.name for gpu in self.gpus)


@cache
def products() -> Mapping[str, Mapping[str, Any]]:
    """The name in the table → its row."""
    return {row["name"]: row for row in data.load("gpus")["products"]}


@cache
def product(name: str) -> Gpu:
    """The GPU model of that name in the table."""
    row = products()[name]
    major_minor = row.get("compute_capability")
    return Gpu(
        name=name,
        vendor=row["vendor"],
        architecture=row.get("architecture"),
        compute_capability=(major_minor[0], major_minor[1]) if major_minor else None,
        memory=row["memory"],
        memory_high=row["memory_high"],
        supports_bf16=row.get("bf16"),
        labels=tuple(row["names"].get("gfd", ())),
        memory_likely=row.get("memory_likely"),
        unified_memory=bool(row.get("unified_memory")),
        lacks_nvlink=row.get("nvlink") is False,
        memory_label_mib=row.get("memory_label_mib"),
    )


def all_products() -> tuple[Gpu, ...]:
    """Every GPU model of the table, in its order."""
    return tuple(product(name) for name in products())


def sold_gigabytes(gpu: Gpu) -> int:
    """The memory in GB by which the GPU is sold; of a slice or a GPU with other memory, what a process sees."""
    row = products().get(gpu.name)
    sold: int | None = row["marketing_gb"] if row else None
    return sold or round(gpu.memory_high / (1 << 30))


def slice_of(gpu: Gpu, profile: str) -> Gpu | None:
    """The MIG slice `profile` ("1g.10gb", "1g.10gb.me") of a GPU, None if the GPU has no such slice."""
    profile_name = profile.lower().replace("+", ".")
    for item in products().get(gpu.name, {}).get("mig", ()):
        if item["profile"] == profile_name:
            return replace(
                gpu,
                name=f"{gpu.name} MIG {profile_name}",
                memory_likely=None,
                memory=item["memory"],
                memory_high=item["memory_high"],
                labels=tuple(f"{label}-MIG-{profile_name}" for label in gpu.labels),
                mig=profile_name,
            )
    return None


def slices(profile: str, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """The slices of a MIG profile on those whole GPUs that have it."""
    return tuple(part for gpu in gpus if gpu.mig is None and (part := slice_of(gpu, profile)))


@lru_cache(512)
def whole_name(name: str) -> str:
    """The table's name of a GPU, or of the GPU that a slice or a compute partition is a part of."""
    if name in products():
        return name
    return max((product for product in products() if name.startswith(f"{product} ")), key=len, default=name)


def partition_of(gpu: Gpu, mode: str, memory_mode: str = "nps1") -> Gpu | None:
    """An MI300-class GPU in compute-partition `mode`: with NPS1 each part still sees the whole memory. None if the GPU
    has no such mode."""
    size = products().get(gpu.name, {}).get("partitions", {}).get(mode)
    if size is None or mode == "spx":
        return gpu if size is not None else None
    high = gpu.memory_high if memory_mode == "nps1" else size
    return replace(gpu, name=f"{gpu.name} {mode.upper()}").with_memory(min(size, gpu.memory), high)
