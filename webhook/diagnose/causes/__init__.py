"""Every cause that is known, one file a plane."""

from __future__ import annotations

from collections.abc import Mapping

from webhook.diagnose.cause import Cause
from webhook.diagnose.causes import cluster, config, gpu, host, network, storage

CAUSES: Mapping[str, Cause] = {
    cause.id: cause for plane in (gpu, host, config, network, storage, cluster) for cause in plane.CAUSES
}
