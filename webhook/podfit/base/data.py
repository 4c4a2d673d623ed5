"""The packaged tables: facts with their sources, in `webhook/podfit/data`. Each is read once, when it is first used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pkgutil import get_data  # importlib.resources says the same in 17 ms of imports
from typing import Any

TABLES = ("gpus", "instances", "model_defaults", "models", "recipes", "releases")
"""All tables. `facts.json` has the month in which the newest entry of them was read."""
VERSION_DIGITS = 12
"""Hexadecimal digits of the version. A choice: as many as git prints for a commit of a large repository."""


def _content(name: str) -> bytes:
    """The bytes of `webhook/podfit/data/NAME.json`."""
    content = get_data("podfit", f"data/{name}.json")
    if content is None:
        raise FileNotFoundError(f"no table webhook/podfit/data/{name}.json")
    return content


@cache
def load(name: str) -> Any:
    """The value of the table `name` ("gpus", "releases" …); raises FileNotFoundError if there is none."""
    return json.loads(_content(name))


@cache
def rows(name: str) -> Mapping[str, str]:
    """A large table written one row a line: key → the row's JSON, for the caller to parse.

    Parsing all of a megabyte to look one model up would be most of a command's time.
    """
    table: dict[str, str] = {}
    for line in _content(name).decode().split("\n"):
        if line.startswith('"'):  # `"KEY": {…},`; the other lines are the braces around all rows
            key, _, row = line.removeprefix('"').partition('":')
            table[key] = row.strip().removesuffix(",")
    return table


@cache
def version() -> str:
    """The first VERSION_DIGITS hexadecimal digits of the SHA-256 of all tables: another one for other facts."""
    import hashlib  # here, because `podfit check` does not need the version

    digest = hashlib.sha256()
    for name in TABLES:
        digest.update(f"{name}.json\0".encode() + _content(name) + b"\0")
    return digest.hexdigest()[:VERSION_DIGITS]


def month() -> str:
    """The month in which the newest entry of the tables was read ("2026-11")."""
    return str(load("facts")["generated"])


def age() -> str:
    """The version of the tables, the newest vLLM release in them, and the month of their other entries."""
    releases = load("releases")
    newest = releases["flags"]["releases"][-1]
    return f"facts {version()}: vLLM up to {newest} ({releases['dates'][newest]}), models and GPUs of {month()}"
