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
    """The GPUs of cloud machine types; a fraction of a GPU is a GPU with that much memory."""
    table, lower = _table(), _in_any_case()
    entries: dict[str, Gpu] = {}
    for name in names:
        row = table.get(lower.get(name.lower(), name))
        if row is None or row["gpu"] not in products():
            continue
        gpu = product(row["gpu"])
        if fraction := row.get("fraction"):
            part = f"{gpu.name} (1/{round(1 / fraction)})"
            gpu = replace(gpu, name=part).with_memory(
                int(gpu.memory * fraction * 0.95), int(gpu.memory_high * fraction)
            )
        entries[gpu.name] = gpu
    return tuple(entries.values())


def of_family(name: str) -> list[str]:
    """The machine types of a family: `g6` → g6.xlarge …, `a3` → a3-highgpu-8g …"""
    return [text for text in _table() if re.match(re.escape(name) + r"[.-]", text)]


def count_of(name: str) -> int | None:
    """The whole GPUs of a machine type; None if unknown, or if it has a fraction of one."""
    row = _table().get(_in_any_case().get(name.lower(), name))
    return int(row["count"]) if row and not row.get("fraction") else None


class Size(NamedTuple):
    """The GPUs and the host memory of a machine type."""

    gpus: int
    memory: int
    """Bytes of host memory; 0 if unknown."""


def size_of(name: str) -> Size | None:
    """The whole GPUs and the host memory of a machine type; None if unknown."""
    row = _table().get(_in_any_case().get(name.lower(), name))
    if row is None or row.get("fraction") or "count" not in row:
        return None
    return Size(int(row["count"]), int(row.get("host_ram_gib") or 0) << 30)


def smallest_machine_type(name: str, gpus: Sequence[Gpu], count: int) -> str | None:
    """The smallest machine type of the same cloud as `name`, with at least `count` of these GPUs; None if the tables
    have none."""
    row = _table().get(_in_any_case().get(name.lower(), name))
    names = {gpu.name for gpu in gpus}
    items = [
        (item["count"], item.get("host_ram_gib") or 0, other)
        for other, item in _table().items()
        if row and item["provider"] == row["provider"] and item["gpu"] in names and not item.get("fraction")
        if item["count"] >= count
    ]
    return min(items)[2] if items else None


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
    part = next((key.removeprefix(prefix) for prefix in _PREFIXES if key.startswith(prefix)), "")
    return part if part in _PARTS else None


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    """Machine type → its row in the table."""
    entries: Mapping[str, Mapping[str, Any]] = data.load("instances")["instance_types"]
    return entries


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
        split = re.fullmatch(r"([a-z]+)(\d+)[^.]*", name.partition(".")[0]) if row["provider"] == "aws" else None
        if split is None or row["gpu"] not in products():
            continue
        family, _, size = name.partition(".")
        names = products()[row["gpu"]]["names"]
        maker = products()[row["gpu"]]["vendor"]
        device = "accelerator" if maker in ("aws", "qualcomm") else "gpu"
        labels = {
            "family": family,
            "category": split[1],
            "generation": split[2],
            "size": size,
            f"{device}-name": next(iter(names.get("karpenter", ())), family),
            f"{device}-manufacturer": maker,
            f"{device}-count": str(row["count"]),
        }
        if device == "gpu" and row.get("gpu_memory_label_mib"):
            labels["gpu-memory"] = str(row["gpu_memory_label_mib"])
        entries[name] = labels
    return entries
