"""Sets of facts that differ from the packaged ones in one model."""

from __future__ import annotations

from pathlib import Path

from podfit.base import facts_set
from podfit.base.data import Tables
from scripts.facts.table import DATA

NEW = "acme/new"
"""A model that only a newer set knows."""
LARGE, SMALL = "meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"


def files(model: str, like: str, name: str) -> dict[str, bytes]:
    """A set in which `model` is what `like` is in the packaged one."""
    tables = {table: (DATA / f"{table}.json").read_bytes() for table in facts_set.NAMES}
    lines = tables["models"].decode().split("\n")
    row = next(line for line in lines if line.startswith(f'"{like}": '))
    lines = [line for line in lines if not line.startswith(f'"{model}": ')]
    at = lines.index('"models": {') + 1
    lines.insert(at, row.rstrip(",").replace(f'"{like}"', f'"{model}"', 1) + ",")
    tables["models"] = "\n".join(lines).encode()
    digests = facts_set.digests(tables, name).encode()
    return {f"{table}.json": content for table, content in tables.items()} | {facts_set.DIGESTS: digests}


def tables(model: str, like: str, name: str = "newer") -> Tables:
    """The same, verified."""
    return facts_set.of_files(files(model, like, name))


def write(folder: Path, model: str, like: str, name: str) -> None:
    """The same in a folder, its digest file last."""
    folder.mkdir(exist_ok=True)
    for file, content in files(model, like, name).items():
        (folder / file).write_bytes(content)
