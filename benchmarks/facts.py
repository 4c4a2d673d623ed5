"""What the packaged facts cost: milliseconds and megabytes until the first model and the first GPU are known.

python -m benchmarks.facts

Each run is a process of its own. The time is compared with what json takes for the same files in the same run, as a
ratio, because milliseconds alone say more about the machine.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

LIMITS = {"ms": 30.0, "MB": 25.0}
RUNS = 9
MODELS = ("models", "model_defaults")
TABLES = ("gpus", "instances", "flags", "facts", "releases")


def load() -> None:
    """Reads every table and asks for a model by its id, one by its path, and a GPU."""
    from podfit.base import data
    from podfit.vllm import gpu, model

    for name in MODELS:
        data.rows(name)
    for name in TABLES:
        data.load(name)
    model.by_id("Qwen/Qwen3-8B")
    model.model_of_name("/models/Qwen3-8B")
    gpu.by_name("l4")


def once(what: str) -> float:
    """One measurement in this process: "time" and "json" in milliseconds, "memory" in megabytes."""
    from podfit.base import data
    from podfit.vllm import gpu, model  # noqa: F401 - not measured: the modules are the program's, not the facts'

    folder = Path(data.__file__).parent
    if what == "memory":
        tracemalloc.start()
        load()
        return tracemalloc.get_traced_memory()[0] / 1e6
    begun = time.process_time()
    if what == "time":
        load()
    else:
        for path in sorted(folder.glob("*.json")):
            json.loads(path.read_bytes())
    return (time.process_time() - begun) * 1000


def main(argv: Sequence[str]) -> int:
    """Prints the medians and their limits; always 0, since a busy machine is not an error."""
    if argv:
        print(once(argv[0]))
        return 0
    took = {what: [_measured(what) for _ in range(RUNS)] for what in ("time", "json", "memory")}
    mine, plain, held = (statistics.median(took[what]) for what in ("time", "json", "memory"))
    print(f"facts: {mine:.1f} ms (limit {LIMITS['ms']:g}), {mine / plain:.2f} of what json takes for the same files")
    print(f"facts: {held:.1f} MB (limit {LIMITS['MB']:g})")
    return 0


def _measured(what: str) -> float:
    run = subprocess.run([sys.executable, "-m", "benchmarks.facts", what], capture_output=True, text=True, check=True)
    return float(run.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
