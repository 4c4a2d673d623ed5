"""How long a plan and the search after a denial take, in process: the median over some models, and their limits.

python -m benchmarks.speed
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence

from podfit.vllm.args import EngineArgs
from podfit.vllm.gpu import Accelerator, by_name
from podfit.vllm.memory import solve
from podfit.vllm.memory.plan import plan
from podfit.vllm.model import by_id
from podfit.vllm.release import parse

CASES = (
    ("meta-llama/Llama-3.1-8B-Instruct", "l4", 1), ("meta-llama/Llama-3.3-70B-Instruct", "l4", 4),
    ("deepseek-ai/DeepSeek-V3", "h100", 8), ("google/gemma-3-27b-it", "a10g", 1), ("Qwen/Qwen3.6-35B-A3B", "l40s", 1),
    ("openai/gpt-oss-120b", "h100", 1),
)  # fmt: skip
LIMITS = {"plan": 0.3, "plan, release unknown": 3.0, "search": 15.0}
"""Milliseconds."""


def median(call: Callable[[], object], times: int) -> float:
    """Milliseconds of one call, of this process's own time: others on the machine do not count."""
    took = []
    for _ in range(times):
        begun = time.process_time()
        call()
        took.append(time.process_time() - begun)
    return statistics.median(took) * 1000


def main(argv: Sequence[str]) -> int:
    """Prints milliseconds; always 0, since a busy machine is not an error."""
    times = int(argv[0]) if argv else 200
    seen: dict[str, list[float]] = {name: [] for name in LIMITS}
    for name, product, size in CASES:
        row = by_id(name)
        if row is None:
            continue
        where, model = Accelerator(by_name(product), size), row.value
        args = EngineArgs(release=parse("0.27.1"), given={"tensor_parallel_size": size})
        unknown = EngineArgs(release=None, given=args.given)
        took = {
            "plan": median(lambda: plan(args, model, where), times),  # noqa: B023
            "plan, release unknown": median(lambda: plan(unknown, model, where), times),  # noqa: B023
            "search": median(lambda: solve.alternatives(args, model, where), max(1, times // 20)),  # noqa: B023
        }
        for what, value in took.items():
            seen[what].append(value)
        print(f"{name:36} " + "  ".join(f"{what} {value:.2f} ms" for what, value in took.items()))
    for what, limit in LIMITS.items():
        print(f"{what}: median {statistics.median(seen[what]):.2f} ms, limit {limit:g} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
