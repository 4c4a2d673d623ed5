"""Packages on PyPI: the Python sources of a wheel, and when each version was uploaded."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import requests
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from scripts.facts.table import ROOT

CACHE = ROOT / ".cache" / "release"
WHEEL = ("--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_31_x86_64",
         "--platform=manylinux1_x86_64", "--platform=any", "--python-version=3.12")  # fmt: skip
"""The wheel for the usual image, whatever machine this runs on."""
INDEX = "https://pypi.org/simple"
"""pip's default; PIP_INDEX_URL is another."""
FILES = "application/vnd.pypi.simple.v1+json"
"""The index as JSON, with `upload-time` (https://packaging.python.org/specifications/simple-repository-api/)."""
LATER = timedelta(days=7)
"""An image contains no Transformers newer than itself, but one newer than vLLM's wheel. Its types are read from
the first version that was uploaded so long after the wheel."""


def uploads(package: str) -> dict[Version, date]:
    """Version → the day (UTC) on which its first wheel was uploaded, oldest version first. Raises SystemExit."""
    url = f"{os.environ.get('PIP_INDEX_URL', INDEX).rstrip('/')}/{package}/"
    try:
        answer = requests.get(url, headers={"Accept": FILES}, timeout=60)
        answer.raise_for_status()
        return days(answer.json()["files"])
    except (requests.RequestException, ValueError, KeyError) as error:
        why = str(error) if isinstance(error, requests.RequestException) else f"not {FILES} with upload-time"
        raise SystemExit(f"{url}: when {package} was uploaded can't be read ({why})") from error


def days(files: Iterable[Mapping[str, Any]]) -> dict[Version, date]:
    """The same, of the files of an index that are not yanked. Raises KeyError for one that does not say when."""
    found: dict[Version, date] = {}
    for file in files:
        try:
            _, version, _, _ = parse_wheel_filename(file["filename"])
        except InvalidWheelFilename:  # a source distribution, or a wheel from before names were checked
            continue
        if file.get("yanked"):
            continue
        day = date.fromisoformat(file["upload-time"][:10])
        found[version] = min(day, found.get(version, day))
    return dict(sorted(found.items()))


def version_beside(released: date, uploaded: Mapping[Version, date]) -> Version:
    """The version of Transformers whose types are those that an image of this release can know at most."""
    stable = {version: day for version, day in uploaded.items() if not version.is_prerelease}
    then = max((version for version, day in stable.items() if day <= released), default=Version("0"))
    later = [version for version, day in stable.items() if version > then and day >= released + LATER]
    return min(later, default=max(stable))


def sources(package: str, version: str, given: Path | None = None) -> Path:
    """The folder that holds `package/`: given, in the cache, or fetched."""
    for folder in ((given / version,) if given else ()) + (CACHE / f"{package}-{version}",):
        if (folder / package).is_dir():
            return folder
    return fetch(package, version, CACHE)


def fetch(package: str, version: str, folder: Path) -> Path:
    """The Python sources of a package's wheel: `folder`/PACKAGE-VERSION. Raises SystemExit.

    pip asks the index that it is configured for, and checks the wheel's hash.
    """
    target = folder / f"{package}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run([*pip, *WHEEL, f"--dest={made}", f"{package}=={version}"])
        if done.returncode:
            raise SystemExit(f"{package}=={version}: pip can't download its wheel")
        (wheel,) = Path(made).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            files = [name for name in archive.namelist() if name.startswith(f"{package}/") and name.endswith(".py")]
            archive.extractall(Path(made) / "sources", files)
        (Path(made) / "sources").rename(target)  # whole, or not there
    return target
