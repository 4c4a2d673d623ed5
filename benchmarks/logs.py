"""How long a diagnosis of a large log takes, as a multiple of one search for one word in each of its lines.

python -m benchmarks.logs [MB]
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Callable, Sequence

from podfit.diagnose import diagnose

CAUSES = (
    "(EngineCore_DP0 pid={0}) ERROR 06-11 08:{1:02d}:{2:02d} [core.py:708] torch.OutOfMemoryError: CUDA out of memory. "
    "Tried to allocate {3}.00 MiB. GPU 0 has a total capacity of 79.18 GiB of which {4}.12 MiB is free.",
    "(Worker_TP{0} pid={1}) ERROR 06-11 08:{2:02d}:{3:02d} [multiproc_executor.py:{4}] RuntimeError: NCCL error: "
    "unhandled cuda error",
    "OSError: [Errno 28] No space left on device: '/models/{0}/{1}'",
    "requests.exceptions.ConnectionError: Max retries exceeded with url: /api/models/{0} host='huggingface.co', {1}",
    "WARNING 06-11 08:{0:02d}:{1:02d} [utils.py:{2}] Retrying download {3} after {4} seconds",
    '  File "/opt/vllm/v1/engine/core.py", line {0}, in run_engine_core',
    "ValueError: No available memory for the cache blocks. {0}",
)
KINDS: dict[str, tuple[float, Callable[[random.Random], str]]] = {
    "one cause": (20, lambda source: _numbered(CAUSES[0], source)),
    "all causes": (30, lambda source: _numbered(source.choice(CAUSES), source)),
    "no two lines alike": (
        120,
        lambda source: _numbered(source.choice(CAUSES), source) + " " + "".join(source.choices("abcdefghij", k=16)),
    ),
}
"""What the lines are, and the most that a diagnosis may take: a multiple of one search."""
WORD = re.compile(r"(?:EngineDeadError|RuntimeError|Killed): ")


def _numbered(line: str, source: random.Random) -> str:
    return line.format(*(source.randrange(60) for _ in range(5)))


def _seconds(call: Callable[[], object]) -> float:
    """Of this process: others on the machine do not count."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def main(argv: Sequence[str]) -> int:
    """Print the multiples; always 0, since a busy machine is not an error."""
    size = float(argv[0]) * 1e6 if argv else 5e6
    diagnose("RuntimeError: the first call compiles the patterns")
    for kind, (limit, line) in KINDS.items():
        source = random.Random(0)  # noqa: S311
        lines = [line(source)]
        lines += [line(source) for _ in range(int(size / len(lines[0])))]
        text = "\n".join(lines)
        one = _seconds(lambda: [WORD.search(line) for line in text.split("\n")])  # noqa: B023
        whole = _seconds(lambda: diagnose(text))  # noqa: B023
        print(f"{kind:20} {len(text) / 1e6:.1f} MB: {whole:.2f} s, {whole / one:.1f} searches a line, limit {limit}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
