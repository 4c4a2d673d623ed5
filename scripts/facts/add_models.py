"""`make models IDS="…"` or `IDS=FILE`: entries of facts/models.jsonl, read from config.json and safetensors files.

A model is an id of the local Hugging Face cache or the hub, or `ID=FOLDER`. FILE has one per line. Nothing is guessed:
a model without its own config.json, or without counted weights, is rejected, and so is one whose sizes
contradict each other (scripts/facts/model_checks.py). If one is rejected, nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from podfit.cli.support.checkpoints import locate
from podfit.cli.support.edge import UnusableError
from podfit.vllm.facts import GivenModel
from podfit.vllm.model import from_config
from scripts.facts import model_checks, settle
from scripts.facts.models import UNKNOWN
from scripts.facts.reduce import useful
from scripts.facts.table import FACTS, Entry, entries, extracts, write_entries


def entry(name: str, found: GivenModel, today: str) -> tuple[Entry, Entry | None]:
    """The model's entry, and that of its checkpoint if each dtype was counted. Raises ValueError for what would be a
    guess."""
    config = {key: value for key, value in found.config.items() if key != "podfit"}
    if name.count("/") != 1 or name.startswith(("/", ".")):
        raise ValueError(f"{name}: not an id such as acme/chat-9b. Fix: ID=FOLDER")
    for key in ("architectures", "model_type"):
        if not config.get(key):
            raise ValueError(f"{name}: config.json: {key} is missing")
    shape = from_config(name, config)
    missing = [key for key in model_checks.NEEDED if getattr(shape, key) is None]
    if missing:
        raise ValueError(f"{name}: config.json: {', '.join(missing)} can't be read")
    counted = found.counted
    if counted.weights_bytes is None:
        raise ValueError(f"{name}: no safetensors files and no index: its bytes would be a guess")
    row = {
        "id": name,
        "config": useful(config),
        "parameters": counted.parameters,
        "weights_bytes": counted.weights_bytes,
        "confidence": "file",
        "trusted": True,
        "source": [
            f"config.json and {'safetensors' if counted.dtype_parameters else 'the safetensors index'} of {name}"
        ],
        "date": today,
    }
    checkpoint = {
        "id": name,
        "param_count": counted.parameters,
        "weight_bytes": counted.weights_bytes,
        "dtype_params": dict(counted.dtype_parameters),
        "expert_bytes": counted.expert_bytes,
        "source": f"headers of the safetensors files of {name}",
        "date": today,
    }
    return _known(row), _known(checkpoint) if counted.dtype_parameters else None


def _known(row: Mapping[str, Any]) -> Entry:
    return {key: value for key, value in row.items() if value is not None}


def problems(row: Entry, checkpoint: Entry | None, known: model_checks.Known) -> Iterator[str]:
    """Why an entry can't be right."""
    whole = {**UNKNOWN, **row}
    yield from (f"{row['id']}: {why}" for why in model_checks.model_problems(whole, known))
    if checkpoint is not None:
        yield from (f"{row['id']}: {why}" for why in model_checks.checkpoint_problems(checkpoint))
    if settle.is_quantised(row["config"]) or "parameters" in row:
        return
    if checkpoint is None and model_checks.parameters_by_bytes(whole) is None:
        yield f"{row['id']}: only an index, and its config.json has no dtype: nothing to compare its bytes with"
    if checkpoint is not None:
        yield f"{row['id']}: packed weights, but its config.json has no quantization_config"


def wanted(words: list[str]) -> Iterator[tuple[str, str]]:
    """(id, where it is read): words, of which one that is a file holds one per line."""
    for word in words:
        lines = Path(word).read_text(encoding="utf-8").splitlines() if Path(word).is_file() else [word]
        for line in lines:
            text = line.partition("#")[0].strip()
            name, _, folder = text.partition("=")
            if text:
                yield name, folder or name


def add(words: list[str], today: str, folder: Path = FACTS) -> list[str]:
    """Adds the entries, or none of them; returns what is wrong."""
    models, checkpoints = entries("models", folder), entries("checkpoints", folder)
    known = model_checks.known(
        ({**UNKNOWN, **row} for row in models), entries("model_types", folder), extracts(folder).values()
    )
    taken = {name.lower() for row in models for name in (row["id"], *row.get("aliases", ()))}
    wrong = []
    for name, place in wanted(words):
        try:
            row, checkpoint = entry(name, locate(place)[1], today)
        except UnusableError as error:
            wrong += error.lines
            continue
        except ValueError as error:
            wrong.append(str(error))
            continue
        if name.lower() in taken:
            wrong.append(f"{name}: an entry has this name. Fix: correct it in facts/corrections.jsonl")
        taken.add(name.lower())
        wrong += problems(row, checkpoint, known)
        models.append(row)
        checkpoints += [checkpoint] if checkpoint else []
    if not wrong:
        for table, rows in (("models", models), ("checkpoints", checkpoints)):
            write_entries(table, sorted(rows, key=lambda row: str(row["id"]).lower()), folder)
    return wrong


def main(argv: list[str]) -> int:
    """Adds the models that are named; 1 if one is rejected."""
    wrong = add(argv, datetime.now(UTC).date().isoformat())
    for line in wrong:
        print(line, file=sys.stderr)
    print("nothing is written" if wrong else "next: make facts docs test")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if sys.argv[1:] else __doc__)
