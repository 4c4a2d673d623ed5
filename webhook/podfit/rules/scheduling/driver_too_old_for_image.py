from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.gpu import driver
from podfit.vllm.gpu.requirement import node_demand
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
    the input, and from the drivers that `--nodes` describes. A nodeSelector or a required affinity on such a label, or
    on `nvidia.com/cuda.driver-version.major`, limits the driver, too.

    On data center GPUs, the image's compatibility libraries bridge the gap: with `VLLM_ENABLE_CUDA_COMPATIBILITY=1`, or
    if the node's container toolkit adds them by itself. The opposite, `Error 803`, is a driver that is newer than these
    libraries; `podfit diagnose` reports it.
    """

    plane = "cluster"
    event = "vLLM exits: the NVIDIA driver is too old; or the container is not created"
    of_vllm = False
    never_denies = "the container toolkit of the node may add the image's CUDA compatibility libraries"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Likely if the drivers of all nodes that may run the Pod are too old, possible if those of some are.

        Without a known node that may run it, what nodeSelector and affinity ask for counts."""
        image = engine.field("image")
        if not isinstance(image, str) or (cuda := cuda_of_image(image)) is None or _loads_compatibility(engine):
            return
        limited = _of_nodes(engine, cuda) or _of_demand(engine, cuda)
        if limited is None:
            return
        yield Finding(
            path=engine.at("image"),
            message=f"the image has CUDA {cuda}, and the GPU driver of {limited.nodes} runs CUDA {limited.newest} "
            "at most",
            certainty="likely" if limited.everywhere else "possible",
            uncertain=None if limited.everywhere else "the Pod may land on a node with a newer driver",
            suggestions=tuple(_changes(image, cuda, limited.newest)),
        )


class OldDrivers(NamedTuple):
    """Nodes whose driver is too old for the image."""

    nodes: str
    """The nodes, for people."""
    newest: int
    """The newest major version of CUDA that one of these drivers runs."""
    everywhere: bool
    """No other node may run the Pod."""


def _of_nodes(engine: Engine, cuda: int) -> OldDrivers | None:
    """The known nodes whose driver is too old for this major version of CUDA; None if there is no such node."""
    placement = engine.placement
    if placement is None:
        return None
    old = {major: nodes for major, nodes in placement.cuda if major is not None and major < cuda}
    if not old:
        return None
    count = sum(old.values())
    everywhere = count == placement.candidates
    which = "all nodes" if everywhere else f"{count} of {placement.candidates} nodes"
    return OldDrivers(nodes=f"{which} that may run the Pod", newest=max(old), everywhere=everywhere)


def _of_demand(engine: Engine, cuda: int) -> OldDrivers | None:
    """The nodes that nodeSelector and affinity ask for, if every alternative of them limits the driver to one that is
    too old. None if a known node may run the Pod, whose driver counts then, or if an alternative does not limit it."""
    if engine.requested is None or (engine.placement is not None and engine.placement.candidates):
        return None
    alternatives = node_demand(engine.workload).alternatives(lambda requirement: requirement.key in driver.LABELS)
    limits = [driver.required_cuda(requirements) for requirements in alternatives]
    old = [limit for limit in limits if limit is not None and limit < cuda]
    if len(old) < len(limits):
        return None
    return OldDrivers(nodes="the nodes that nodeSelector and affinity ask for", newest=max(old), everywhere=True)


def _loads_compatibility(engine: Engine) -> bool:
    """True if the image's compatibility libraries replace the driver's, or may do so: in a release before `OPT_IN` or
    an unknown one, by the linker's path, or with `COMPATIBILITY`."""
    env = engine.command.env
    if engine.release is None or engine.release < OPT_IN or "compat" in env.get("LD_LIBRARY_PATH", ""):
        return True
    return COMPATIBILITY in {*engine.declared, *env} and env.get(COMPATIBILITY, "1") != "0"


def _changes(image: str, cuda: int, newest: int) -> Iterator[str]:
    """The changes for an image of `cuda` on drivers that run `newest` at most (major versions): another image, another
    driver, or the compatibility libraries."""
    older = with_cuda_12(image)
    if older is not None and newest == 12:
        yield f"image: {older}"
    if (branch := driver.first_branch(cuda)) is not None:
        yield f"a GPU driver of branch R{branch} or newer on the nodes"
    yield f"env {COMPATIBILITY}=1, on data center GPUs"
