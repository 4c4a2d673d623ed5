"""GPU drivers: the newest CUDA that a node's labels show."""

from __future__ import annotations

import pytest

from podfit.vllm.gpu import driver

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
