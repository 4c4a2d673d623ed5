"""What can't be right in the tables of facts/: names that are taken, dates, sizes that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from scripts.facts import fields, hardware_checks, model_checks, release_checks
from scripts.facts.models import UNKNOWN, corrected
from scripts.facts.table import FACTS, Entry, entries, extracts


def problems(today: str, folder: Path = FACTS) -> list[str]:
    """`table: entry: problem (value, expected)`, one line for each; `today` is YYYY-MM-DD."""
    if found := field_problems(today, folder):  # the rest reads the fields
        return found
    models = [{**UNKNOWN, **row} for row in entries("models", folder)]
    known = {name.lower() for row in models for name in (row["id"], *row["aliases"])}
    gpus = {row["name"]: row for row in entries("gpus", folder)}
    instances, releases = entries("instances", folder), extracts(folder)
    compared = model_checks.known(models, entries("model_types", folder), releases.values())
    found = [*_taken(models, folder), *_corrected(compared, folder)]
    relatives = {row["id"].lower() for row in entries("relatives", folder)}
    for row in models:
        found += [f"models: {row['id']}: {why}" for why in model_checks.model_problems(row, compared)]
        if row["base"] and row["base"].lower() not in known | relatives:
            found.append(f"models: {row['id']}: no such model as its base {row['base']}")
    for row in entries("checkpoints", folder):
        found += [f"checkpoints: {row['id']}: {why}" for why in model_checks.checkpoint_problems(row)]
    for name in ("checkpoints", "corrections"):
        found += [
            f"{name}: {row['id']}: no such model" for row in entries(name, folder) if row["id"].lower() not in known
        ]
    found += [
        f"relatives: {row['id']}: no such model as its base {row['base']}"
        for row in entries("relatives", folder)
        if row["base"].lower() not in known or row["base"].lower() == row["id"].lower()
    ]
    for row in entries("relatives", folder):
        found += [f"relatives: {row['id']}: {why}" for why in model_checks.relative_problems(row)]
    for row in entries("model_types", folder):
        found += [f"model_types: {row['model_type']}: {why}" for why in model_checks.default_problems(row["defaults"])]
    for row in gpus.values():
        found += [f"gpus: {row['name']}: {why}" for why in hardware_checks.gpu_problems(row)]
    found += [f"gpus: {name}: {why}" for name, why in hardware_checks.capability_problems(gpus.values())]
    for row in entries("mig", folder):
        found += [f"mig: {row['gpu']} {row['profile']}: {why}" for why in hardware_checks.mig_problems(row, gpus)]
    for row in instances:
        found += [f"instances: {row['type']}: {why}" for why in hardware_checks.instance_problems(row, gpus)]
    found += [f"instances: {name}: {why}" for name, why in hardware_checks.size_problems(instances, gpus)]
    found += release_checks.read_problems(folder, releases)
    found += [f"images: {why}" for why in release_checks.image_problems(entries("images", folder), releases)]
    return found + [f"releases: {why}" for why in release_checks.extract_problems(releases, today)]


def field_problems(today: str, folder: Path = FACTS) -> list[str]:
    """The same, of single fields alone: without them the tables can't be built. Raises ValueError for a line that is no
    JSON."""
    return [*_fields(folder), *_dates(today, folder)]


def _fields(folder: Path) -> Iterator[str]:
    for table in fields.TABLES:
        for number, row in enumerate(entries(table, folder), 1):
            yield from (f"{table}: line {number}: {why}" for why in fields.problems(table, row))


def _corrected(compared: model_checks.Known, folder: Path) -> Iterator[str]:
    """Keys of corrections that no config has, and what a correction contradicts."""
    keys = {key for row in compared.models.values() for key in _keys(row["config"])}
    for row in entries("corrections", folder):
        for key in sorted({*_keys(row["changes"])} - keys):
            yield f"corrections: {row['id']}: no config.json has {key!r}"
        if (model := compared.models.get(row["id"])) is not None:
            whole = {**model, "config": corrected(model, row["changes"], compared.models)}
            yield from (f"corrections: {row['id']}: {why}" for why in model_checks.model_problems(whole, compared))


def _keys(config: Mapping[str, Any]) -> Iterator[str]:
    for key, value in config.items():
        yield key
        if isinstance(value, Mapping):
            yield from _keys(value)


def _dates(today: str, folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.jsonl")):
        for number, row in enumerate(entries(path.stem, folder), 1):
            read = str(row.get("date"))
            if not _is_date(read) or read > today:
                yield f"{path.stem}: line {number}: date {read!r}, expected YYYY-MM or YYYY-MM-DD, not after {today}"
            if not row.get("source") and path.stem != "corrections":
                yield f"{path.stem}: line {number}: no source"


def _is_date(text: str) -> bool:
    """Whether it is YYYY-MM or a day of the calendar, of this century."""
    if not re.fullmatch(r"20\d\d-\d\d(-\d\d)?", text):
        return False
    try:
        return bool(date.fromisoformat(text if len(text) > 7 else f"{text}-01"))
    except ValueError:
        return False


BY_ID = ("checkpoints", "corrections", "gated", "relatives")
"""Tables whose entries have the id of a model."""


def _taken(models: Iterable[Entry], folder: Path) -> Iterator[str]:
    """Names that two entries have."""
    names = {
        "models": [name for row in models for name in (row["id"], *row["aliases"])],
        "gpus": [row["name"] for row in entries("gpus", folder)],
        "instances": [row["type"] for row in entries("instances", folder)],
        "images": [row["image"] for row in entries("images", folder)],
        "mig": [f"{row['gpu']} {row['profile']}" for row in entries("mig", folder)],
        **{
            name: [row["id"] for row in entries(name, folder)]
            for name in ("checkpoints", "corrections", "gated", "relatives")
        },
        "model_types": [row["model_type"] for row in entries("model_types", folder)],
    }
    for table, all_names in names.items():
        seen: set[str] = set()
        for name in all_names:
            if name.lower() in seen:
                yield f"{table}: {name}: two entries have this name"
            seen.add(name.lower())
