from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.release import CUDA_13, LONGEST, Release


class MigWithTensorParallel(Rule):
    """One engine is spread over MIG slices, and CUDA shows a process only one.

    A MIG slice is not a smaller GPU of a group: CUDA enumerates a single slice for each process, and there is no
    peer-to-peer traffic between slices. `nvidia.com/mig-1g.10gb: 2` with `--tensor-parallel-size 2` ends with

        ValueError: World size (2) is larger than the number of available GPUs (1) in this node.

    (up to v0.11.0 vLLM waits for a Ray cluster instead, or fails with `invalid device ordinal`). One larger slice, or a
    whole GPU, serves the same model; several small engines are several replicas.
    """

    plane = "gpu"
    event = "vLLM exits: an engine sees one MIG slice only"
    of_vllm = False
    mode = "deny"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain with CUDA 11 and 12 in a release that does not look for a Ray cluster; else likely.

        None for whole GPUs, an engine of one GPU, and an engine over several Pods. A GPU is a slice if the resource or
        a label of the node says so."""
        if engine.requested is None:
            return
        resource, count = engine.requested
        by_resource = resource.startswith("nvidia.com/mig-") and " + " not in resource  # " + ": several resources
        gpus = engine.gpu.value.gpus if engine.gpu else ()
        if not by_resource and not (gpus and gpus[0].mig and all(gpu.mig for gpu in gpus)):
            return
        if engine.spans_pods or engine.world_size < 2:
            return
        has_cuda_13 = BUILT_FOR_CUDA_13.search(str(engine.field("image"))[:LONGEST]) is not None
        refuses = engine.release is not None and LAST_WITH_RAY < engine.release < CUDA_13 and not has_cuda_13
        slices = f"{count} × {resource}" if count else resource
        if by_resource:
            without_slices = f"nvidia.com/gpu: {engine.world_size} instead of slices"
        else:
            slices = f"{slices} of {' or '.join(gpu.name for gpu in gpus)}"
            without_slices = "GPUs that are not partitioned"
        yield Finding(
            path=engine.at("resources", "limits", resource),
            message=f"an engine of {engine.world_size} GPUs on MIG slices ({slices}): a process sees one slice",
            certainty="certain" if refuses else "likely",
            rests_on=() if by_resource else ("gpu",),
            suggestions=("--tensor-parallel-size 1 with a larger slice", without_slices),
        )


LAST_WITH_RAY = Release(0, 11, 0)
"""Up to this release too few GPUs make vLLM look for a Ray cluster, which a script may have started."""
BUILT_FOR_CUDA_13 = regex(r"(?<![a-z0-9])cu(?:da)?[-_.]?13", re.IGNORECASE)
"""NVIDIA's limit "only enumeration of a single MIG instance is supported" is for CUDA 11 and 12 (NVIDIA MIG user guide,
device enumeration). Builds of releases before `CUDA_13` that have CUDA 13 too have such a tag: v0.13.0-cu130."""
