"""webhook/podfit/data/gpus.json and instances.json: GPUs, their names and memory; machine types of clouds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.facts.table import FACTS, Entry, entries, short

MIB = 1 << 20
ELSEWHERE = re.compile(r"windows|wddm|wsl|ecc o|outlier|station|assumed", re.IGNORECASE)
"""Conditions under which a GPU shows another total than in a Linux container with its usual settings."""


def gpus(folder: Path = FACTS) -> dict[str, Any]:
    """GPUs with their names by the place that uses them, memory in bytes, MIG profiles and partitions."""
    profiles: dict[str, list[Entry]] = {}
    for profile in entries("mig", folder):
        profiles.setdefault(profile["gpu"], []).append(profile)
    found = entries("gpus", folder)
    owners: dict[str, set[str]] = {}
    for row in found:
        for names in row["names"].values():
            for name in names:
                owners.setdefault(name.lower(), set()).add(row["name"])
    return {
        "products": [_gpu(row, profiles.get(row["name"], [])) for row in found],
        "ambiguous": {name: sorted(who) for name, who in sorted(owners.items()) if len(who) > 1},
        "units": "bytes",
        "generated": max(row["date"] for row in found),
    }


def _likely(row: Mapping[str, Any]) -> int | None:
    """MiB: the middle of what drivers leave of the GPU's memory, if the least is more than 1 % below the most."""
    lowest: int = row["cuda_mib"]
    seen = [one["mib"] for one in _seen(row, "cuda") if not ELSEWHERE.search(one.get("condition", ""))]
    most = max([lowest, *(mib for mib in seen if mib <= lowest * 1.03)])
    return int(lowest + most) // 2 if most > lowest * 1.01 else None


def _seen(row: Mapping[str, Any], by: str) -> list[Entry]:
    return [one for one in row["seen"] if one["by"] == by]


def _gpu(row: Mapping[str, Any], profiles: list[Entry]) -> dict[str, Any]:
    printed = [
        one["mib"] for one in _seen(row, "nvidia-smi") if "label" not in one.get("condition", "")
    ]  # a cloud's label carries the marketing figure, which no process sees
    lowest = row["cuda_mib"]
    highest = max([lowest, *(one["mib"] for one in _seen(row, "cuda")), *printed, row.get("nvidia_smi_mib", 0)])
    capability = row.get("compute_capability")
    out = {
        "name": row["name"],
        "vendor": row["vendor"],
        "architecture": row.get("architecture"),
        "compute_capability": [int(part) for part in capability.split(".")] if capability else None,
        "memory": lowest * MIB,
        "memory_likely": likely * MIB if (likely := _likely(row)) else None,
        "memory_high": highest * MIB,
        "memory_label_mib": row.get("nvidia_smi_mib"),
        "marketing_gb": row.get("marketing_gb"),
        "bf16": row.get("bf16"),
        "nvlink": row.get("nvlink"),
        "unified_memory": row["unified_memory"],
        "names": row["names"],
        "mig": [_mig(one, highest) for one in profiles],
        "partitions": {mode: mib * MIB for mode, mib in row.get("partitions", {}).items()},
        "confidence": row["confidence"],
        "source": short(row["source"][0]),
    }
    return {key: value for key, value in out.items() if value not in (None, [], {})}


def _mig(profile: Mapping[str, Any], card_mib: int) -> dict[str, Any]:
    """The label's MiB are up to 1.5 % above what CUDA sees; the name's GB are the slice rounded up."""
    mib = profile["mib"]
    gb = re.search(r"\.(\d+)gb", profile["profile"])
    ceiling = min(int(gb[1]) * 1024, card_mib) if gb else card_mib
    return {
        "profile": profile["profile"],
        "memory": (mib if profile["by"] == "cuda" else int(mib * 0.985)) * MIB,
        "memory_high": max(mib, ceiling) * MIB,
        "max": profile["max"],
    }


def instances(folder: Path = FACTS) -> dict[str, Any]:
    """Cloud machine type → GPU, how many, host memory and what a node allots of it."""
    kept = ("gpu", "count", "fraction", "host_ram_gib", "allocatable_memory", "gpu_memory_label_mib", "provider",
            "confidence")  # fmt: skip
    return {
        "instance_types": {
            row["type"]: {key: row[key] for key in kept if key in row} | {"source": short(row["source"])}
            for row in sorted(entries("instances", folder), key=lambda row: str(row["type"]))
        }
    }
