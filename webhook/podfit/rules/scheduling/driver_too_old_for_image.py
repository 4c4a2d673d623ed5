from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.gpu import driver
from podfit.vllm.release import Release, cuda_of_image, with_cuda_12

COMPATIBILITY = "VLLM_ENABLE_CUDA_COMPATIBILITY"
OPT_IN = Release(0, 17)
"""Since then the image loads its CUDA compatibility libraries only if COMPATIBILITY is 1 (vllm-project/vllm#33992).
Before, the linker finds them first."""


class DriverTooOldForImage(Rule):
    """The image's CUDA is newer than what the GPU driver of the nodes runs.

    A driver runs every CUDA of its own major version and of older ones, but none of a newer major version. From v0.20
    vLLM's image has CUDA 13, which needs a driver of branch R580. The errors are

        RuntimeError: The NVIDIA driver on your system is too old (found version 12080)
        nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0

    The newest CUDA of a node's driver is in the labels `nvidia.com/cuda.runtime-version.major` of GPU feature
    discovery, older ones have `nvidia.com/cuda.runtime.major`. podfit reads them from the cluster, from Node objects in
    the input, and from the drivers that `--nodes` describes.

    On data center GPUs, the image's compatibility libraries bridge the gap: with `VLLM_ENABLE_CUDA_COMPATIBILITY=1`, or
    if the node's container toolkit adds them by itself. The opposite, `Error 803`, is a driver that is newer than these
    libraries; `podfit diagnose` reports it.
    """

    plane = "cluster"
    event = "vLLM exits: the NVIDIA driver is too old; or the container is not created"
    of_vllm = False
    never_denies = "the container toolkit of the node may add the image's CUDA compatibility libraries"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely if the drivers of all nodes that may run the Pod are too old, possible if those of some are."""
        image, placement = engine.field("image"), engine.placement
        if placement is None or not isinstance(image, str) or (cuda := cuda_of_image(image)) is None:
            return
        old = [(major, many) for major, many in placement.cuda if major is not None and major < cuda]
        if not old or _loads_compatibility(engine):
            return
        many, newest = sum(nodes for _, nodes in old), max(major for major, _ in old)
        everywhere = many == placement.candidates
        which = "all nodes" if everywhere else f"{many} of {placement.candidates} nodes"
        yield Finding(
            path=engine.at("image"),
            message=f"the image has CUDA {cuda}, and the GPU driver of {which} that may run the Pod runs CUDA {newest} "
            "at most",
            certainty="likely" if everywhere else "possible",
            uncertain=None if everywhere else "the Pod may land on a node with a newer driver",
            suggestions=tuple(_changes(image, cuda, newest)),
        )


def _loads_compatibility(engine: Engine) -> bool:
    """True if the container's compatibility libraries replace the driver's, or may do so."""
    env = engine.command.env
    if engine.release is None or engine.release < OPT_IN or "compat" in env.get("LD_LIBRARY_PATH", ""):
        return True
    return COMPATIBILITY in {*engine.declared, *env} and env.get(COMPATIBILITY, "1") != "0"


def _changes(image: str, cuda: int, newest: int) -> Iterator[str]:
    """Another image, another driver, or the compatibility libraries."""
    older = with_cuda_12(image)
    if older is not None and newest == 12:
        yield f"image: {older}"
    if (branch := driver.first_branch(cuda)) is not None:
        yield f"a GPU driver of branch R{branch} or newer on the nodes"
    yield f"env {COMPATIBILITY}=1, on data center GPUs"
