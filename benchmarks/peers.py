"""`podfit check`, kube-linter and checkov on the same files in one run, and what Python itself takes.

python -m benchmarks.peers DIR [RUNS] needs `kube-linter` (a build of github.com/stackrox/kube-linter) and
`checkov` (pip, in an environment of its own) on the PATH. A missing one is left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

SHARE = {"checkov": 1 / 5, "kube-linter": 3.0}
"""Of the peer's wall time, what `podfit check` may take at most."""
FLOOR, FACTOR = 0.3, 3.0
"""Seconds of one file, or so many times `python -c 'import yaml'`: whichever is more."""


def main(argv: Sequence[str]) -> int:
    """Prints seconds, the least of each command's runs, which take turns; 1 where a limit is missed."""
    if not argv:
        print(__doc__)
        return 2
    folder, runs = Path(argv[0]), int(argv[1]) if len(argv) > 1 else 5
    python = str(Path(sys.executable))
    podfit = str(Path(sys.executable).with_name("podfit"))
    files = sum(1 for path in folder.rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
    all_files = {
        "podfit": [podfit, "check", str(folder)],
        "kube-linter": ["kube-linter", "lint", str(folder)],
        "checkov": ["checkov", "--framework", "kubernetes", "--quiet", "--compact", "-d", str(folder)],
    }
    there = {name: words for name, words in all_files.items() if shutil.which(words[0])}
    for name in all_files.keys() - there.keys():
        print(f"{name} is not on the PATH: left out")
    took = _least(there, runs)
    missed = False
    print(f"{files} files, the least of {runs} runs that take turns")
    for name, seconds in took.items():
        share = SHARE.get(name)
        word = f"  podfit takes {took['podfit'] / seconds:.2f} of it, {share:.2g} at most" if share else ""
        missed |= share is not None and took["podfit"] > share * seconds
        print(f"  {name:<12} {seconds:6.2f} s{word}")
    one = sorted(path for path in folder.rglob("*.yaml"))[0]
    alone = _least({"podfit": [podfit, "check", str(one)], "yaml": [python, "-c", "import yaml"]}, 2 * runs)
    limit = max(FLOOR, FACTOR * alone["yaml"])
    missed |= alone["podfit"] > limit
    print(
        f"one file: podfit {alone['podfit']:.3f} s, `import yaml` {alone['yaml']:.3f} s; at most {limit:.3f} s\n"
        + ("MISSED" if missed else "all within their limits")
    )
    return int(missed)


def _least(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, float]:
    """Wall seconds: the least of each, so that what else the machine does counts least."""
    found: dict[str, float] = {}
    for _ in range(runs):
        for name, words in commands.items():
            begun = time.perf_counter()
            subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            found[name] = min(found.get(name, float("inf")), time.perf_counter() - begun)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
