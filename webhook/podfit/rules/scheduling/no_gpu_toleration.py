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
        """Likely: a node may be added later."""
        placement = engine.placement
        if placement is None or not placement.fresh or placement.candidates or not placement.repelled:
            return
        if gpu.is_held(engine.workload):
            return
        taints, many = Counter(tuple(map(_taint_text, item)) for item in placement.repelled).most_common(1)[0]
        items = next(item for item in placement.repelled if tuple(map(_taint_text, item)) == taints)
        nodes = f"{len(placement.repelled):,} node{'s' if len(placement.repelled) > 1 else ''}"
        which = "have" if many == len(placement.repelled) > 1 else "has" if many == 1 else f"({many:,} of them) have"
        yield Finding(
            path=engine.workload.path / "tolerations",
            message=f"{nodes} would do, but {which} the taint {taints[0]}, which is not tolerated",
            certainty="likely",
            suggestions=(f"tolerations: {[_toleration(taint) for taint in items]}".replace("'", ""),),
            fix=()
            if engine.container.synthetic
            else tuple(Edit(engine.workload.path / "tolerations", _toleration(taint), "append") for taint in items),
        )


def _taint_text(taint: object) -> str:
    """A taint as kubectl writes it: `sku=gpu:NoSchedule`."""
    fields = taint if isinstance(taint, dict) else {}
    value = f"={fields['value']}" if fields.get("value") else ""
    return f"{fields.get('key')}{value}:{fields.get('effect')}"


def _toleration(taint: object) -> dict[str, str]:
    fields = taint if isinstance(taint, dict) else {}
    return {"key": str(fields.get("key")), "operator": "Exists", "effect": str(fields.get("effect"))}
