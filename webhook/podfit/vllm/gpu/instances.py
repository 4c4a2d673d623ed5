"""Cloud machine types: their GPUs, and which machine types meet a set of requirements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from podfit.base import data
from podfit.vllm.gpu.product import Gpu, product, products
from podfit.vllm.gpu.requirement import NodeRequirement

TYPE = (
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "cloud.google.com/machine-type",
)
FAMILY = ("karpenter.k8s.aws/instance-family", "eks.amazonaws.com/instance-family", "cloud.google.com/machine-family")
_PREFIXES = ("karpenter.k8s.aws/instance-", "eks.amazonaws.com/instance-")
"""Prefixes of Karpenter's labels, and of EKS Auto Mode's."""
_PARTS = ("family", "category", "generation", "size", "gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory",
          "accelerator-name", "accelerator-manufacturer", "accelerator-count")  # fmt: skip
"""Karpenter's labels about accelerators; sizes of processors and memory are left out."""
_TELLING = {"family", "category", "gpu-name", "accelerator-name"}
"""Without one of these labels, requirements match far too many machine types."""


def of_types(names: Iterable[str]) -> tuple[Gpu, ...]:
    """The GPUs of cloud machine types, each once; a fraction of a GPU is a GPU with that much memory. Unknown types and
    GPUs are left out."""
    entries: dict[str, Gpu] = {}
    for name in names:
        row = _row(name)
        if row is None or row["gpu"] not in products():
            continue
        gpu = product(row["gpu"])
        if fraction := row.get("fraction"):
            part = replace(gpu, name=f"{gpu.name} (1/{round(1 / fraction)})")
            gpu = part.with_memory(int(gpu.memory * fraction * LEAST_OF_FRACTION), int(gpu.memory_high * fraction))
        entries[gpu.name] = gpu
    return tuple(entries.values())


LEAST_OF_FRACTION = 0.95
"""The share of a fraction of a GPU that a process sees at least, because the driver keeps some (assumed)."""


def of_family(name: str) -> list[str]:
    """The machine types of a family: `g6` → g6.xlarge …, `a3` → a3-highgpu-8g …"""
    return [text for text in _table() if re.match(re.escape(name) + r"[.-]", text)]


def count_of(name: str) -> int | None:
    """The number of whole GPUs of a machine type; None if unknown, or if it has a fraction of one."""
    row = _row(name)
    return int(row["count"]) if row and not row.get("fraction") else None


class Size(NamedTuple):
    """The GPUs and the host memory of a machine type."""

    gpus: int
    memory: int
    """Bytes of host memory; 0 if unknown."""


def size_of(name: str) -> Size | None:
    """The whole GPUs and the host memory of a machine type; None if unknown, or if it has a fraction of a GPU."""
    row = _row(name)
    if row is None or row.get("fraction") or "count" not in row:
        return None
    return Size(int(row["count"]), int(row.get("host_ram_gib") or 0) << 30)


def smallest_machine_type(name: str, gpus: Sequence[Gpu], count: int) -> str | None:
    """The smallest machine type of the same cloud as `name`, with at least `count` of these GPUs: by GPUs, then by host
    memory. None if the tables have none."""
    present = _row(name)
    if present is None:
        return None
    names = {gpu.name for gpu in gpus}
    candidates = [
        machine_type
        for machine_type, row in _table().items()
        if row["provider"] == present["provider"] and row["gpu"] in names and not row.get("fraction")
        if row["count"] >= count
    ]

    def size(machine_type: str) -> tuple[int, int, str]:
        """Sort key: (GPUs, GiB of host memory, the name)."""
        row = _table()[machine_type]
        return row["count"], row.get("host_ram_gib") or 0, machine_type

    return min(candidates, key=size, default=None)


def left_by(demands: Sequence[NodeRequirement]) -> tuple[Gpu, ...]:
    """The GPUs of AWS's machine types that meet Karpenter's labels: `instance-category In [g]`, `instance-generation Gt
    5` …

    Empty if none of the labels identifies the kind of accelerator (`_TELLING`).
    """
    items = [(part, requirement) for requirement in demands if (part := _label_part(requirement.key)) is not None]
    if not _TELLING & {part for part, requirement in items if requirement.operator == "In"}:
        return ()
    kept = [
        name
        for name, labels in _labels().items()
        if all(_requirement_holds(requirement, labels.get(part)) for part, requirement in items)
    ]
    return of_types(kept)


@cache
def rented() -> frozenset[str]:
    """The names of the GPU models that cloud machine types have as whole GPUs."""
    return frozenset(row["gpu"] for row in _table().values() if not row.get("fraction"))


def is_telling(key: str) -> bool:
    """True if it is a label of Karpenter's about accelerators."""
    return key.startswith(_PREFIXES) and _label_part(key) is not None


def _requirement_holds(requirement: NodeRequirement, value: str | None) -> bool:
    """True if a value meets a node's requirement; None: the label is absent."""
    return requirement.holds({requirement.key: value} if value is not None else {})


def _label_part(key: str) -> str | None:
    """The part of a machine type that a cloud's or Karpenter's label names; None for other labels."""
    for prefix in _PREFIXES:
        if key.startswith(prefix):
            part = key.removeprefix(prefix)
            return part if part in _PARTS else None
    return None


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    """Machine type → its row in the table."""
    entries: Mapping[str, Mapping[str, Any]] = data.load("instances")["instance_types"]
    return entries


def _row(name: str) -> Mapping[str, Any] | None:
    """The row of a machine type, in any case; None if the table has none."""
    return _table().get(_in_any_case().get(name.lower(), name))


@cache
def _in_any_case() -> Mapping[str, str]:
    """Lower-case machine type → the type as its cloud writes it."""
    return {name.lower(): name for name in _table()}


@cache
def _labels() -> Mapping[str, Mapping[str, str]]:
    """AWS's machine types → the labels that Karpenter gives their nodes (karpenter-provider-aws
    website/content/en/preview/reference/instance-types.md)."""
    entries = {}
    for name, row in _table().items():
        if row["provider"] != "aws" or row["gpu"] not in products():
            continue
        family, _, size = name.partition(".")
        category_and_generation = re.fullmatch(r"([a-z]+)(\d+)[^.]*", family)  # g6e: g, 6
        if category_and_generation is None:
            continue
        names = products()[row["gpu"]]["names"].get("karpenter", ())
        maker = products()[row["gpu"]]["vendor"]
        device = "accelerator" if maker in ("aws", "qualcomm") else "gpu"
        labels = {
            "family": family,
            "category": category_and_generation[1],
            "generation": category_and_generation[2],
            "size": size,
            f"{device}-name": names[0] if names else family,
            f"{device}-manufacturer": maker,
            f"{device}-count": str(row["count"]),
        }
        if device == "gpu" and row.get("gpu_memory_label_mib"):
            labels["gpu-memory"] = str(row["gpu_memory_label_mib"])
        entries[name] = labels
    return entries
