"""Every known cause, in a module for each subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType

from podfit.diagnose.cause import Cause
from podfit.diagnose.causes import (
    arguments,
    cluster,
    container,
    distributed,
    gpu,
    gpu_memory,
    host,
    install,
    model,
    network,
    serving,
    storage,
)
from podfit.rules.rule import Plane

_PLANES: Mapping[ModuleType, Plane] = {
    install: "config", gpu_memory: "gpu", gpu: "gpu", distributed: "network", host: "host", arguments: "config",
    model: "config", container: "config", network: "network", storage: "storage", cluster: "cluster", serving: "config",
}  # fmt: skip
"""Each file with the plane of its causes, in the order in which they are looked through: the first signature that a
line fits counts."""
CAUSES: Mapping[str, Cause] = {
    cause.id: replace(cause, plane=cause.plane or plane) for file, plane in _PLANES.items() for cause in file.CAUSES
}
