"""What the container asks for: the resource, how many, and the limits that a software slice sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from webhook import quantity
from webhook.gpu.product import Gpu
from webhook.workload import Container, Workload

WHOLE = re.compile(
    r"nvidia\.com/(gpu|gpu\.shared|mig-[\w.-]+)|amd\.com/(gpu|[sdqc]px_nps\d)|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi"
    r"|google\.com/tpu|aws\.amazon\.com/(neuron|neuroncore|neurondevice)|huawei\.com/Ascend\w+(?<!memory)(?<!core)"
    r"|hami\.io/gpu|volcano\.sh/(vgpu-number|gpu-number)|aliyun\.com/(gpu|gpu-count|gpu-mem)|tencent\.com/vcuda-core"
    r"|tke\.cloud\.tencent\.com/qgpu-core|cambricon\.com/v?mlu\w*|hygon\.com/dcu(num)?|metax-tech\.com/s?gpu"
    r"|mthreads\.com/v?gpu|iluvatar\.ai/\S*gpu|kunlunxin\.com/v?xpu|birentech\.com/gpu|enflame\.com/(gcu|drs-gcu)"
    r"|qualcomm\.com/qaic|furiosa\.ai/\w+|rebellions\.ai/\w+|cloud-tpus\.google\.com/\S+"
)
"""Resources that stand for an accelerator or a part of one, each with its device plugin."""
FRACTIONS = {"aliyun.com/gpu-mem", "tencent.com/vcuda-core", "tke.cloud.tencent.com/qgpu-core"}
"""Resources that count something else than devices: the container sees one card."""
LIMITS_IN_MIB = ("nvidia.com/gpumem", "hami.io/gpumem", "volcano.sh/vgpu-memory", "amd.com/gpumem")
"""Memory of each device, in MiB, that HAMi's library makes the process see (HAMi docs, Volcano vGPU)."""
LIMITS_IN_PERCENT = ("nvidia.com/gpumem-percentage", "hami.io/gpumem-percentage", "volcano.sh/vgpu-memory-percentage")
FRACTION_ANNOTATIONS = ("gpu-fraction", "gpu-memory", "runai/gpu-fraction", "runai/gpu-memory")
"""KAI's and Run:ai's fractions: part of a card is promised, the whole of it is seen."""
CLAIM = "DRA claim"


def requested(workload: Workload, container: Container) -> tuple[str, int | None] | None:
    """The accelerator resource that the container asks for, and how many (None: can't be known); None: it asks none."""
    asked = resources_of(container)
    for name, value in asked.items():
        if WHOLE.fullmatch(name) and (count := _count(value)) != 0:
            return name, 1 if name in FRACTIONS else count
    resources = container.spec.get("resources")
    if isinstance(resources, Mapping) and resources.get("claims") and workload.spec.get("resourceClaims"):
        return CLAIM, None
    for name in FRACTION_ANNOTATIONS:
        if name in workload.annotations:
            return name, 1
    return None


def resources_of(container: Container) -> dict[str, object]:
    """Requests beneath limits: an extended resource needs its limit, and an absent request follows it."""
    resources = container.spec.get("resources")
    asked: dict[str, object] = {}
    for key in ("limits", "requests"):
        part = resources.get(key) if isinstance(resources, Mapping) else None
        for name, value in part.items() if isinstance(part, Mapping) else ():
            asked.setdefault(str(name), value)
    return asked


def _count(value: object) -> int | None:
    """How many devices; None for a template's hole, or what is no whole number."""
    exact = quantity.try_parse(value)
    return exact if exact is not None and exact >= 0 and "." not in str(value) else None


def shared_by_resource(resource: str | None, workload: Workload) -> bool:
    if resource is None:
        return False
    fractional = resource in FRACTIONS or resource in FRACTION_ANNOTATIONS
    return resource.endswith(".shared") or fractional or workload.annotations.get("nvidia.com/vgpu-mode") == "mps"


def limited(gpus: tuple[Gpu, ...], asked: Mapping[str, object]) -> tuple[Gpu, ...]:
    """HAMi's slices: the process sees the limit instead of the card's memory."""
    for name in LIMITS_IN_MIB:
        if (mib := quantity.try_parse(asked.get(name))) and mib > 0:
            return tuple(
                replace(gpu, memory=min(gpu.memory, mib << 20), memory_high=min(gpu.memory_high, mib << 20))
                for gpu in gpus
            )
    for name in LIMITS_IN_PERCENT:
        if (percent := quantity.try_parse(asked.get(name))) and 0 < percent < 100:
            return tuple(
                replace(gpu, memory=gpu.memory * percent // 100, memory_high=gpu.memory_high * percent // 100)
                for gpu in gpus
            )
    return gpus
