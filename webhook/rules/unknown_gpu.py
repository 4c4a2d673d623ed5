"""Rule unknown-gpu."""

from __future__ import annotations

from collections.abc import Iterator

from webhook import release
from webhook.engine import Engine
from webhook.rule import Finding, Rule

LABELS = {"amd.com/": "amd.com/gpu.product-name", "gpu.intel.com/": "gpu.intel.com/product"}
"""Resource → the label that tells the product: the AMD GPU operator's, Intel's; else GPU feature discovery's."""


class UnknownGpu(Rule):
    """Nothing says which GPU the Pod will get, so GPU memory can't be judged.

    `nvidia.com/gpu: 1` is any GPU of the cluster, of 16 GB or of 180. A nodeSelector says which, and keeps the Pod
    off GPUs that are too small:

        nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}

    In CI, `podfit check --gpu NAME` says it for manifests that do not; in a cluster of one kind the policy's
    `assume.gpu` does. Where podfit may read nodes, their labels say it too.
    """

    plane = "gpu"
    threatens = "practice"
    mode = "warn"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """A fact about what podfit knows."""
        if engine.gpu is not None or engine.facts.gpu_memory is not None:
            return
        if engine.requested is None:
            yield from self._nothing_requested(engine)
            return
        resource, count = engine.requested
        many = f"{count} × {resource}" if count else resource
        told = (name for prefix, name in LABELS.items() if resource.startswith(prefix))
        label = next(told, "nvidia.com/gpu.product")
        yield Finding(
            engine.workload.path / "nodeSelector",
            f"{many} of an unknown product: GPU memory is not judged",
            suggestions=(f"nodeSelector {label} with the product's label",),
        )

    def _nothing_requested(self, engine: Engine) -> Iterator[Finding]:
        """vLLM's CUDA image in a Pod that asks for no accelerator and names no runtime class that could bring one."""
        image = engine.field("image")
        if (
            not isinstance(image, str)
            or not release.is_official(image)
            or "-cpu" in image
            or "resources" in (engine.workload.completes)
        ):
            return
        if engine.pod("runtimeClassName") or engine.pod("resourceClaims") or engine.field("resources", "claims"):
            return
        yield Finding(
            engine.at("resources", "limits"),
            "no GPU is requested: unless the node's runtime gives GPUs to every container, vLLM finds none and "
            "ends with `Failed to infer device type`",
            certainty="likely",
            suggestions=('nvidia.com/gpu: "1" in resources.limits',),
        )
