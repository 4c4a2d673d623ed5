"""`make release VERSION=0.34.0`: everything that podfit derives from a vLLM release, read out of its wheel's sources.

Writes facts/releases/VERSION.json, and a review to .cache/release. VERSION.md has what is new, gone or changed against
the release before it and what a person must read. VERSION.diff has the changed functions of the memory path. The
sources are kept in .cache/release too. Nothing of vLLM's is imported here; its parser is built in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from packaging.version import Version

from podfit.vllm.args import taught
from podfit.vllm.args.flags import Row
from podfit.vllm.release import Release, parse
from scripts.facts import architectures, details, memory_path, settings
from scripts.facts.pypi import CACHE, sources, uploads, version_beside
from scripts.facts.review import review
from scripts.facts.table import FACTS, ROOT, Extract, extract_text, extracts


def options(folder: Path) -> tuple[dict[str, Row], list[str]]:
    """The options of vLLM's own parser by dest, and what it was built without."""
    command = [sys.executable, "-W", "ignore", "-m", "scripts.facts.stand_ins", str(folder.resolve())]
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{folder}: its parser could not be built:\n{done.stderr[-4000:]}")
    stand_ins = [line for line in done.stderr.splitlines() if line.startswith("stand-in for ")]
    return taught.rows(json.loads(done.stdout)["options"]), stand_ins


def read(release: Release, day: date, folder: Path, beside: str, transformers: Path) -> tuple[Extract, list[str]]:
    """The extract of a release that was uploaded on this day, and what its parser was built without; `transformers`:
    the sources of the version `beside` it."""
    package = folder / "vllm"
    rows, stand_ins = options(folder)
    extract = {
        "release": str(release),
        "source": f"the wheel of vllm=={release} on PyPI",
        "date": day.isoformat(),
        "transformers": beside,
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
    parser = argparse.ArgumentParser(prog="make release", description="read a vLLM release; see facts/README.md")
    parser.add_argument(
        "version",
        help="a release on PyPI, such as 0.34.0; `newest`: the newest, compared with its extract if there is one",
    )
    parser.add_argument("--sources", type=Path, metavar="DIR", help="unpacked wheels: DIR/VERSION/vllm; default: PyPI")
    parser.add_argument(
        "--transformers",
        metavar="VERSION",
        help="its Transformers; default: the first on PyPI that was uploaded a week after it",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if the release differs from its extract")
    parser.add_argument("--facts", type=Path, default=FACTS, metavar="DIR", help="the tables (default: facts/)")
    args = parser.parse_args(argv)
    uploaded = uploads("vllm")
    stable = [one for one in uploaded if not one.is_prerelease]
    release = parse(str(max(stable)) if args.version == "newest" else args.version)
    if release is None or Version(str(release)) not in uploaded:
        parser.error(f"{args.version!r} is not a vLLM release on PyPI such as {max(stable)}")
    known = extracts(args.facts)
    args.check |= args.version == "newest" and release <= max(known)
    before = max((one for one in known if one < release and "options" in known[one]), default=None)
    if before is None:
        parser.error(f"{release} is older than every release in {args.facts}")
    if args.check and release not in known:
        parser.error(f"{release} is not in {args.facts}")
    day = uploaded[Version(str(release))]
    beside = args.transformers or known.get(release, {}).get("transformers")
    beside = beside or str(version_beside(day, uploads("transformers")))
    folder, transformers = (sources(*one, args.sources) for one in (("vllm", str(release)), ("transformers", beside)))
    begun = time.monotonic()
    extract, stand_ins = read(release, day, folder, beside, transformers)
    if args.check:
        old = known[release]
        differ = [
            key
            for key in {**old, **extract}
            if extract_text({"": old.get(key)}) != extract_text({"": extract.get(key)})
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
