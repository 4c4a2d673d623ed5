"""The accelerator resource that the container requests, its count, and the limits of software slices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.kube import quantity
from podfit.kube.snapshot import Snapshot
from podfit.kube.workload import Container, Workload
from podfit.vllm.gpu import claim
from podfit.vllm.gpu.name import by_name
from podfit.vllm.gpu.product import Gpu

GPU_RESOURCE = regex(
    r"nvidia\.com/(gpu|gpu\.shared|mig-[\w.-]+)|amd\.com/(gpu|[sdqc]px_nps\d)|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi"
    r"|google\.com/tpu|aws\.amazon\.com/(neuron|neuroncore|neurondevice)|huawei\.com/Ascend\w+(?<!memory)(?<!core)"
    r"|hami\.io/gpu|volcano\.sh/(vgpu-number|gpu-number)|aliyun\.com/(gpu|gpu-count|gpu-mem)|tencent\.com/vcuda-core"
    r"|tke\.cloud\.tencent\.com/qgpu-core|cambricon\.com/v?mlu\w*|hygon\.com/dcu(num)?|metax-tech\.com/s?gpu"
    r"|mthreads\.com/v?gpu|iluvatar\.ai/\S*gpu|kunlunxin\.com/v?xpu|birentech\.com/gpu|enflame\.com/(gcu|drs-gcu)"
    r"|qualcomm\.com/qaic|furiosa\.ai/\w+|rebellions\.ai/\w+|cloud-tpus\.google\.com/\S+"
)
"""Resources for an accelerator or a part of one, each with its device plugin."""
FRACTIONS = {"aliyun.com/gpu-mem", "tencent.com/vcuda-core", "tke.cloud.tencent.com/qgpu-core"}
"""Resources that count something other than devices: the container sees one GPU."""
LIMITS_IN_MIB = ("nvidia.com/gpumem", "hami.io/gpumem", "volcano.sh/vgpu-memory", "amd.com/gpumem")
"""Memory of each device, in MiB, that HAMi's library makes the process see (HAMi docs, Volcano vGPU)."""
LIMITS_IN_PERCENT = ("nvidia.com/gpumem-percentage", "hami.io/gpumem-percentage", "volcano.sh/vgpu-memory-percentage")
ONE_BY_DEFAULT = (*LIMITS_IN_MIB, *LIMITS_IN_PERCENT, "nvidia.com/gpucores", "hami.io/gpucores",
                  "volcano.sh/vgpu-cores")  # fmt: skip
"""If only these are requested, HAMi's webhook adds one device (HAMi pkg/device/nvidia/device.go, defaultGPUNum)."""
ISOLATED = {"aliyun.com/gpu-mem": ("ack.node.gpu.schedule", "cgpu")}
"""Memory limits that only nodes with this label enforce (ACK's cGPU); elsewhere the process sees the whole GPU."""
_SLICING = frozenset((*LIMITS_IN_MIB, *LIMITS_IN_PERCENT, *ISOLATED))
FRACTION_ANNOTATIONS = ("gpu-fraction", "gpu-memory", "runai/gpu-fraction", "runai/gpu-memory")
"""Fractions of KAI and Run:ai: the Pod is promised a part of a GPU but sees all of it."""
FRACTION_DEVICES = "gpu-fraction-num-devices"
FRACTION_CONTAINER = "gpu-fraction-container-name"
CLAIM = "DRA claim"


def requests(workload: Workload, container: Container) -> list[tuple[str, int | None]]:
    """Every accelerator resource that the container requests, and how many of each (None: unknown)."""
    entries = container.resources
    if not entries:
        return list(_fraction_annotations(workload, container))
    items: list[tuple[str, int | None]] = [
        (name, 1 if name in FRACTIONS else count)
        for name, value in entries.items()
        if "/" in name and _is_known(name) and (count := _device_count(value)) != 0
    ]
    if "aliyun.com/gpu-mem" in entries and any(name == "aliyun.com/gpu-mem" for name, _ in items):
        # gpu-count is the number of GPUs over which it is spread
        cards = next((count for name, count in items if name == "aliyun.com/gpu-count"), 1)
        items = [("aliyun.com/gpu-mem", cards)]
    if not items:
        items += [(name, 1) for name in ONE_BY_DEFAULT if _device_count(entries.get(name))][:1]
    return items or list(_fraction_annotations(workload, container))


def _is_known(name: str) -> bool:
    """True if the resource stands for an accelerator by the table, or is named after a GPU model."""
    return GPU_RESOURCE.fullmatch(name) is not None or bool(named_product(name))


_VENDOR = regex(r"(n[vi]{1,2}[diav]{2,5}|amd)(\.[a-z]+)?", re.IGNORECASE)
_NEARLY = regex(r"gpus?|gup|pgu", re.IGNORECASE)
_UNQUALIFIED = regex(r"(?:(nvidia|amd)(?:[._-]com)?[._-])?gpus?", re.IGNORECASE)
_ACCELERATOR = regex(r"gpu|[nxtd]pu\b|mig-|accelerator|resource\.kubernetes\.io", re.IGNORECASE)


def misspelled_resource(entries: Mapping[str, object]) -> tuple[str, str] | None:
    """A resource that no device plugin has, and the intended one: "nvidia/gpu" or "nvidia.com/gpus" for
    "nvidia.com/gpu". No other names: a plugin may use any name for its resources ("nvidia.com/pgpu", "gpu-10gb")."""
    for name in entries:
        if GPU_RESOURCE.fullmatch(name):
            continue
        vendor, slash, what = name.partition("/")
        if not slash and (unqualified := _UNQUALIFIED.fullmatch(name)):
            return name, f"{(unqualified[1] or 'nvidia').lower()}.com/gpu"
        if slash and _NEARLY.fullmatch(what) and (near := _VENDOR.fullmatch(vendor)):
            return name, "amd.com/gpu" if near[1].lower() == "amd" else "nvidia.com/gpu"
    return None


def is_one(resource: str) -> bool:
    """True if the resource stands for an accelerator, whatever its value."""
    return GPU_RESOURCE.fullmatch(resource) is not None


def may_be_one(entries: Mapping[str, object]) -> bool:
    """True if a resource of the container looks like an accelerator that the table does not know, or like a claim's."""
    return any(
        "/" in name and _ACCELERATOR.search(name) and not GPU_RESOURCE.fullmatch(name) and _device_count(value) != 0
        for name, value in entries.items()
    )


def named_product(resource: str) -> tuple[Gpu, ...]:
    """The GPU model after which a device plugin's configuration names a resource ("nvidia.com/a100",
    "nvidia.com/gpu-l4"; k8s-device-plugin's `resources.gpus[].name`)."""
    vendor, _, name = resource.partition(".com/")
    return (
        by_name(name.removeprefix("gpu-"))
        if vendor in ("nvidia", "amd") and not GPU_RESOURCE.fullmatch(resource)
        else ()
    )


def _fraction_annotations(workload: Workload, container: Container) -> Iterator[tuple[str, int | None]]:
    """The annotation that requests a fraction of a GPU, and how many GPUs."""
    if not workload.annotations:
        return
    only = workload.annotations.get(FRACTION_CONTAINER)
    if only not in (None, container.name):
        return
    for name in FRACTION_ANNOTATIONS:
        if name in workload.annotations:
            yield name, _device_count(workload.annotations.get(FRACTION_DEVICES, "1"))
            return


def requested_resource(
    workload: Workload, container: Container, snapshot: Snapshot | None = None
) -> tuple[str, int | None] | None:
    """The accelerator resource that the container requests, and how many (None: unknown); None: it requests none.

    Several resources are joined into one, with an unknown count: CUDA sees either whole GPUs or one MIG slice.
    """
    return device_request(workload, container, snapshot).resource_and_count


class DeviceRequest(NamedTuple):
    """The devices that a container requests, by resources and by claims."""

    resources: Sequence[tuple[str, int | None]]
    claimed: claim.Claim | None

    @property
    def resource_and_count(self) -> tuple[str, int | None] | None:
        """Both joined, as `requested_resource` returns them."""
        items = self.resources
        if self.claimed is not None:
            items = [*items, (CLAIM, self.claimed.count)]
        if len(items) > 1:
            return " + ".join(name for name, _ in items), None
        return items[0] if items else None


def device_request(workload: Workload, container: Container, snapshot: Snapshot | None = None) -> DeviceRequest:
    """The resources and the claims of a container."""
    return DeviceRequest(requests(workload, container), claim.find(workload, container, snapshot))


def _device_count(value: object) -> int | None:
    """How many devices; None for a template's placeholder, or if it is not a whole number."""
    exact = quantity.try_parse(value)
    return exact if exact is not None and exact >= 0 and "." not in str(value) else None


def shared_by_resource(resource: str | None, workload: Workload) -> bool:
    """True if the resource's name or an annotation says that other processes may use the GPU."""
    if resource is None:
        return False
    fractional = resource in FRACTIONS or resource in FRACTION_ANNOTATIONS
    return resource.endswith(".shared") or fractional or workload.annotations.get("nvidia.com/vgpu-mode") == "mps"


def with_hami_limits(gpus: tuple[Gpu, ...], entries: Mapping[str, object], selector: object = None) -> tuple[Gpu, ...]:
    """HAMi's slices: the process sees the limit instead of the GPU's memory.

    `selector`: the Pod's nodeSelector, which decides whether memory limits are enforced (`ISOLATED`).
    """
    if _SLICING.isdisjoint(entries):
        return gpus
    for name in LIMITS_IN_MIB:
        if (mib := quantity.try_parse(entries.get(name))) and mib > 0:
            return tuple(gpu.with_memory(min(gpu.memory, mib << 20), min(gpu.memory_high, mib << 20)) for gpu in gpus)
    for name in LIMITS_IN_PERCENT:
        if (percent := quantity.try_parse(entries.get(name))) and 0 < percent < 100:
            return tuple(gpu.with_memory(gpu.memory * percent // 100, gpu.memory_high * percent // 100) for gpu in gpus)
    for name, (key, value) in ISOLATED.items():
        size = quantity.try_parse(entries.get(name))
        if size and size > 0 and isinstance(selector, Mapping) and selector.get(key) == value:
            size <<= 20 if size > 1024 else 30  # the plugin's --memory-unit: GiB by default, or MiB
            return tuple(gpu.with_memory(min(gpu.memory, size), min(gpu.memory_high, size)) for gpu in gpus)
    return gpus
