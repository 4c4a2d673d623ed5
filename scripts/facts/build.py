"""`make facts`: builds webhook/data/*.json from facts/; `--check` names the stale ones."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from scripts.facts import architectures, flags, gpus, models, settings
from scripts.facts.table import DATA, FACTS, ROOT, Extract, by_row, entries, extracts


def tables(folder: Path = FACTS) -> dict[str, str]:
    """The name of each file of webhook/data → its text."""
    read = extracts(folder)
    built = {
        "architectures.json": architectures.text(architectures.build(read)),
        "flags.json": flags.text(flags.build(read)),
        "gpus.json": by_row(gpus.gpus(folder)),
        "instances.json": by_row(gpus.instances(folder)),
        "model_defaults.json": by_row(models.defaults(folder)),
        "models.json": by_row(models.models(folder)),
        "releases.json": images(folder),
        "settings.json": settings.text(settings.build(read)),
    }
    last = next(extract for extract in reversed(read.values()) if "options" in extract)
    return {**built, "facts.json": version(built, newest(folder), last)}


def images(folder: Path = FACTS) -> str:
    """Images whose tag is not vLLM's number → the release in them."""
    rows = [{key: row[key] for key in ("image", "release", "source")} for row in entries("images", folder)]
    return '{\n"images":[\n' + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n}\n"


def newest(folder: Path = FACTS) -> str:
    """The month in which the newest entry was read."""
    return max(str(entry["date"])[:7] for path in folder.glob("*.jsonl") for entry in entries(path.stem, folder))


def version(built: Mapping[str, str], generated: str, last: Extract) -> str:
    """facts.json: one short hash of every other table, the month of the newest entry, and the newest vLLM release."""
    digest = hashlib.sha256()
    for name, text in sorted(built.items()):
        digest.update(f"{name}\0".encode() + text.encode() + b"\0")
    said = {
        "version": digest.hexdigest()[:12],
        "generated": generated,
        "vllm": last["release"],
        "released": last["date"],
    }
    return json.dumps(said) + "\n"


def main(argv: list[str]) -> int:
    """Writes what is stale, or names it."""
    check = argv == ["--check"]
    stale = [
        path
        for name, text in tables().items()
        if not (path := DATA / name).exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        print(f"{'stale' if check else 'wrote'} {path.relative_to(ROOT)}")
    if not check:
        built = tables()
        for path in stale:
            path.write_text(built[path.name], encoding="utf-8")
    elif stale:
        print("run `make facts`")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
