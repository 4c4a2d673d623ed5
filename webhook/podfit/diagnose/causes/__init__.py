"""Every cause that is known: a file for each plane, and three for what is configured."""

from __future__ import annotations

from collections.abc import Mapping

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

_ROOMS = (install, gpu_memory, gpu, distributed, host, arguments, model, container, network, storage, cluster, serving)
"""In the order in which they are looked through: the first signature that a line fits counts."""
CAUSES: Mapping[str, Cause] = {cause.id: cause for room in _ROOMS for cause in room.CAUSES}
