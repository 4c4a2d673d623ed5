from __future__ import annotations

from collections.abc import Iterator

from podfit.rules import gpu_set
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import gpu

PRODUCT_LABEL = {
    None: "nvidia.com/gpu.product", "nvidia": "nvidia.com/gpu.product", "amd": "amd.com/gpu.product-name",
    "intel": "gpu.intel.com/product", "google": "cloud.google.com/gke-tpu-accelerator",
}  # fmt: skip
"""Vendor of the resource → the label that names the GPU (of GPU feature discovery, the AMD GPU operator, Intel, GKE).
podfit reads no size from labels of other vendors."""


class UnknownGpu(Rule):
    """The Pod's GPU is unknown, so it may land on one that is too small.

    `nvidia.com/gpu: 1` is any GPU of the cluster, with 16 GB or with 180. A nodeSelector names the GPU, and keeps the
    Pod off GPUs that are too small:

        nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}

    podfit plans every GPU that it knows, or those of the matching nodes, and reports on which the container fits. In
    CI, `--nodes FILE` describes the cluster's nodes, and `--gpu NAME` sets the GPU for manifests that name none. In a
    cluster with one kind of GPU, the policy's `assume.gpu` does. If podfit may read nodes, it also uses their labels.
    Without an answer, such as for an unknown model or another accelerator, the finding is only audited. So it is if the
    container fits every GPU.
    """

    plane = "gpu"
    event = "podfit does not check GPU memory"
    of_vllm = False
    threatens = "practice"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain: it is about what podfit knows. Advice if a named GPU would make no difference: the container fits
        all of them, or podfit could not plan it there either."""
        if engine.requested is None or engine.gpu is not None or engine.facts.gpu_memory is not None:
            return
        if engine.once(gpu_set.on_largest) is not None:
            return  # it fits no known GPU, which the rules about memory report
        resource, count = engine.requested
        request = f"{count} × {resource}" if count else resource
        label = PRODUCT_LABEL.get(gpu.maker.of_resources(resource, {}))
        placement_text = gpu_set.sentence(engine)
        change = engine.once(gpu_set.selector) or (f"nodeSelector {label} with the GPU's label" if label else None)
        yield Finding(
            path=engine.workload.path / "nodeSelector",
            message=f"{request} of an unknown kind: {placement_text or 'GPU memory is not checked'}"
            f"{_of_another_maker(engine)}",
            details=_of_no_node(engine),
            advice=_has_no_answer(engine, placement_text) or engine.once(gpu_set.fits_all),
            suggestions=(change,) if change else (),
        )


def _of_no_node(engine: Engine) -> tuple[str, ...]:
    """A detail: why the known nodes, such as those of `--nodes`, do not narrow the choice. Empty if a known node can
    run the Pod, or no nodes are known."""
    placement = engine.placement
    if placement is None or placement.candidates or not placement.node_count:
        return ()
    return (f"no known node can run it: {placement.why}",)


def _has_no_answer(engine: Engine, placement_text: str | None) -> bool:
    """True if a named GPU would not be checked either: the model is unknown, or every plan is unsure.

    `placement_text`: of `gpu_set.sentence`. Without it no GPU was planned. If podfit plans its table (`plans_table`),
    then the reason is not that the GPU is unknown, and a named one would change nothing."""
    if placement_text is None:
        return engine.model is None or engine.facts.plans_table
    return placement_text.startswith(gpu_set.UNSURE)


def _of_another_maker(engine: Engine) -> str:
    """A note that `--gpu` or the policy's `assume.gpu` is a GPU of another maker than the container asks for. Empty if
    neither is set."""
    assumed = gpu.assumed(engine.facts)
    if engine.facts.gpu is not None:
        return f" (--gpu {engine.facts.gpu.name} is another maker's)"
    return f" (the policy's assume.gpu, {assumed.name}, is another maker's)" if assumed is not None else ""
