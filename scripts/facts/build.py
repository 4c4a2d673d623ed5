"""`make facts`: checks facts/ and builds webhook/podfit/data/*.json from it; `--check` names the stale ones."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from podfit.vllm.release import Release
from scripts.facts import architectures, checks, flags, gpus, models, settings
from scripts.facts.table import DATA, FACTS, ROOT, Entry, Extract, by_row, entries, extracts


def tables(folder: Path = FACTS) -> Iterator[tuple[str, str]]:
    """(name, text) of each file of webhook/podfit/data. Each may be written before the next is built:
    what a model's sizes prove is computed with the packaged defaults of its type."""
    read = extracts(folder)
    builders: dict[str, Callable[[], str]] = {
        "releases.json": lambda: releases(read, folder),
        "gpus.json": lambda: by_row(gpus.gpus(folder)),
        "instances.json": lambda: by_row(gpus.instances(folder)),
        "model_defaults.json": lambda: by_row(models.defaults(folder)),
        "models.json": lambda: by_row(models.models(folder)),
        "recipes.json": lambda: by_row(recipes(folder)),
    }
    for name, build in builders.items():
        yield name, build()
    yield "facts.json", json.dumps({"generated": newest(folder)}) + "\n"


def releases(known: Mapping[Release, Extract], folder: Path = FACTS) -> str:
    """releases.json: the newest release that was read, the day of each release's wheel, and the tables of images whose
    tag is not vLLM's number, options, other settings and architectures."""
    dates = {str(release): extract["date"] for release, extract in known.items()}
    read = json.loads((folder / "read.json").read_text(encoding="utf-8"))["release"]
    rows = [{key: row[key] for key in ("image", "release", "source")} for row in entries("images", folder)]
    listed = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    tables_ = {
        "flags": flags.text(flags.build(known)),
        "settings": settings.text(settings.build(known)),
        "architectures": architectures.text(architectures.build(known)),
    }
    rest = ",\n".join(f'"{name}":{text.rstrip()}' for name, text in tables_.items())
    return f'{{\n"read": {json.dumps(read)},\n"dates": {json.dumps(dates)},\n"images":[\n{listed}\n],\n{rest}\n}}\n'


def recipes(folder: Path = FACTS) -> dict[str, Entry]:
    """The id of each model with a recipe, and of its copies, in lower case → the recipe."""
    named: dict[str, Entry] = {}
    for row in entries("recipes", folder):
        recipe = {key: value for key, value in row.items() if key not in ("copies", "date")}
        named |= {name.lower(): recipe for name in (row["id"], *row.get("copies", ()))}
    return named


def newest(folder: Path = FACTS) -> str:
    """The month in which the newest entry was read."""
    return max(str(entry["date"])[:7] for path in folder.glob("*.jsonl") for entry in entries(path.stem, folder))


def main(argv: list[str]) -> int:
    """Writes what is stale, or names it; 1 if something of facts/ can't be right."""
    parser = argparse.ArgumentParser(prog="scripts.facts.build", description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(argv)
    today = datetime.now(UTC).date().isoformat()
    try:
        wrong = checks.field_problems(today)
    except ValueError as error:  # a line that is not JSON
        wrong = [str(error)]
    if wrong:
        return _refused(wrong, "nothing is written")
    stale = False
    for name, text in tables():
        path = DATA / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale = True
        print(f"{'stale' if args.check else 'wrote'} {path.relative_to(ROOT)}")
        if not args.check:
            path.write_text(text, encoding="utf-8")
    if args.check and stale:
        print("run `make facts`")
    if wrong := checks.problems(today):  # sizes are checked with the packaged defaults of their type
        return _refused(wrong, "correct facts/")
    return int(args.check and stale)


def _refused(wrong: list[str], what: str) -> int:
    print("\n".join([*wrong, what]), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
