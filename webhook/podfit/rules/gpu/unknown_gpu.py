"""Rule unknown-gpu."""

from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.kube.path import mapping
from podfit.rules import _parallel
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import gpu, release
from podfit.vllm.memory import parallel

PRODUCT_LABEL = {
    None: "nvidia.com/gpu.product", "nvidia": "nvidia.com/gpu.product", "amd": "amd.com/gpu.product-name",
    "intel": "gpu.intel.com/product", "google": "cloud.google.com/gke-tpu-accelerator",
}  # fmt: skip
"""Vendor of the resource → the label that names the GPU (of GPU feature discovery, the AMD GPU operator, Intel, GKE).
podfit reads no size from labels of other vendors."""


class UnknownGpu(Rule):
    """The Pod's GPU is unknown, so GPU memory can't be evaluated, or the Pod requests no GPU.

    `nvidia.com/gpu: 1` is any GPU of the cluster, with 16 GB or with 180. A nodeSelector names the GPU, and keeps the
    Pod off GPUs that are too small:

        nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}

    In CI, `podfit check --gpu NAME` sets the GPU for manifests that name none. In a cluster with one kind of GPU, the
    policy's `assume.gpu` does. If podfit may read nodes, it also uses their labels.

    A nodeSelector alone does not give the container a GPU. Without a GPU in `resources.limits` the container sees none,
    unless the node's runtime gives its GPUs to every container. vLLM then ends with `Failed to infer device type`. If
    the resource is misspelled, the API server accepts it, no node has it, and the Pod stays Pending:

        0/3 nodes are available: 3 Insufficient nvidia.com/gpus.
    """

    plane = "gpu"
    of_vllm = False
    threatens = "practice"
    mode = "warn"
    needs = ("vllm_args",)
    about = ("no known GPU",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """A fact about what podfit knows."""
        if engine.requested is None:
            yield from _nothing_requested(engine)
            return
        if engine.gpu is not None or engine.facts.gpu_memory is not None:
            return
        resource, count = engine.requested
        many = f"{count} × {resource}" if count else resource
        maker = gpu.maker.of_resources(resource, {})
        label = PRODUCT_LABEL.get(maker)
        yield Finding(
            engine.workload.path / "nodeSelector",
            f"{many} of an unknown kind: GPU memory is not checked{_of_another_maker(engine)}",
            suggestions=(f"nodeSelector {label} with the GPU's label",) if label else (),
        )


def _of_another_maker(engine: Engine) -> str:
    """A note that the container asks for GPUs of another maker than the assumed one."""
    assumed = gpu.assumed(engine.facts)
    if engine.facts.gpu is not None:
        return f" (--gpu {engine.facts.gpu.name} is another maker's)"
    return f" (the policy's assume.gpu, {assumed.name}, is another maker's)" if assumed is not None else ""


def _nothing_requested(engine: Engine) -> Iterator[Finding]:
    """vLLM in a Pod that asks for no accelerator, and in which nothing else could bring one."""
    asked = engine.container.resources
    wrong = gpu.misspelled_resource(asked)
    if wrong is not None and not engine.on_processors:
        name, meant = wrong
        side = "limits" if name in mapping(engine.field("resources", "limits")) else "requests"
        yield Finding(
            engine.at("resources", side, name),
            f"{name!r} is not a resource of any node, so the Pod gets no GPU; did you mean {meant}?",
            certainty="likely",
            suggestions=(f"{meant}: {asked[name]} in resources.limits",),
        )
    elif not _brought_otherwise(engine):
        resource = "amd.com/gpu" if engine.vendor == "amd" else "nvidia.com/gpu"
        zero = next((name for name in asked if gpu.is_one(name)), None)
        yield Finding(
            engine.at("resources", "limits"),
            f"{f'{zero}: {asked[zero]}' if zero else 'no GPU'} is requested: unless the node's runtime gives GPUs to "
            "every container, vLLM finds none and ends with `Failed to infer device type`",
            certainty="likely",
            suggestions=(f'{zero or resource}: "{parallel.gpus_needed(engine.args) or 1}" in resources.limits',),
        )


def _brought_otherwise(engine: Engine) -> bool:
    """The container may get a GPU without a request, or needs none.

    The signs are

    - an image that is not vLLM's own for CUDA or ROCm,
    - a runtime class, a claim, a privileged container, an operator, or Pods of a Ray cluster,
    - `--gpu`, or a given GPU memory size."""
    image = engine.field("image")
    if not isinstance(image, str) or not release.is_official(image) or _OTHERS.search(image):
        return True
    facts, completed = engine.facts, "resources" in engine.workload.completes
    if facts.gpu is not None or facts.gpu_memory is not None or completed or engine.on_processors:
        return True
    if engine.pod("runtimeClassName") or engine.pod("resourceClaims") or engine.field("resources", "claims"):
        return True
    if gpu.may_be_one(engine.container.resources) or _parallel.sees_more(engine):
        return True
    of_ray = "ray" in (engine.args.get("distributed_executor_backend"), engine.args.get("data_parallel_backend"))
    of_ray = of_ray or _parallel.makes_ray(engine) or "headGroupSpec" in engine.workload.path.parts
    return of_ray or engine.args.get("data_parallel_size_local") == 0


_OTHERS = re.compile(r"-(cpu|tpu)\b")
