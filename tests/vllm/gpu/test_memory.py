"""What a process sees of each GPU, compared with what torch printed on real ones; and what a slice of one sees."""

from __future__ import annotations

import pytest

from podfit.vllm import gpu
from podfit.vllm.gpu.product import all_products
from podfit.vllm.memory import budget

GI = 1 << 30

SEEN = [
    ("Tesla T4", 14.57),
    ("Tesla V100-SXM2-16GB", 15.77),
    ("NVIDIA L4", 22.03),
    ("NVIDIA A10", 21.99),
    ("NVIDIA A10", 22.09),
    ("NVIDIA A10G", 22.06),
    ("NVIDIA A10G", 22.19),
    ("NVIDIA A10G", 22.30),
    ("NVIDIA GeForce RTX 3090", 23.56),
    ("NVIDIA GeForce RTX 3090", 23.69),
    ("NVIDIA GeForce RTX 4090", 23.64),
    ("NVIDIA GeForce RTX 5090", 31.36),
    ("NVIDIA GeForce RTX 5090", 31.40),
    ("NVIDIA A100-SXM4-80GB", 79.14),
    ("NVIDIA H100 80GB HBM3", 79.18),
    ("NVIDIA H200", 139.72),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 94.97),
    ("NVIDIA GB10", 119.61),
]
"""What nvidia-smi calls the GPU, and the GiB that torch or vLLM printed for it in a public log (Linux, containers)."""


@pytest.mark.parametrize(("name", "gib"), SEEN)
def test_the_total_is_within_a_hundredth_of_what_was_printed(name: str, gib: float) -> None:
    (product,) = gpu.by_name(name)
    total = budget.total(product, None)

    assert total is not None
    assert abs(total.likely / GI / gib - 1) <= 0.01
    assert total.floor / GI <= gib * 1.001
    assert total.high / GI >= gib * 0.999


def test_totals_are_ordered_and_below_what_the_label_says() -> None:
    for one in all_products():
        likely = one.memory_likely or one.memory
        assert one.memory <= likely <= one.memory_high
        if one.memory_label_mib:
            assert one.memory <= one.memory_label_mib << 20


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 9.5),
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 39.25),
        ("NVIDIA-H200-MIG-1g.18gb", 16.0),
        ("NVIDIA-H200-MIG-3g.71gb", 69.75),
    ],
)
def test_a_slice_is_smaller_than_its_name(name: str, gib: float) -> None:
    (one,) = gpu.by_name(name)

    assert abs(one.memory / GI / gib - 1) <= 0.02
    assert one.memory / GI < int(name.rpartition(".")[2].removesuffix("gb"))
