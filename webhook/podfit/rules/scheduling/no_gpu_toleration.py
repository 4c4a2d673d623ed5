from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from podfit.kube.patch import Edit
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import gpu


class NoGpuToleration(Rule):
    """Every suitable node has a taint that the Pod does not tolerate.

    GPU nodes are often tainted (`nvidia.com/gpu=present:NoSchedule`, `sku=gpu:NoSchedule`), so that only Pods that need
    a GPU run there. Without a toleration the Pod stays Pending, even if GPUs are free:

        0/12 nodes are available: 4 node(s) had untolerated taint {sku: gpu}, 8 Insufficient nvidia.com/gpu.

    Two kinds of taints are not counted: those that a cloud's admission tolerates automatically for Pods that request
    the resource, and those that come and go with a node's state. The finding appears only if podfit knows the cluster's
    nodes and no node is left.
    """

    plane = "cluster"
    event = "the Pod stays Pending"
    of_vllm = False
    never_denies = "a node may be added later"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely: a node may be added later. None if a node may run the Pod, or none would do even without its taints.

        Of nodes with different taints it names those that most of them have."""
        placement = engine.placement
        if placement is None or not placement.fresh or placement.candidates or not placement.repelled:
            return
        if gpu.is_held(engine.workload):
            return
        repelled = [tuple(map(_taint_text, taints)) for taints in placement.repelled]  # one tuple for each node
        commonest, count = Counter(repelled).most_common(1)[0]
        tolerations = [_toleration(taint) for taint in placement.repelled[repelled.index(commonest)]]
        path = engine.workload.path / "tolerations"
        yield Finding(
            path=path,
            message=f"{_nodes(len(repelled), count)} the taint {commonest[0]}, which is not tolerated",
            certainty="likely",
            suggestions=(f"tolerations: {tolerations}".replace("'", ""),),
            fix=()
            if engine.container.synthetic
            else tuple(Edit(path, toleration, "append") for toleration in tolerations),
        )


def _nodes(total: int, tainted: int) -> str:
    """The start of the sentence on `total` nodes, of which `tainted` have the taint: "3 nodes would do, but have"."""
    nodes = f"{total:,} node{'s' if total > 1 else ''} would do, but"
    if tainted == total > 1:
        return f"{nodes} have"
    return f"{nodes} has" if tainted == 1 else f"{nodes} ({tainted:,} of them) have"


def _taint_text(taint: object) -> str:
    """A taint as kubectl writes it: `sku=gpu:NoSchedule`."""
    fields = taint if isinstance(taint, dict) else {}
    value = f"={fields['value']}" if fields.get("value") else ""
    return f"{fields.get('key')}{value}:{fields.get('effect')}"


def _toleration(taint: object) -> dict[str, str]:
    """The toleration of a taint's key and effect, whatever its value is."""
    fields = taint if isinstance(taint, dict) else {}
    return {"key": str(fields.get("key")), "operator": "Exists", "effect": str(fields.get("effect"))}
