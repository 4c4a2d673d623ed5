"""How the tables of `facts/` and `webhook/podfit/data` are read and written: one entry a line, so that diffs read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podfit.vllm.release import Release, parse

ROOT = Path(__file__).parent.parent.parent
FACTS = ROOT / "facts"
DATA = ROOT / "webhook" / "podfit" / "data"

Entry = dict[str, Any]
"""One line of a table of `facts/`; `source` and `date` say where and when it was read."""
Extract = dict[str, Any]
"""What podfit derives from one release of vLLM: facts/releases/VERSION.json."""


def entries(name: str, folder: Path = FACTS) -> list[Entry]:
    """The entries of `facts/NAME.jsonl`. Raises ValueError for a line that is not one, naming file and line."""
    path = folder / f"{name}.jsonl"
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from error
        if not isinstance(entry, dict):
            raise ValueError(f"{path}:{number}: expected an object")
        found.append(entry)
    return found


def write_entries(name: str, found: list[Entry], folder: Path = FACTS) -> None:
    """Writes `facts/NAME.jsonl`."""
    text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in found)
    (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def extracts(folder: Path = FACTS) -> dict[Release, Extract]:
    """The releases that were read, oldest first."""
    found = {}
    for path in (folder / "releases").glob("*.json"):
        release = parse(path.stem)
        if release is None:
            raise ValueError(f"{path}: not the name of a vLLM release")
        found[release] = json.loads(path.read_text(encoding="utf-8"))
    return dict(sorted(found.items()))


def extract_text(extract: Extract) -> str:
    """An extract as its file has it."""
    return _indented(extract, 0) + "\n"


def _indented(value: Any, depth: int) -> str:
    """JSON with a line for each name and option; what is short stays on its line."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or (depth > 1 and len(text) <= 100):
        return text
    inside = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        rows = [f"{json.dumps(key, ensure_ascii=False)}: {_indented(one, depth + 1)}" for key, one in value.items()]
        return "{" + inside + f",{inside}".join(rows) + "\n" + " " * depth + "}"
    return "[" + inside + f",{inside}".join(_indented(one, depth + 1) for one in value) + "\n" + " " * depth + "]"


def short(source: str) -> str:
    """A source that stays readable: the revision and the file."""
    return source if len(source) <= 160 else source[:157] + "…"


def add_span(spans: list[list[Any]], number: int, *what: Any) -> None:
    """Adds a release to the spans `[first, last, *what]` of releases in which something holds."""
    if spans and spans[-1][1] == number - 1 and spans[-1][2:] == [*what]:
        spans[-1][1] = number
    else:
        spans.append([number, number, *what])


def compact(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def by_row(table: Mapping[str, Any]) -> str:
    """JSON with one row a line: `podfit.base.data.rows` parses only the rows asked for."""

    def rows(value: Any) -> str:
        if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
            return "{\n" + ",\n".join(f"{compact(key)}: {compact(one)}" for key, one in value.items()) + "\n}"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[\n" + ",\n".join(compact(one) for one in value) + "\n]"
        return compact(value)

    return "{\n" + ",\n".join(f"{compact(key)}: {rows(value)}" for key, value in table.items()) + "\n}\n"
