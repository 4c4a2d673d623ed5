"""The GPUs of the table that a container may get if nothing names its GPU.

The maker of the requested devices, and what the object requires of its node, exclude the others."""

from __future__ import annotations

from podfit.kube.workload import Container, Workload
from podfit.vllm.gpu import labels, maker
from podfit.vllm.gpu.product import Gpu, all_products
from podfit.vllm.gpu.resource import DeviceRequest, with_hami_limits

PLANNED_MAKERS = frozenset({"nvidia", "amd"})
"""Makers whose GPU memory podfit plans."""


def of_table(
    workload: Workload, container: Container, request: DeviceRequest, build: str | None = None
) -> tuple[Gpu, ...]:
    """Whole GPUs of the table; none for devices of a maker that is not planned.

    `request`: the devices that the container requests. `build`: the maker for whose GPUs the image is built."""
    claimed = request.claimed
    if claimed is not None and claimed.possible:
        return claimed.possible
    resource, _ = request.resource_and_count or (None, None)
    vendor = maker.of_resources(resource, container.resources) or build or "nvidia"
    if vendor not in PLANNED_MAKERS:
        return ()
    gpus = labels.left_by_requirements(workload, tuple(gpu for gpu in all_products() if gpu.vendor == vendor))
    return with_hami_limits(gpus, container.resources, workload.spec.get("nodeSelector"))
