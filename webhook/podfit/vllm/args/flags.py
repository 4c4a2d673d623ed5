"""The table of options: which flags a release's parser has, and how each is read (`data/releases.json`, `flags`).

A policy may add releases to it (`Table.taught`).
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

from podfit.base.data import load
from podfit.vllm.release import Images, Release, known_releases, neighbours


class Option(NamedTuple):
    """One `add_argument` of vLLM's parser."""

    dest: str
    flags: tuple[str, ...] = ()
    """All spellings; empty for the positional argument."""
    negative: tuple[str, ...] = ()
    """Spellings that switch it off: `--no-x`, and `--disable-x` for `--enable-x` if the release pairs them."""
    nargs: str | int | None = None
    const: Any = None
    type: str | None = None
    choices: tuple[Any, ...] | None = None
    default: Any = None
    action: str | None = None
    deprecated: bool = False
    only: str | None = None
    """The only entry point that has it ("serve" or "module"); None: all have it."""

    @property
    def name(self) -> str:
        """The option's name in argparse's messages."""
        return "/".join(self.flags) or self.dest


class Flag(NamedTuple):
    """A word that argparse takes for a flag."""

    spelling: str
    option: Option | None
    """None if the release does not know it."""
    on: bool = True
    explicit: str | None = None
    """The value after `=`, or glued to a short flag."""
    candidates: tuple[str, ...] = ()
    """If there are several: the abbreviation is ambiguous."""


class Parser(NamedTuple):
    """The options of one release's parser, for one entry point."""

    release: Release
    entry: str
    table: Table
    """The table that it belongs to."""
    spellings: Mapping[str, tuple[Option, bool]]
    """Flag → its option, and whether this spelling switches it on."""
    flags: dict[str, Flag]
    """The flags that command lines have used so far, spelled out and without values. They are added when they are
    first read, so that the first use of a release makes only a few."""
    ordered: tuple[str, ...]
    """The spellings in sorted order, so that those with the same beginning are adjacent."""
    positional: Option | None
    underscores: bool
    """`--some_flag` is `--some-flag`."""
    defaults: Mapping[str, Any]
    dests: frozenset[str]
    plain: frozenset[str]
    """The spellings that carry no information beyond their option: `--max-model-len`, unlike 0.33's `--disable-x` for
    `--enable-x`."""

    def flags_beginning_with(self, text: str) -> list[str]:
        """The flags that begin with `text`."""
        from_text = itertools.islice(self.ordered, bisect_left(self.ordered, text), None)
        return list(itertools.takewhile(lambda flag: flag.startswith(text), from_text))


def is_plain_spelling(flag: str, dests: Container[str]) -> bool:
    """True if the flag has the same name as its option, or switches it off with `no-`."""
    name = name_of(flag)
    return not flag.startswith("--") or name in dests or name.startswith("no_")


def name_of(flag: str) -> str:
    """The argument's name of a flag: `--some-flag` → `some_flag`."""
    return flag.lstrip("-").replace("-", "_")


HELP = Option("help", ("-h", "--help"), nargs=0, action="help")
Row = Mapping[str, Any]
"""An option as `data/releases.json` writes it: `flags`, `negative`, `nargs`, `const`, `type`, `choices`, `default`,
`action`, `deprecated`, `only`; null values are left out."""


class Table:
    """The options of all releases in the table; immutable."""

    def __init__(
        self,
        releases: Sequence[Release],
        definitions: Sequence[Row],
        spans: Mapping[str, Sequence[tuple[int, int, int]]],
        underscores: Release,
    ) -> None:
        self.releases = tuple(releases)
        """Oldest first."""
        self._definitions = definitions
        self._spans = spans
        """dest → the first and last release with this definition (indices, both included), and its index."""
        self._underscores = underscores
        self._read_options: dict[tuple[str, int], Option] = {}
        self._parsers: dict[tuple[Release, str], Parser] = {}
        self._knowing = lru_cache(1024)(self._indices_by_prefix)
        self._around = lru_cache(1024)(lambda release: neighbours(release, self.releases))
        self._taught: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The releases that were added: two tables with the same text are equal."""
        return f"Table({', '.join(self._taught)})"

    def _option(self, dest: str, definition: int) -> Option:
        """The option of a definition, built once."""
        option = self._read_options.get((dest, definition))
        if option is None:
            row = dict(self._definitions[definition])
            for key in ("flags", "negative", "choices"):
                if key in row:
                    row[key] = tuple(row[key])
            option = self._read_options[dest, definition] = Option(dest, **row)
        return option

    def _options(self, number: int) -> Iterator[Option]:
        """The options of the release with this index in the table."""
        for dest, spans in self._spans.items():
            for first, last, definition in spans:
                if first <= number <= last:
                    yield self._option(dest, definition)

    def parser(self, release: Release, entry: str) -> Parser:
        """The parser of a release that is in the table, for `entry` ("serve" or "module")."""
        cached = self._parsers.get((release, entry))
        if cached is None:
            cached = self._parsers[release, entry] = self._parser(release, entry)
        return cached

    def _parser(self, release: Release, entry: str) -> Parser:
        """The parser of one release and entry point: every spelling → its option."""
        spellings = dict.fromkeys(HELP.flags, (HELP, True))
        positional = None
        options = [o for o in self._options(self.releases.index(release)) if o.only in (None, entry)]
        for option in options:
            on = (option, True)
            for flag in option.flags:
                spellings[flag] = on
            if not option.flags:
                positional = option
        for option in options:
            for flag in option.negative:
                spellings.setdefault(flag, (option, False))
        if positional is None and entry == "serve":  # before 0.5.4 the table has only the module's options
            positional = Option("model_tag", type="str")
        dests = frozenset(option.dest for option in options)
        return Parser(
            release=release,
            entry=entry,
            table=self,
            spellings=spellings,
            flags={},
            ordered=tuple(sorted(spellings)),
            positional=positional,
            underscores=release >= self._underscores,
            defaults={option.dest: option.default for option in options},
            dests=dests,
            plain=frozenset(flag for flag in spellings if is_plain_spelling(flag, dests)),
        )

    def neighbours(self, release: Release) -> tuple[Release | None, Release | None]:
        """The releases in the table around a release, as `podfit.vllm.release.neighbours` returns them."""
        return self._around(release)

    @cached_property
    def _spans_by_flag(self) -> Mapping[str, list[tuple[int, int, Option]]]:
        """Flag → (first release, last release, option) for each unbroken run of releases that know it; releases are
        indices."""
        entries: dict[str, list[tuple[int, int, Option]]] = {}
        for dest, spans in self._spans.items():
            for first, last, definition in spans:
                option = self._option(dest, definition)
                for flag in (*option.flags, *option.negative):
                    entries.setdefault(flag, []).append((first, last, option))
        return entries

    def nearest_releases_with(self, flag: str, release: Release) -> tuple[Release, Release, Option] | None:
        """The nearest unbroken run of releases that know `flag`, for a `release` that does not, and its option there.

        An earlier run comes first, because people still write flags that were removed. None: no release knows it.
        """
        if flag not in self._spans_by_flag:
            return None
        spans = sorted(self._spans_by_flag[flag], key=lambda span: span[0])
        at = self.releases.index(release)
        before = [span for span in spans if span[1] < at]
        after = [span for span in spans if span[0] > at]
        if before:
            first, last, option = before[-1]
            for earlier, ended, _ in reversed(before[:-1]):
                if ended >= first - 1:
                    first = min(first, earlier)
        elif after:
            first, last, option = after[0]
            for begun, later, _ in after[1:]:
                if begun <= last + 1:
                    last = max(last, later)
        else:
            return None
        return self.releases[first], self.releases[last], option

    @cached_property
    def spellings(self) -> frozenset[str]:
        """All flags of all releases."""
        return frozenset(self._spans_by_flag)

    def choices(self, dest: str) -> frozenset[Any]:
        """The values that some release lists as choices of an option."""
        definitions = (self._definitions[span[2]] for span in self._spans.get(dest, ()))
        return frozenset(choice for row in definitions for choice in row.get("choices") or ())

    @cached_property
    def beginnings(self) -> frozenset[str]:
        """Words that argparse accepts for one or several of them: each flag and all its beginnings of at least three
        characters."""
        return frozenset(flag[:end] for flag in self._spans_by_flag for end in range(min(3, len(flag)), len(flag) + 1))

    def _indices_by_prefix(self, flag: str) -> frozenset[int]:
        """Indices of the releases that know `flag`, or a longer flag that begins with it."""
        spans = [span for spelling, lives in self._spans_by_flag.items() if spelling.startswith(flag) for span in lives]
        return frozenset(number for first, last, _ in spans for number in range(first, last + 1))

    def releases_accepting(self, flags: Iterable[str]) -> tuple[Release, ...]:
        """The releases whose parser accepts each of `flags`, spelled out or as a beginning (argparse takes both).

        A flag that no release knows is ignored. If no release knows all the others, all releases are returned.
        """
        accepting = frozenset(range(len(self.releases)))
        for flag in flags:
            accepting &= self._knowing(flag) or accepting
        return tuple(release for number, release in enumerate(self.releases) if number in accepting) or self.releases

    def rows(self, release: Release) -> dict[str, Row]:
        """dest → its definition in a release of the table."""
        number = self.releases.index(release)
        return {
            dest: self._definitions[definition]
            for dest, spans in self._spans.items()
            for first, last, definition in spans
            if first <= number <= last
        }

    def with_release(self, release: Release, rows: Mapping[str, Row]) -> Table:
        """The table with one more release, or with another definition of one that it has."""
        known = {known_release: self.rows(known_release) for known_release in self.releases}
        known[release] = dict(rows)
        table = _build_table(known, self._underscores)
        table._taught = (*self._taught, f"{release}: {json.dumps(rows, sort_keys=True, default=str)}")
        return table


def _build_table(rows_of: Mapping[Release, Mapping[str, Row]], underscores: Release) -> Table:
    """The table built from the rows of each release; definitions that do not change are stored once."""
    releases = sorted(rows_of)
    definitions: list[Row] = []
    spans: dict[str, list[tuple[int, int, int]]] = {}
    for number, release in enumerate(releases):
        for dest, row in rows_of[release].items():
            before = spans.setdefault(dest, [])
            if before and before[-1][1] == number - 1 and definitions[before[-1][2]] == row:
                before[-1] = (before[-1][0], number, before[-1][2])
            else:
                definitions.append(row)
                before.append((number, number, len(definitions) - 1))
    return Table(releases, definitions, spans, underscores)


@cache
def builtin() -> Table:
    """The table of the package."""
    data = load("releases")["flags"]
    return Table(known_releases(), data["definitions"], data["options"], known_releases()[data["underscores"]])


class Releases(NamedTuple):
    """The packaged tables about vLLM's releases, and what a policy adds to them."""

    images: Images = ()
    """The release that an image contains, for images whose tag does not name it."""
    make_table: Callable[[], Table] = builtin
    """Builds the table from the facts in use."""

    @property
    def table(self) -> Table:
        """The options of all known releases."""
        return self.make_table()
