"""Rule unknown-gpu."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.rule import Finding, Rule


class UnknownGpu(Rule):
    """Nothing says which GPU the Pod will get, so GPU memory can't be judged.

    `nvidia.com/gpu: 1` is any GPU of the cluster, of 16 GB or of 180. A nodeSelector says which, and keeps the Pod
    off GPUs that are too small:

        nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}

    In CI, `podfit check --gpu NAME` says it for manifests that do not.
    """

    plane = "gpu"
    threatens = "practice"
    mode = "warn"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """A fact about what podfit knows; mute where no accelerator is asked for."""
        if engine.gpu is not None or engine.requested is None or engine.facts.gpu_memory is not None:
            return
        resource, count = engine.requested
        many = f"{count} × {resource}" if count else resource
        yield Finding(
            engine.workload.path / "nodeSelector",
            f"{many} of an unknown product: GPU memory is not judged",
            suggestions=("nodeSelector nvidia.com/gpu.product with the product's label",),
        )
