"""Pods whose place is decided later than the manifest says."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.rules.engine import Engine

KUEUE = "kueue.x-k8s.io/queue-name"


def waits(engine: Engine) -> bool:
    """Scheduling gates hold the Pod back, or Kueue admits it and adds a flavour's node labels and tolerations then."""
    own = engine.workload.object.get("metadata")
    queued = any(
        isinstance(one, Mapping) and KUEUE in (one.get("labels") or {}) for one in (own, engine.workload.metadata)
    )
    return queued or bool(engine.pod("schedulingGates"))
