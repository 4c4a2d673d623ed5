"""What can't be right of GPUs, MIG profiles and machine types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from statistics import median
from typing import Any

from scripts.facts.table import Entry

CARD = (0.85, 1.01)
"""GiB that a process sees, of the GB that the maker sells."""
SEEN = (0.8, 1.02)
"""The same of all observed values: older drivers and ECC leave less."""
HALVES = ("per GCD", "per tile", "Strix Halo", "310P3")
"""Products of which one device is a part, or a multiple, of the memory that is sold."""
TWO_SIZES = ("NVIDIA H100 64GB / 96GB SXM (HPC custom)",)
"""A GPU whose name has two sizes."""
BF16 = 8.0
"""The least compute capability with bfloat16 in hardware (CUDA programming guide, "Arithmetic Instructions")."""
SLICE = (0.88, 1.0)
"""GiB of a MIG profile, of the GB in its name."""
SLICES = 7
"""Compute slices of a GPU (NVIDIA MIG user guide)."""
NOT_PLANNED = ("Qualcomm AI100",)
"""Accelerators of machine types that are in no table of GPUs: vLLM's memory is not planned for them."""
COUNTS = (0, 1, 2, 4, 8, 16)
"""GPUs of one machine, up to a2-megagpu-16g."""
INFERENTIA = ("inf2.24xlarge", "inf2.48xlarge")
"""Machine types with 6 and 12 devices."""
HOST = (0.4, 40.0)
"""GiB of a machine's memory for each GB of its GPUs: g5g.xlarge has 0.5, Standard_NV36adms_A10_v5 36.7."""
LABEL = (0.85, 1.02)
"""MiB of a node's label, of the memory that is sold."""
IN_NAME = (r"(\d+)[gt](?:-nolssd|-metal)?$", r"gpu_(\d+)x_", r"BM\.GPU\..*\.(\d+)$", r"-(\d+)-\d+G$", r"(?:^|-)(\d+)x",
           r"x(\d+)-\d+gb$", r"_(\d+)gpu-")  # fmt: skip
"""Where a machine type's name has the number of its GPUs: of GCP, Lambda, OCI, Scaleway, CoreWeave, DigitalOcean and
Nebius."""
RAM = (0.6, 1.7)
"""Host memory for each unit of a machine type's size, of the median in its family: 1.64 in
Standard_NC24lds_xl_RTXPRO6000BSE_v6."""
ALIKE = 4
"""Families of AWS that have a size; most have the same number of GPUs in it."""
UNLIKE = ("g5g.16xlarge", "p2.16xlarge", "p2.8xlarge", "p3.16xlarge", "p3.8xlarge")
"""AWS types whose size has another number of GPUs in all other families."""


def gpu_problems(row: Mapping[str, Any]) -> Iterator[str]:
    """Whether a GPU's memory is what is sold, and its capability that of its architecture."""
    mib, gb, label = row["cuda_mib"], row["marketing_gb"], row.get("nvidia_smi_mib")
    whole = not any(part in row["name"] for part in HALVES)
    if whole and not CARD[0] <= mib / (gb * 1024) <= CARD[1]:
        yield f"cuda_mib {mib:,}, expected {CARD[0]} to {CARD[1]} of {gb} GB"
    if whole and label and not CARD[0] <= label / (gb * 1024) <= CARD[1]:
        yield f"nvidia_smi_mib {label:,}, expected {CARD[0]} to {CARD[1]} of {gb} GB"
    if label and mib > label * 1.001:
        yield f"cuda_mib {mib:,}, expected at most nvidia_smi_mib {label:,}"
    for seen in row["seen"]:
        if whole and not SEEN[0] <= seen["mib"] / (gb * 1024) <= SEEN[1]:
            yield f"seen {seen['mib']:,} MiB, expected {SEEN[0]} to {SEEN[1]} of {gb} GB"
    by_smi, by_label = row["names"].get("smi", []), row["names"].get("gfd")
    if by_label is not None and not {name.replace(" ", "-") for name in by_smi} & {*by_label}:
        yield f"names.gfd {by_label!r:.60}, expected a name of names.smi with '-' for each space"
    named = re.search(r"(\d+)\s?GB", row["name"])
    if named and int(named[1]) != gb and row["name"] not in TWO_SIZES:
        yield f"marketing_gb {gb}, expected {named[1]} as in its name"
    capability = row.get("compute_capability")
    if (row["vendor"] == "nvidia") != (capability is not None):
        yield f"vendor {row['vendor']}, compute_capability {capability}: NVIDIA's GPUs have one, and no others"
    elif capability is not None and row["bf16"] != (float(capability) >= BF16):
        yield f"bf16 {row['bf16']}, expected that of compute capability {capability}"


def capability_problems(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """(GPU, why): one whose compute capability no other of its architecture shares, where the others agree."""
    by_architecture: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if "compute_capability" in row:
            found = by_architecture.setdefault(row["architecture"], {})
            found.setdefault(row["compute_capability"].partition(".")[0], []).append(row["name"])
    for architecture, majors in by_architecture.items():
        for major, names in majors.items():
            others = [other for other in majors if other != major]
            if len(names) == 1 and len(others) == 1 and len(majors[others[0]]) > 1:
                yield names[0], f"compute capability {major}.x, expected {others[0]}.x as all others of {architecture}"


def mig_problems(row: Mapping[str, Any], gpus: Mapping[str, Entry]) -> Iterator[str]:
    """Whether a profile's slices fit its GPU."""
    card = gpus.get(row["gpu"])
    if card is None:
        yield "no such GPU"
    elif row["mib"] * row["max"] > card["cuda_mib"] * 1.03:
        yield f"{row['max']} × {row['mib']:,} MiB, expected at most the GPU's {card['cuda_mib']:,}"
    slices, gb = (int(part) for part in re.findall(r"\d+", row["profile"])[:2])
    if slices * row["max"] > SLICES:
        yield f"max {row['max']}, expected at most {SLICES // slices}"
    if not SLICE[0] <= row["mib"] / (gb * 1024) <= SLICE[1]:
        yield f"mib {row['mib']:,}, expected {SLICE[0]} to {SLICE[1]} of the {gb} GB in its name"


def instance_problems(row: Mapping[str, Any], gpus: Mapping[str, Entry]) -> Iterator[str]:
    """Whether a machine type has GPUs of the table, and as many as its name and its memory say."""
    card = gpus.get(row["gpu"])
    if card is None and row["gpu"] not in NOT_PLANNED:
        yield f"gpu {row['gpu']!r}, expected one of gpus.jsonl"
    count, fraction, host = row.get("count"), row.get("fraction"), row.get("host_ram_gib")
    if count is not None and count not in COUNTS and row["type"] not in INFERENTIA:
        yield f"count {count!r}, expected one of {', '.join(map(str, COUNTS))}"
    for pattern in IN_NAME:
        if (named := re.search(pattern, row["type"])) and count != int(named[1]):
            yield f"count {count}, expected {named[1]} as in its name"
    if fraction is not None and count and count > 1:
        yield f"fraction {fraction} of a GPU, and count {count}: expected at most 1"
    if card is not None and count and host and not HOST[0] <= host / (count * card["marketing_gb"]) <= HOST[1]:
        yield f"host_ram_gib {host}, expected {HOST[0]} to {HOST[1]} GiB for each GB of {count} × {row['gpu']}"
    label = row.get("gpu_memory_label_mib")
    if card is not None and label:
        sold = card["marketing_gb"] * 1024 * (fraction or 1)
        if not LABEL[0] <= label / sold <= LABEL[1]:
            yield f"gpu_memory_label_mib {label:,}, expected {LABEL[0]} to {LABEL[1]} of {sold:,.0f}"
    allocatable = row.get("allocatable_memory")
    if allocatable and host and int(allocatable.removesuffix("Mi")) > host * 1024:
        yield f"allocatable_memory {allocatable}, expected less than host_ram_gib {host}"


def family(row: Mapping[str, Any]) -> tuple[str, int] | None:
    """A machine type's family and its size in it, by its name; None if its provider's names have no size."""
    name = row["type"]
    if row["provider"] == "aws":
        kind, _, size = name.partition(".")
        found = re.fullmatch(r"(\d*)xlarge", size)
        return (kind, int(found[1] or 1)) if found else None
    pattern = {"azure": r"\d+", "gcp": r"(?<=-)\d+(?=[gt]|-|$)"}.get(row["provider"])
    found = re.search(pattern, name) if pattern else None
    return (f"{name[: found.start()]}{name[found.end() :]}", int(found[0])) if found else None


def size_problems(rows: Iterable[Mapping[str, Any]], gpus: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    """(machine type, why): an AWS size whose number of GPUs no other family has. Or a type that contradicts its family:
    fewer GPUs than a smaller type, other GPUs, or another host memory for its size."""
    sizes: dict[str, dict[int, list[str]]] = {}
    families: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for row in rows:
        if (found := family(row)) is not None:
            families.setdefault(found[0], []).append((found[1], row))
        if row["provider"] == "aws" and _counted(row, gpus):
            sizes.setdefault(row["type"].partition(".")[2], {}).setdefault(row["count"], []).append(row["type"])
    for size, counts in sizes.items():
        for count, names in counts.items():
            if len(names) == 1 and names[0] not in UNLIKE and sum(map(len, counts.values())) >= ALIKE:
                others = " or ".join(str(other) for other in sorted(counts) if other != count)
                yield names[0], f"count {count}, expected {others} as the other types of the size {size}"
    for found_in in families.values():
        yield from _family_problems(sorted(found_in, key=lambda one: (one[0], one[1]["type"])), gpus)


def _family_problems(
    ordered: list[tuple[int, Mapping[str, Any]]], gpus: Mapping[str, Entry]
) -> Iterator[tuple[str, str]]:
    """The same of one family, smallest first."""
    common, _ = Counter(row["gpu"] for _, row in ordered).most_common(1)[0]
    memory = [row["host_ram_gib"] / size for size, row in ordered if row.get("host_ram_gib")]
    for size, row in ordered:
        if row["gpu"] != common:
            yield row["type"], f"gpu {row['gpu']!r}, expected {common!r} as the other types of its family"
        if row.get("host_ram_gib"):
            usual = median(memory) * size
            if not RAM[0] <= row["host_ram_gib"] / usual <= RAM[1]:
                yield row["type"], f"host_ram_gib {row['host_ram_gib']}, expected about {usual:,.0f} as in its family"
    counted = [row for _, row in ordered if row["provider"] == "azure" and _counted(row, gpus)]
    for smaller, larger in pairwise(counted):
        if larger["count"] < smaller["count"]:
            less = f"the {smaller['count']} of the smaller {smaller['type']}"
            yield larger["type"], f"count {larger['count']}, expected at least {less}"


def _counted(row: Mapping[str, Any], gpus: Mapping[str, Entry]) -> bool:
    """Whether a machine type has whole GPUs of NVIDIA or AMD."""
    maker = gpus.get(row["gpu"], {}).get("vendor")
    return bool(row.get("count")) and "fraction" not in row and maker in ("nvidia", "amd")
