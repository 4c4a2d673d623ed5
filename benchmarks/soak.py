"""Many reviews, most of them of Pods that were not seen before: memory stays, and the last are as fast as the first.

python -m benchmarks.soak [REVIEWS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving import Connection, certificates, load, pod, podfit, review

REVIEWS = 100_000
MEMORY = 120.0
"""MiB, of all processes of a replica."""
SLOWER = 1.05


@dataclass(frozen=True)
class Soaked:
    """What was seen, a value for each tenth."""

    seconds: list[float]
    """Median of a review."""
    memory: list[float]
    """MiB, after it."""
    processor: float
    """Milliseconds of a processor that the server took for one review."""
    bad: int


def run(reviews: int) -> Soaked:
    """One connection, every third Pod of one template."""
    seconds: list[float] = []
    memory: list[float] = []
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        certificates(Path(name))
        with podfit(Path(name)) as server:
            connection, before = Connection(server.port), server.processor()
            for tenth in range(10):
                took = []
                for number in range(tenth * reviews // 10, (tenth + 1) * reviews // 10):
                    body = review(pod(number if number % 3 else 0), str(number))
                    begun = time.perf_counter()
                    status, answer = connection.post(body, "/validate" if number % 2 else "/mutate")
                    took.append(time.perf_counter() - begun)
                    bad += status != 200 or f'"uid": "{number}"'.encode() not in answer
                took.sort()
                seconds.append(took[len(took) // 2])
                memory.append(server.memory())
            processor = (server.processor() - before) / reviews * 1000
    return Soaked(seconds, memory, processor, bad)


def main(argv: Sequence[str]) -> int:
    """Prints each tenth; 1 where a goal was missed."""
    reviews = int(argv[0]) if argv else REVIEWS
    seen = run(reviews)
    for tenth, (took, memory) in enumerate(zip(seen.seconds, seen.memory, strict=True), 1):
        print(f"     tenth {tenth:2}: median {took * 1000:.2f} ms, {memory:.1f} MiB")
    print(f"     {seen.processor:.2f} ms of a processor a review")
    slower, last = seen.seconds[-1] / seen.seconds[0], seen.memory[-1]
    grown = last / seen.memory[0]
    for good, text in (
        (last <= MEMORY, f"{last:.1f} MiB after {reviews} reviews (goal <= {MEMORY:.0f})"),
        (grown <= SLOWER, f"memory of the last tenth / the first {grown:.3f} (goal <= {SLOWER})"),
        (slower <= SLOWER, f"time of the last tenth / the first {slower:.3f} (goal <= {SLOWER}; {load()})"),
        (seen.bad == 0, f"{seen.bad} bad answers"),
    ):
        print("ok  " if good else "MISS", text)
    return not (last <= MEMORY and grown <= SLOWER and slower <= SLOWER and not seen.bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
