from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import gpu


class NoNodeMatches(Rule):
    """No node of the cluster can ever run the Pod.

    It stays Pending:

        0/12 nodes are available: 12 node(s) didn't match Pod's node affinity/selector.

    podfit compares nodeSelector, required affinity, taints and the whole allocatable resource of each node, not what is
    free at the moment. An autoscaler, Karpenter or Kueue may add a node later, so by default this is only counted
    (`audit`). podfit skips a Pod with scheduling gates or a Kueue queue.
    """

    plane = "cluster"
    event = "the Pod stays Pending"
    of_vllm = False
    mode = "audit"
    partly_denies = "another node may come, unless assume.nodes is closed"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if the policy's `assume.nodes` is closed; else likely, for a node may be added later. None unless all
        nodes are known as they are now."""
        placement = engine.placement
        if placement is None or not placement.fresh or placement.candidates or not placement.node_count:
            return
        if gpu.is_held(engine.workload):
            return
        yield Finding(
            path=engine.workload.path / "nodeSelector",
            message=f"no node of this cluster can run it: {placement.why}",
            certainty="certain" if engine.facts.nodes_closed else "likely",
        )
