"""The packaged tables: facts with their sources, read once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pkgutil import get_data  # importlib.resources says the same in 17 ms of imports
from typing import Any


@cache
def load(name: str) -> Any:
    """The table `name` ("gpus", "flags" …) as its JSON says; raises FileNotFoundError where there is none."""
    return json.loads(_read(name))


@cache
def rows(name: str) -> Mapping[str, str]:
    """A large table written one row a line: key → the row's JSON, for the caller to parse.

    Parsing all of a megabyte to look one model up would be most of a command's time.
    """
    lines = (line.partition('":') for line in _read(name).decode().split("\n") if line.startswith('"'))
    return {key[1:]: row.strip().removesuffix(",") for key, _, row in lines}


def age() -> str:
    """The version of the tables, and how new they are: the newest vLLM release, and the month of the other entries."""
    said = load("facts")
    newest = f"vLLM up to {said['vllm']} ({said['released']})"
    return f"facts {said['version']}: {newest}, models and GPUs of {said['generated']}"


def _read(name: str) -> bytes:
    """The bytes of `webhook/data/NAME.json`; raises FileNotFoundError where there is none."""
    found = get_data("webhook", f"data/{name}.json")
    if found is None:
        raise FileNotFoundError(f"no table webhook/data/{name}.json")
    return found
