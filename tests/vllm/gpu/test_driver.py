"""GPU drivers: the newest CUDA that a node's labels show."""

from __future__ import annotations

import pytest

from podfit.vllm.gpu import driver
from podfit.vllm.gpu.requirement import NodeRequirement

CUDA, OLDER = driver.CUDA_LABELS
DRIVER, OLDER_DRIVER = driver.DRIVER_LABELS


@pytest.mark.parametrize(
    ("labels", "major"),
    [
        ({CUDA: "13", DRIVER: "580"}, 13),
        ({OLDER: "12"}, 12),
        ({CUDA: "13", OLDER: "12"}, 13),
        ({DRIVER: "580"}, 13),
        ({DRIVER: "575"}, 12),
        ({OLDER_DRIVER: "525"}, 12),
        ({OLDER_DRIVER: "470"}, 11),
        ({OLDER_DRIVER: "390"}, None),
        ({CUDA: "unknown"}, None),
        ({CUDA: "", DRIVER: "590"}, 13),
        ({"nvidia.com/gpu.product": "NVIDIA-L4"}, None),
    ],
)
def test_the_labels_of_a_node_show_the_newest_cuda_of_its_driver(labels: dict[str, str], major: int | None) -> None:
    assert driver.cuda_major(labels) == major


def test_a_major_version_of_cuda_needs_a_branch_of_the_driver() -> None:
    assert [driver.first_branch(cuda) for cuda in (11, 12, 13, 14)] == [450, 525, 580, None]


@pytest.mark.parametrize(
    ("requirements", "major"),
    [
        ([(DRIVER, "In", ("535",))], 12),
        ([(OLDER_DRIVER, "In", ("470", "535"))], 12),
        ([(DRIVER, "In", ("535", "580"))], 13),
        ([(DRIVER, "In", ("535", "any"))], None),
        ([(DRIVER, "In", ())], None),
        ([(DRIVER, "Lt", ("580",))], 12),
        ([(DRIVER, "Lt", ("581",))], 13),
        ([(DRIVER, "Lt", ("0",))], None),
        ([(DRIVER, "Gt", ("535",))], None),
        ([(DRIVER, "NotIn", ("580",))], None),
        ([(DRIVER, "Exists", ())], None),
        ([(OLDER, "In", ("11",))], 11),
        ([(CUDA, "Lt", ("13",))], 12),
        ([(CUDA, "Gt", ("10",)), (DRIVER, "Lt", ("580",))], 12),
        ([(CUDA, "In", ("13",)), (DRIVER, "In", ("535",))], 12),
        ([(DRIVER, "Lt", ("9" * 5000,))], None),
        ([], None),
    ],
)
def test_requirements_for_a_node_limit_the_newest_cuda(
    requirements: list[tuple[str, str, tuple[str, ...]]], major: int | None
) -> None:
    assert driver.required_cuda([NodeRequirement(*requirement) for requirement in requirements]) == major
