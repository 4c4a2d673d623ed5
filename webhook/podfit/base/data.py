"""The tables that podfit uses: facts with their sources, read once. The packaged set, or a newer one.

The set in use belongs to the evaluation (`using`), not to the process. A review ends with the set
that it began with, while others use the next one. What is computed from tables is remembered per set (`remembered`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, update_wrapper
from pkgutil import get_data  # importlib.resources says the same in 17 ms of imports
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
Result = TypeVar("Result", covariant=True)


class Tables:
    """One set of tables, and what is remembered of it; never changed."""

    def __init__(self, read: Callable[[str], bytes], name: str | None = None, version: str | None = None) -> None:
        """`read`: the bytes of a table, FileNotFoundError where there is none. `name`: of a set that is not packaged;
        `version`: a short hash of it."""
        self._read = read
        self.name = name
        self._version = version
        self._loaded: dict[str, Any] = {}
        self._rows: dict[str, Mapping[str, str]] = {}
        self._memories: dict[Callable[..., Any], Callable[..., Any]] = {}

    def load(self, name: str) -> Any:
        """The table `name` ("gpus", "flags" …) as its JSON says; raises FileNotFoundError where there is none."""
        if name not in self._loaded:
            self._loaded[name] = json.loads(self._read(name))
        return self._loaded[name]

    def rows(self, name: str) -> Mapping[str, str]:
        """A large table written one row a line: key → the row's JSON, for the caller to parse.

        Parsing all of a megabyte to look one model up would be most of a command's time.
        """
        if name not in self._rows:
            lines = (line.partition('":') for line in self._read(name).decode().split("\n") if line.startswith('"'))
            self._rows[name] = {key[1:]: row.strip().removesuffix(",") for key, _, row in lines}
        return self._rows[name]

    @property
    def version(self) -> str:
        """A short hash of all tables."""
        return self._version or str(self.load("facts")["version"])

    def age(self) -> str:
        """The name and version of the set, and how new it is: the newest vLLM release, and the month of the other
        entries."""
        said = self.load("facts")
        newest = f"vLLM up to {said['vllm']} ({said['released']})"
        which = self.version if self.name is None else f"{self.name} ({self.version})"
        return f"facts {which}: {newest}, models and GPUs of {said['generated']}"

    def memory(self, function: Callable[P, T], size: int | None) -> Callable[P, T]:
        """What is remembered of a function's answers by this set."""
        found = self._memories.get(function)
        if found is None:
            found = self._memories.setdefault(function, lru_cache(size)(function))
        return found


def _packaged(name: str) -> bytes:
    """The bytes of `webhook/podfit/data/NAME.json`."""
    found = get_data("podfit", f"data/{name}.json")
    if found is None:
        raise FileNotFoundError(f"no table webhook/podfit/data/{name}.json")
    return found


PACKAGED = Tables(_packaged)
"""The set that this podfit was built with."""
_USED: ContextVar[Tables] = ContextVar("tables")
_process = [PACKAGED]
"""What is used where no evaluation says otherwise."""


def current() -> Tables:
    """The set in use."""
    return _USED.get(_process[0])


def use(tables: Tables) -> None:
    """Make a set the one of the whole process: for a command, which uses one set from start to end."""
    _process[0] = tables


@contextmanager
def using(tables: Tables) -> Iterator[None]:
    """Use a set in this block, and in what it calls."""
    before = _USED.set(tables)
    try:
        yield
    finally:
        _USED.reset(before)


def load(name: str) -> Any:
    """`Tables.load` of the set in use."""
    return current().load(name)


def rows(name: str) -> Mapping[str, str]:
    """`Tables.rows` of the set in use."""
    return current().rows(name)


def age() -> str:
    """`Tables.age` of the set in use."""
    return current().age()


class Remembered(Protocol, Generic[P, Result]):
    """A function whose answers are remembered; `cache_info` and `cache_clear` are of the packaged set's."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result: ...
    def cache_info(self) -> Any: ...
    def cache_clear(self) -> None: ...


def remembered(size: int | None = None) -> Callable[[Callable[P, T]], Remembered[P, T]]:
    """`functools.lru_cache` for what depends on the tables: each set has its own answers."""

    def decorate(function: Callable[P, T]) -> Remembered[P, T]:
        packaged = lru_cache(size)(function)
        memory: Callable[..., T] = packaged

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            tables = _USED.get(_process[0])
            found = memory if tables is PACKAGED else tables.memory(function, size)
            return found(*args, **kwargs)

        update_wrapper(call, function)
        call.__dict__.update(cache_info=packaged.cache_info, cache_clear=packaged.cache_clear)
        return cast("Remembered[P, T]", call)

    return decorate
