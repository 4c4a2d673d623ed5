"""Releases that the package's table lacks: rows of the table from what a policy or newer facts add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from podfit.vllm.args.flags import Row, Table, builtin
from podfit.vllm.release import Release, parse

_SUPPRESS = "==SUPPRESS=="
Lesson = tuple[str, str | None, Sequence[str], Mapping[str, Row]]
"""An added release: the arguments of `teach_release` after `table`, which are its number, the release that it equals
otherwise, the removed options, and the others by dest."""


class TaughtError(ValueError):
    """A release can't be added to the table; the text gives the reason."""


def row(option: Mapping[str, Any], entries: Iterable[str] = ()) -> Row:
    """One option, as a dump of a parser describes it → its row in the table.

    The row has what decides how the option is parsed; help texts, groups and titles are left out. `entries` are the
    entry points of all options of the release; the row names its entry point only if the option has just one.
    """
    default = option.get("default")
    if isinstance(default, str) and (default == _SUPPRESS or default.startswith("<")):
        default = None  # an object of vLLM's own, or no default: not a value that a command line can set
    own_entries = _entries(option)
    action = option.get("action")
    written = {
        "flags": option.get("flags") or None,
        "negative": option.get("negative_flags") or None,
        "nargs": option.get("nargs"),
        "const": option.get("const"),
        "type": option.get("type"),
        "choices": option.get("choices"),
        "default": default,
        "action": None if action == "_StoreAction" else action,
        "deprecated": option.get("deprecated") or None,
        "only": min(own_entries) if own_entries and not own_entries >= set(entries) else None,
    }
    return {key: value for key, value in written.items() if value is not None}


def rows(options: Iterable[Mapping[str, Any]]) -> dict[str, Row]:
    """The rows of all options in a dump of a parser, by dest."""
    items = list(options)
    entries = set[str]()
    for item in items:
        if item.get("flags"):
            entries |= _entries(item)
    return {str(item["dest"]): row(item, entries) for item in items}


def _entries(option: Mapping[str, Any]) -> set[str]:
    """The entry points of an option in a dump, which writes them as "serve" or "serve(…)"."""
    return {entry.partition("(")[0] for entry in option.get("entrypoints") or ()}


class OptionsDifference(NamedTuple):
    """The difference between two releases' options."""

    removed: list[str]
    """Their dests."""
    changed: dict[str, Row]
    """dest → row of the newer release, of new and of changed options."""


def options_difference(new: Mapping[str, Row], old: Mapping[str, Row]) -> OptionsDifference:
    """The difference between two releases' options, which are by dest."""
    changed = {dest: option for dest, option in new.items() if old.get(dest) != option}
    return OptionsDifference([dest for dest in old if dest not in new], changed)


def teach_release(
    table: Table, release: str, like: str | None, removed: Iterable[str], options: Mapping[str, Row]
) -> Table:
    """The table with one more release, which equals the release `like` (default: the newest) except for some options.

    `removed` are dests or flags; `options` are by dest, as the table writes them. Raises TaughtError.
    """
    new_release = parse(release)
    base = table.releases[-1] if like is None else parse(like)
    if new_release is None:
        raise TaughtError(f"{release!r} is not a vLLM release such as 0.34.0")
    if base not in table.releases:
        raise TaughtError(f"{like!r} is not in the table; its newest release is {table.releases[-1]}")
    rows_of_base = dict(table.rows(base))
    for word in removed:
        dests = [dest for dest, item in rows_of_base.items() if word in _names(dest, item)]
        if not dests:
            raise TaughtError(f"{word!r} can't be removed: {base} does not know it")
        for dest in dests:
            del rows_of_base[dest]
    return table.with_release(new_release, {**rows_of_base, **options})


def _names(dest: str, option: Row) -> tuple[str, ...]:
    """The names by which a removed option may be given: its dest and its flags."""
    return dest, *option.get("flags", ()), *option.get("negative", ())


class TaughtTable:
    """The table in use with the additions of a policy; built once per set of facts."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        self.lessons = tuple(lessons)
        self._by_base: WeakKeyDictionary[Table, Table] = WeakKeyDictionary()

    def __call__(self) -> Table:
        """The table. Additions that do not apply to newer facts are left out (the facts know the release themselves, or
        lack an option that is removed)."""
        base = builtin()
        table = self._by_base.get(base)
        if table is None:
            table = base
            for lesson in self.lessons:
                with suppress(TaughtError):
                    table = teach_release(table, *lesson)
            self._by_base[base] = table
        return table


def newest_before(table: Table, release: Release) -> Release:
    """The release of the table that a new release probably resembles most: the newest before it, else the oldest."""
    return max((known for known in table.releases if known < release), default=table.releases[0])
