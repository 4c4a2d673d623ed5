from __future__ import annotations

from collections.abc import Iterator

from podfit.kube.companions import replicas
from podfit.kube.path import FieldPath
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.rules.storage import _cache

_ONE_NODE = {"ReadWriteOnce", "ReadWriteOncePod"}
"""Access modes of volumes that one node, or one Pod, can attach."""


class ReadWriteOnceWithReplicas(Rule):
    """Several Pods mount one claim that only one node can attach.

    A ReadWriteOnce volume is attached to one node at a time. The Pods that land on other nodes wait in
    ContainerCreating forever:

        Multi-Attach error for volume "pvc-…": Volume is already used by pod(s) llama-70b-…
        FailedAttachVolume / Unable to attach or mount volumes: timed out waiting for the condition

    Use a claim with ReadWriteMany (or ReadOnlyMany, filled beforehand), or a StatefulSet whose volumeClaimTemplates
    give each Pod its own claim.
    """

    plane = "storage"
    event = "the second Pod waits for a volume that another node holds"
    of_vllm = False
    never_denies = "Pods that share a node may share its volume"
    where = frozenset({"check", "scan"})

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: Pods that share a node may share its volume. None for a single Pod, and for a claim whose access
        modes are unknown or allow several nodes."""
        pods = _pods(engine)
        if pods is None or pods < 2 or engine.container.init:
            return
        for volume in _cache.volumes(engine):
            value = FieldPath(("spec", "accessModes")).get(volume.spec) if volume.known else None
            modes = set(map(str, value)) if isinstance(value, list) else set()
            if volume.kind != "claim" or not modes or not modes <= _ONE_NODE:
                continue
            one_pod = modes == {"ReadWriteOncePod"}
            yield Finding(
                path=volume.mount.at,
                message=f"{pods} Pods mount {volume.label}, which is {sorted(modes)[0]}: "
                + ("one Pod can have it" if one_pod else "one node can attach it"),
                certainty="likely",
                suggestions=(
                    "accessModes: [ReadWriteMany], on a storage class that has it",
                    "a StatefulSet with volumeClaimTemplates: a claim each",
                ),
            )


def _pods(engine: Engine) -> int | None:
    """The most Pods that run at once: the replicas, or an autoscaler's maximum if that is larger, times the Pods of one
    replica. None if the last is unknown."""
    per_replica = engine.workload.pods_per_replica
    if per_replica is None:
        return None
    bounds = [replicas(autoscaler) for autoscaler in engine.facts.companions.autoscalers(engine.workload)]
    maximums = [high for _, high in bounds if high]
    copies = max([engine.workload.replicas or 1, *maximums])  # 1 is the default of a kind that has replicas
    return copies * per_replica
