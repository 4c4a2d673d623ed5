"""`make release VERSION=0.34.0`: everything that podfit derives from a vLLM release, read out of its wheel's sources.

Writes facts/releases/VERSION.json, and a review to .cache/release: VERSION.md with what is new, gone or changed against
the release before it and what a person must read, VERSION.diff with the changed functions of the memory path. The
sources are kept in .cache/release too. Nothing of vLLM's is imported here; its parser is built in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from scripts.facts import architectures, details, memory_path, settings
from scripts.facts.review import review
from scripts.facts.table import FACTS, ROOT, Extract, extract_text, extracts
from webhook.vllm.args import taught
from webhook.vllm.args.flags import Row
from webhook.vllm.release import Release, parse

CACHE = ROOT / ".cache" / "release"
WHEEL = ("--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_31_x86_64",
         "--platform=manylinux1_x86_64", "--platform=any", "--python-version=3.12")  # fmt: skip
"""The wheel for the usual image, whatever machine this runs on."""


def fetch(package: str, version: str | None, folder: Path) -> Path:
    """The Python sources of a package's wheel on PyPI, the newest without `version`, with the wheel's own dates.

    pip asks the index that it is configured for, and checks the wheel's hash.
    """
    wheels = folder / "wheels"
    wanted = f"{package}=={version}" if version else package
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, *WHEEL, f"--dest={wheels}", wanted], check=True)
    (wheel,) = wheels.glob(f"{package}-*.whl")
    target = folder / "-".join(wheel.name.split("-")[:2])
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.filename.startswith(f"{package}/") and member.filename.endswith(".py"):
                path = Path(archive.extract(member, target))
                written = time.mktime((*member.date_time, 0, 0, -1))
                os.utime(path, (written, written))
    wheel.unlink()
    return target


def sources(package: str, version: str | None, given: Path | None) -> Path:
    """The folder that holds `package/`: given, in the cache, or fetched."""
    for folder in ((given / str(version),) if given else ()) + ((CACHE / f"{package}-{version}",) if version else ()):
        if (folder / package).is_dir():
            return folder
    return fetch(package, version, CACHE)


def options(folder: Path) -> tuple[dict[str, Row], list[str]]:
    """The options of vLLM's own parser by dest, and what it was built without."""
    command = [sys.executable, "-W", "ignore", "-m", "scripts.facts.stand_ins", str(folder.resolve())]
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{folder}: its parser could not be built:\n{done.stderr[-4000:]}")
    stand_ins = [line for line in done.stderr.splitlines() if line.startswith("stand-in for ")]
    return taught.rows(json.loads(done.stdout)["options"]), stand_ins


def read(release: Release, folder: Path, transformers: Path) -> tuple[Extract, list[str]]:
    """The extract of a release, and what its parser was built without."""
    package = folder / "vllm"
    rows, stand_ins = options(folder)
    written = time.localtime((package / "engine" / "arg_utils.py").stat().st_mtime)
    extract = {
        "release": str(release),
        "source": f"the wheel of vllm=={release} on PyPI",
        "date": time.strftime("%Y-%m-%d", written),
        "transformers": transformers.name.removeprefix("transformers-"),
        "underscores": True,  # since 0.5.4
        "options": rows,
        **settings.read(package, rows),
        **architectures.read(package),
        "model_types": architectures.model_types(transformers / "transformers"),
        **details.read(package),
    }
    return extract, stand_ins


def main(argv: list[str]) -> int:
    """Writes the extract and the review."""
    parser = argparse.ArgumentParser(prog="make release", description="read a vLLM release; see docs/releases.md")
    parser.add_argument("version", help="a release on PyPI, such as 0.34.0; `newest`: the newest")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="unpacked wheels: DIR/VERSION/vllm; default: PyPI")
    parser.add_argument("--transformers", metavar="VERSION", help="its Transformers; default: the newest on PyPI")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if the release differs from its extract")
    parser.add_argument("--facts", type=Path, default=FACTS, metavar="DIR", help="the tables (default: facts/)")
    args = parser.parse_args(argv)
    version = None if args.version == "newest" else args.version
    folder = sources("vllm", version, args.sources)
    release = parse(version or folder.name.removeprefix("vllm-"))
    if release is None:
        parser.error(f"{args.version!r} is not a vLLM release such as 0.34.0")
    known = extracts(args.facts)
    if version is None and release <= max(known):
        print(f"vLLM {release} is known")
        return 0
    before = max((one for one in known if one < release and "options" in known[one]), default=None)
    if before is None:
        parser.error(f"{release} is older than every release in {args.facts}")
    if args.check and release not in known:
        parser.error(f"{release} is not in {args.facts}")
    beside = args.transformers or (known.get(release, {}).get("transformers") if args.check else None)
    begun = time.monotonic()
    extract, stand_ins = read(release, folder, sources("transformers", beside, args.sources))
    if args.check:
        differ = [
            key
            for key in {**known[release], **extract}
            if key != "date" and known[release].get(key) != extract.get(key)
        ]
        print(f"vLLM {release}, read in {time.monotonic() - begun:.0f} s: {', '.join(differ) or 'nothing'} differs")
        return int(bool(differ))
    changed = memory_path.difference(sources("vllm", str(before), args.sources) / "vllm", folder / "vllm")
    CACHE.mkdir(parents=True, exist_ok=True)
    (args.facts / "releases" / f"{release}.json").write_text(extract_text(extract), encoding="utf-8")
    (CACHE / f"{release}.md").write_text(review(known[before], extract, changed, stand_ins), encoding="utf-8")
    diffs = "".join(f"{name}\n{text}\n\n" for name, text in changed.items())
    (CACHE / f"{release}.diff").write_text(diffs, encoding="utf-8")
    print(f"wrote {args.facts / 'releases' / f'{release}.json'}")
    print(f"wrote {CACHE / f'{release}.md'}: {len(changed)} functions of the memory path to read, in {release}.diff")
    print(f"read in {time.monotonic() - begun:.0f} s; next: make facts docs test")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
