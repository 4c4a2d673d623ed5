"""How long a review takes if the Pod may get several kinds of GPUs, as a multiple of one whose Pod names its GPU.

python -m benchmarks.nodes [REVIEWS]

In process, with a snapshot of 2,000 nodes of ten kinds. Each Pod is new; the median counts.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import serving
from podfit.evaluation import review
from podfit.evaluation.policy import builtin
from podfit.kube.snapshot import Snapshot, from_objects
from podfit.vllm.facts import Facts

NODES, REVIEWS = 2_000, 150
GPUS = {
    "Tesla-T4": 4, "NVIDIA-L4": 4, "NVIDIA-A10G": 4, "NVIDIA-L40S": 4, "Tesla-V100-SXM2-16GB": 8,
    "NVIDIA-A100-SXM4-40GB": 8, "NVIDIA-A100-SXM4-80GB": 8, "NVIDIA-H100-80GB-HBM3": 8, "NVIDIA-H200": 8,
    "NVIDIA-B200": 8,
}  # fmt: skip
"""Product label → GPUs of a node."""
LIMIT = 4.0
"""The multiple that a review of a Pod without a GPU's name should not exceed."""


def cluster() -> Snapshot:
    """The nodes, each with labels of its own."""
    products = list(GPUS.items())
    return from_objects(_node(number, *products[number % len(products)]) for number in range(NODES))


def _node(number: int, product: str, count: int) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": f"node-{number}", "nvidia.com/gpu.product": product, "zone": f"z{number % 3}"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu": str(count), "cpu": "96"}},
    }  # fmt: skip


def milliseconds(body: bytes, facts: Facts) -> float:
    """One review, of this process's own time: others on the machine do not count."""
    policy = builtin()
    begun = time.process_time()
    review.validate(review.parse(body), policy, facts)
    return (time.process_time() - begun) * 1000


def bodies(reviews: int, *, named: bool) -> list[bytes]:
    """Reviews of Pods that name their GPU, or leave it out."""
    pods = [serving.pod(number) for number in range(reviews)]
    for pod in pods if not named else ():
        del pod["spec"]["nodeSelector"]
    return [serving.review(pod) for pod in pods]


def main(argv: Sequence[str]) -> int:
    """Prints milliseconds and the multiple; always 0, since a busy machine is not an error."""
    reviews = int(argv[0]) if argv else REVIEWS
    facts = Facts(cluster=cluster())
    took = {}
    for name, named in {"GPU named": True, "GPU not named": False}.items():
        times = [milliseconds(body, facts) for body in bodies(reviews, named=named)]
        took[name] = statistics.median(times[reviews // 5 :])
        print(f"{NODES:,} nodes of {len(GPUS)} kinds, {name}: {took[name]:.2f} ms")
    print(f"{took['GPU not named'] / took['GPU named']:.1f} times, limit {LIMIT:g} times")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
