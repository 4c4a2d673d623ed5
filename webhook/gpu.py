"""Pod spec + facts → Accelerator: which GPU, how many of them the container gets, what memory a process sees."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A product of the table, or a slice of one."""

    name: str
    """The table's name ("NVIDIA A100 80GB SXM4"); for a MIG slice "… MIG 1g.10gb"."""
    vendor: str
    """"nvidia", "amd", "intel", "google" …"""
    architecture: str | None
    compute_capability: tuple[int, int] | None
    memory: int
    """Bytes a process sees in total (`cudaMemGetInfo`): the smallest trustworthy value ever seen, the safe one."""
    memory_high: int
    """The largest total ever seen for this product: what a denial must reckon with."""
    supports_bf16: bool | None
    supports_fp8: bool | None
    nvlink: bool | None
    labels: tuple[str, ...]
    """Values of nvidia.com/gpu.product for this product, for suggestions."""
    mig: str | None = None
    unified_memory: bool = False


@dataclass(frozen=True)
class Accelerator:
    """What a container gets."""

    gpus: tuple[Gpu, ...]
    """The product; several where the name is ambiguous (an `a100` has 40 or 80 GB): each is planned."""
    count: int | None
    """GPUs that the container requests; None where that can't be known (a DRA claim, an operator decides)."""
    resource: str | None = None
    """The resource asked for ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb")."""
    shared: bool = False
    """Time-sliced, MPS or a fraction: other processes may use the same card."""

    @property
    def name(self) -> str:
        """All names, for people."""
        return " or ".join(gpu.name for gpu in self.gpus)
