"""What vLLM's code runs with: torch in an environment of its own, Transformers by release, and vLLM's sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from podfit.vllm.release import Release
from scripts.facts.pypi import sources
from scripts.facts.table import ROOT

CACHE = ROOT / ".cache" / "oracle"
LIMIT = 40 << 30
"""Bytes that the sources of vLLM's releases may take; the releases that were read longest ago go first."""
LIBRARIES: Sequence[tuple[Release, tuple[str, ...]]] = (
    (Release(0, 0), ("transformers==4.49.0", "compressed-tensors==0.9.1")),
    (Release(0, 8, 3), ("transformers==4.51.3", "compressed-tensors==0.9.4")),
    (Release(0, 9), ("transformers==4.53.3", "compressed-tensors==0.10.2")),
    (Release(0, 10, 1), ("transformers==4.55.4", "compressed-tensors==0.10.2")),
    (Release(0, 10, 2), ("transformers==4.56.2", "compressed-tensors==0.11.0")),
    (Release(0, 11), ("transformers==4.57.6", "compressed-tensors==0.11.0")),
    (Release(0, 19), ("transformers==5.5.4",)),
    (Release(0, 25), ("transformers==5.23.0",)),
)
"""Since which release which libraries: as new as those of its image, for a newer Transformers knows more models."""


def libraries(release: Release) -> tuple[str, ...]:
    """The libraries that differ by release."""
    return [found for since, found in LIBRARIES if release >= since][-1]


def python() -> Path:
    """The interpreter of the oracle's environment, which is made on the first call: 7.5 GiB, some minutes."""
    home = CACHE / "venv"
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        print(f"installing torch and what vLLM imports into {home}, once", flush=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        _pip(home, "-r", str(Path(__file__).with_name("requirements.txt")))
        (home / "complete").touch()
    return home / "bin" / "python"


def site(release: Release) -> Path:
    """The folder with the libraries that differ by release, installed on the first call."""
    wanted = libraries(release)
    target = CACHE / "libraries" / "-".join(wanted)
    if not (target / "complete").exists():
        shutil.rmtree(target, ignore_errors=True)
        print(f"installing {' '.join(wanted)}", flush=True)
        _pip(CACHE / "venv", "--target", str(target), "numpy<2.3", wanted[0])
        if wanted[1:]:
            _pip(CACHE / "venv", "--target", str(target), "--no-deps", *wanted[1:])
        (target / "complete").touch()
    return target


def _pip(home: Path, *arguments: str) -> None:
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *arguments], check=True)


def folder(release: Release, given: Path | None) -> Path:
    """The folder that holds the release's `vllm/`, fetched as `make release` does; older ones make room."""
    found = sources("vllm", str(release), given)
    if given is None or given not in found.parents:
        trim(found.parent, LIMIT, keep=found)
    return found


def size(path: Path) -> int:
    """Bytes of the files under a folder."""
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())


def trim(cache: Path, limit: int, keep: Path) -> list[Path]:
    """Removes the folders of vLLM's releases that were made first until the rest fits; returns what it removed."""
    folders = sorted((one for one in cache.glob("vllm-*") if one.is_dir()), key=lambda one: one.stat().st_mtime)
    total = sum(map(size, folders))
    removed = []
    for one in folders:
        if total <= limit:
            break
        if one != keep:
            total -= size(one)
            shutil.rmtree(one)
            removed.append(one)
    return removed
