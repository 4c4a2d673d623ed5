"""The newest CUDA that a node's GPU driver runs, from the labels of GPU feature discovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podfit.vllm.gpu.requirement import NodeRequirement

CUDA_LABELS = ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime.major")
"""The CUDA version that NVML's nvmlSystemGetCudaDriverVersion returns, which is the newest that the driver runs, and
not what is installed on the node (NVIDIA/k8s-device-plugin internal/lm/nvml.go newVersionLabeler). The second name is
the older one."""
DRIVER_LABELS = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
"""The branch of the driver, such as 580."""
BRANCHES = ((580, 13), (525, 12), (450, 11), (410, 10))
"""The first branch of the Linux driver that runs a major version of CUDA (CUDA Toolkit release notes, "CUDA Toolkit and
Minimum Required Driver Version")."""
LABELS = frozenset((*CUDA_LABELS, *DRIVER_LABELS))


def cuda_major(labels: Mapping[str, str]) -> int | None:
    """The newest major version of CUDA that the driver runs; None if no label shows it."""
    cuda = _first_number(labels, CUDA_LABELS)
    if cuda is not None:
        return cuda
    branch = _first_number(labels, DRIVER_LABELS)
    if branch is None:
        return None
    for first, major in BRANCHES:  # from the newest on
        if branch >= first:
            return major
    return None


def required_cuda(requirements: Sequence[NodeRequirement]) -> int | None:
    """The newest major version of CUDA that the driver of a node can run that meets all these requirements; None if
    they do not limit it."""
    limits = [limit for requirement in requirements if (limit := _required_cuda(requirement)) is not None]
    return min(limits, default=None)


def _required_cuda(requirement: NodeRequirement) -> int | None:
    """The newest major version of CUDA that one requirement allows; None if it does not limit it. It does if it is
    about one of LABELS, its operator is `In` or `Lt`, and all values are numbers."""
    below = {"In": 0, "Lt": 1}.get(requirement.operator)  # the largest value that `Lt 13` allows is 12
    if below is None:
        return None
    versions = []
    for value in requirement.values:
        number = _number(value)
        # a node with this value as its only label; None for a label of another kind
        version = None if number is None else cuda_major({requirement.key: str(number - below)})
        if version is None:
            return None
        versions.append(version)
    return max(versions, default=None)


def first_branch(cuda: int) -> int | None:
    """The first branch of the driver that runs this major version of CUDA; None if it is unknown."""
    return next((first for first, major in BRANCHES if major == cuda), None)


def _first_number(labels: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    """The number in the first of these labels that has one; None without such a label."""
    for name in names:
        number = _number(labels.get(name, ""))
        if number is not None:
            return number
    return None


def _number(text: str) -> int | None:
    """The number of a branch or of a major version, which have at most five digits; None for another text."""
    return int(text) if text.isdecimal() and len(text) < 6 else None
