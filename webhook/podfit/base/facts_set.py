"""A set of tables that `make facts` built elsewhere: its digest file, and its verification.

A set is a folder with the tables of `webhook/podfit/data` and `digests.json`:

| field | value |
| --- | --- |
| `schema` | `SCHEMA` of the podfit that built it |
| `name` | the set's name, for logs and audit annotations |
| `generated`, `vllm`, `released` | as in facts.json: how new the set is |
| `sha256` | file → the SHA-256 of its bytes; all files of the set, and no others |

The files are read by their fixed names, never by a name from the set.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from podfit.base.data import Tables

SCHEMA = 1
"""Version of what the tables' fields mean: a set of another version is rejected."""
NAMES = (
    "architectures", "facts", "flags", "gpus", "instances", "model_defaults", "models", "releases", "settings",
)  # fmt: skip
"""The tables of a set; `facts` says how new the others are."""
DIGESTS = "digests.json"
"""The file of a set that names it and has the SHA-256 of each table."""
DATES = ("generated", "vllm", "released")
LARGEST = 16 << 20
"""Bytes of all files of a set; the packaged one has 2.1 MB. The server's container has 320 MiB."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class FactsError(ValueError):
    """A set that can't be used: one line with the file and the reason."""


def digest(content: bytes) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def digests(tables: Mapping[str, bytes], name: str | None = None) -> str:
    """The text of a set's `digests.json`, of its tables by their names; raises FactsError for a name that is not one
    (default: its newest vLLM release and its version)."""
    said = json.loads(tables["facts"])
    name = f"vllm-{said['vllm']}-{said['version']}" if name is None else name
    if not _NAME.fullmatch(name):
        raise FactsError(f"name: {name!r} is not a name of a set: letters, digits, '.', '_' and '-', at most 63")
    files = {f"{table}.json": digest(tables[table]) for table in NAMES}
    dates = {key: said[key] for key in DATES}
    return json.dumps({"schema": SCHEMA, "name": name, **dates, "sha256": files}, indent=1) + "\n"


def of_files(files: Mapping[str, bytes]) -> Tables:
    """The set of these files, verified: `digests.json` and the tables that it lists. Raises FactsError."""
    from podfit.base.facts_shape import problem  # pydantic: only where there is a set

    said = _object(DIGESTS, files)
    if said.get("schema") is True or said.get("schema") != SCHEMA:
        raise FactsError(f"{DIGESTS}: schema version {_quoted(said.get('schema'))}, expected {SCHEMA}")
    name, listed = said.get("name"), said.get("sha256")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise FactsError(f"{DIGESTS}: name {_quoted(name)} is not letters, digits, '.', '_' and '-', at most 63")
    expected = {f"{table}.json" for table in NAMES}
    if not isinstance(listed, dict) or listed.keys() != expected:
        wrong = min(expected ^ listed.keys()) if isinstance(listed, dict) else "sha256"
        raise FactsError(f"{DIGESTS}: {_quoted(wrong)} is {'missing' if wrong in {*expected, 'sha256'} else 'unknown'}")
    for file in sorted(expected):
        if digest(_bytes(file, files)) != listed[file]:
            raise FactsError(f"{file}: its SHA-256 is not that of {DIGESTS}")
    for table in NAMES:
        if (why := problem(table, _object(f"{table}.json", files))) is not None:
            raise FactsError(f"{table}.json: {why}")
    content = {table: files[f"{table}.json"] for table in NAMES}
    tables = Tables(content.__getitem__, name, digest(files[DIGESTS])[:12])
    for key in DATES:
        if said.get(key) != tables.load("facts")[key]:
            raise FactsError(f"{DIGESTS}: {key} is not that of facts.json")
    for table, section in (("models", "models"), ("model_defaults", "model_types")):
        if not tables.rows(table).keys() >= tables.load(table)[section].keys():
            raise FactsError(f"{table}.json: {section} is not written one entry per line")
    return tables


def _bytes(file: str, files: Mapping[str, bytes]) -> bytes:
    """The bytes of one file."""
    if file not in files:
        raise FactsError(f"{file}: no such file")
    return files[file]


def _object(file: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        found = json.loads(_bytes(file, files).decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except FactsError:
        raise
    except _AmbiguousError as error:
        raise FactsError(f"{file}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise FactsError(f"{file}: not JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise FactsError(f"{file}: expected a JSON object")
    return found


class _AmbiguousError(ValueError):
    """JSON that parsers read differently."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's members. Raises _AmbiguousError if two have one name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _AmbiguousError(f"{_quoted(max(names, key=names.count))} is there twice")
    return found


def _no_number(word: str) -> None:
    raise _AmbiguousError(f"{word} is not a number of JSON")


def _quoted(value: object) -> str:
    return f"{value!r:.60}"
