"""Build podfit's sdist and wheel, twice, and try the wheel in an empty environment, with the tutorial's commands.

.package/bin/python -m scripts.package [PYTHON…]   (`make package`, which installs `build` and `twine` in .package)

PYTHON: interpreters to install the wheel with; by default the one that runs this. The archives are in dist/.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts import console

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "requirements"
MAX_BASE_BYTES = 35_000_000
"""Of site-packages with byte code, without pip: what a pre-commit hook installs."""
SERVER = "import podfit.cli.serve, podfit.server.app, podfit.server.edge.worker, podfit.cluster.watch, podfit.ui.app"
EXAMPLES = Path("share", "podfit", "examples")
"""In an environment, what the wheel installs there."""
EXPECTED = (
    (("--version",), 0, "podfit {version}\n"),
    (("check", str(EXAMPLES / "good.yaml")), 0, "0 denied"),
    (("check", str(EXAMPLES / "llama-70b-with-32gi.yaml")), 1, "1 denied"),
    (("policy", "show", "strict"), 0, "kind: Policy"),
    (("plan", "Qwen/Qwen3-8B", "--gpu", "l4"), 0, "Qwen/Qwen3-8B"),
    (("scan",), 2, "pip install 'podfit[cluster]'"),
    (("serve",), 2, "pip install 'podfit[server]'"),
    (("ui",), 2, "pip install 'podfit[ui]'"),
)
"""Arguments of podfit, its exit code, and a part of its output."""


def main(pythons: Sequence[str]) -> int:
    """Prints what was built; 1 if an archive differs between two builds or something in it does not work."""
    version = subprocess.run(
        [sys.executable, "-m", "hatchling", "version"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    first = built(dist)
    with TemporaryDirectory() as folder:
        second = built(Path(folder))
    print("\n".join(f"{digest}  dist/{name}" for name, digest in first.items()))
    if first != second:
        print(f"error: two builds differ: {sorted(set(first.items()) ^ set(second.items()))}", file=sys.stderr)
        return 1
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir()], check=True)
    (wheel,) = dist.glob("*.whl")
    problems = [problem for python in pythons or (sys.executable,) for problem in tried(python, wheel, version)]
    print("".join(f"error: {problem}\n" for problem in problems), end="", file=sys.stderr)
    return bool(problems)


def built(folder: Path) -> Mapping[str, str]:
    """Builds the sdist, and the wheel from it; the SHA-256 of each file."""
    log = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    env = os.environ | ({"SOURCE_DATE_EPOCH": log.stdout.strip()} if log.returncode == 0 else {})
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def tried(python: str, wheel: Path, version: str) -> Iterator[str]:
    """Installs the wheel with the pinned dependencies in an environment of its own; what does not work there.

    First the base alone, then with the extras of the image."""
    with TemporaryDirectory() as folder:
        print(f"installing {wheel.name} with {python}", flush=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--require-hashes", "-r", LOCKS / "base.lock"], check=True)
        subprocess.run([*pip, "install", "--no-deps", wheel], check=True)
        yield from (f"{python}: {problem}" for problem in _problems_of_the_base(Path(folder), version))
        subprocess.run([*pip, "install", "--require-hashes", "-r", LOCKS / "server.lock"], check=True)
        if subprocess.run([f"{folder}/bin/python", "-c", SERVER], cwd=folder, check=False).returncode:
            yield f"{python}: the server can't be imported"


def _problems_of_the_base(folder: Path, version: str) -> Iterator[str]:
    for words, code, part in EXPECTED:
        done = subprocess.run([f"{folder}/bin/podfit", *words], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != code or part.format(version=version) not in done.stdout + done.stderr:
            output = (done.stdout + done.stderr)[-500:]
            yield f"podfit {' '.join(words)} ended with {done.returncode}, expected {code}: {output}"
    yield from console.differences(console.TUTORIAL.read_text(), folder / "bin")
    expected = {EXAMPLES / path.name for path in (ROOT / "examples").glob("*.yaml")} | {Path("share/man/man1/podfit.1")}
    yield from (f"{path} is missing" for path in sorted(expected) if not (folder / path).is_file())
    (site,) = folder.glob("lib/python3*/site-packages")
    if not (site / "podfit" / "py.typed").is_file():
        yield "podfit/py.typed is missing"
    installed = {path.name.partition("-")[0].lower().replace("_", "-") for path in site.glob("*.dist-info")}
    pinned = set(re.findall(r"^([a-z-]+)==", (LOCKS / "base.lock").read_text(), re.MULTILINE))
    if installed - {"pip", "setuptools"} != pinned | {"podfit"}:
        yield f"the base installs {sorted(installed)}, expected {sorted(pinned)}"
    files = [path for path in site.rglob("*") if path.is_file() and path.relative_to(site).parts[0][:3] != "pip"]
    size = sum(path.stat().st_size for path in files if not path.relative_to(site).parts[0].startswith("setuptools"))
    if size > MAX_BASE_BYTES:
        yield f"the base takes {size:,} bytes, expected at most {MAX_BASE_BYTES:,}"
    print(f"the base takes {size / 1e6:.1f} MB in {len(pinned)} packages and podfit", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
